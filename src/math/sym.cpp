#include "math/sym.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace opwright::math {

namespace {
constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
constexpr size_t kExpandLimit = 16;  // products of sums are multiplied out up to this many terms
}  // namespace

struct Sym::Node {
    SymKind kind;
    int64_t value = 0;          // Const
    std::string name;           // Symbol
    std::vector<Sym> operands;  // Add: terms, constant last; Mul: factors, constant first
    int64_t lower = kLow, upper = kHigh;
    uint64_t hash = 0;
    uint64_t size = 1;          // nodes of the expression seen as a tree, saturating
};

namespace {

uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdull;
    return h ^ (h >> 33);
}

// Arithmetic on bounds: saturates, and infinities absorb.
int64_t bound_add(int64_t a, int64_t b) {
    if (a == kLow || b == kLow) return kLow;
    if (a == kHigh || b == kHigh) return kHigh;
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return a > 0 ? kHigh : kLow;
    return r;
}
int64_t bound_mul(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return 0;
    int64_t r;
    if (a == kLow || a == kHigh || b == kLow || b == kHigh || __builtin_mul_overflow(a, b, &r))
        return (a > 0) == (b > 0) ? kHigh : kLow;
    return r;
}
int64_t floor_div_int(int64_t a, int64_t b) {
    int64_t q = a / b;
    if (a % b != 0 && (a < 0) != (b < 0)) --q;
    return q;
}
}  // namespace

// Builds nodes and computes their cached facts.
struct SymAccess {
    static Sym wrap(std::shared_ptr<const Sym::Node> n) { return Sym(std::move(n)); }

    static Sym make(SymKind kind, std::vector<Sym> operands) {
        auto n = std::make_shared<Sym::Node>();
        n->kind = kind;
        n->hash = mix(0, static_cast<uint64_t>(kind) + 17);
        for (const Sym& o : operands) {
            n->hash = mix(n->hash, o.hash());
            n->size = std::min<uint64_t>(n->size + o.node_->size, uint64_t{1} << 40);
        }
        n->operands = std::move(operands);
        bounds(*n);
        return wrap(std::move(n));
    }

    static void bounds(Sym::Node& n) {
        const auto& o = n.operands;
        switch (n.kind) {
            case SymKind::Const: case SymKind::Symbol: return;
            case SymKind::Add:
                n.lower = n.upper = 0;
                for (const Sym& s : o) {
                    n.lower = n.lower == kLow || s.lower() == kLow ? kLow : bound_add(n.lower, s.lower());
                    n.upper = n.upper == kHigh || s.upper() == kHigh ? kHigh : bound_add(n.upper, s.upper());
                }
                return;
            case SymKind::Mul: {
                n.lower = n.upper = 1;
                for (const Sym& s : o) {
                    const int64_t c[4] = {bound_mul(n.lower, s.lower()), bound_mul(n.lower, s.upper()),
                                          bound_mul(n.upper, s.lower()), bound_mul(n.upper, s.upper())};
                    n.lower = *std::min_element(c, c + 4);
                    n.upper = *std::max_element(c, c + 4);
                }
                return;
            }
            case SymKind::FloorDiv: {
                const Sym &a = o[0], &b = o[1];
                if (b.lower() < 1) return;
                const auto div = [](int64_t x, int64_t d) {
                    if (d == kHigh) return x < 0 ? int64_t{-1} : int64_t{0};
                    return x == kLow || x == kHigh ? x : floor_div_int(x, d);
                };
                n.lower = div(a.lower(), a.lower() < 0 ? b.lower() : b.upper());
                n.upper = div(a.upper(), a.upper() < 0 ? b.upper() : b.lower());
                return;
            }
            case SymKind::Mod:
                if (o[1].lower() < 1) return;
                n.lower = 0;
                n.upper = o[1].upper() == kHigh ? kHigh : o[1].upper() - 1;
                if (o[0].lower() >= 0) n.upper = std::min(n.upper, o[0].upper());
                return;
            case SymKind::Min:
                n.lower = std::min(o[0].lower(), o[1].lower());
                n.upper = std::min(o[0].upper(), o[1].upper());
                return;
            case SymKind::Max:
                n.lower = std::max(o[0].lower(), o[1].lower());
                n.upper = std::max(o[0].upper(), o[1].upper());
                return;
            case SymKind::Less: case SymKind::Equal:
                n.lower = 0;
                n.upper = 1;
                return;
            case SymKind::Select:
                n.lower = std::min(o[1].lower(), o[2].lower());
                n.upper = std::max(o[1].upper(), o[2].upper());
                return;
        }
    }
};

Sym::Sym(int64_t v) {
    auto n = std::make_shared<Node>();
    n->kind = SymKind::Const;
    n->value = n->lower = n->upper = v;
    n->hash = mix(1, static_cast<uint64_t>(v));
    node_ = std::move(n);
}

Sym Sym::symbol(const std::string& name, int64_t lower_bound) {
    auto n = std::make_shared<Node>();
    n->kind = SymKind::Symbol;
    n->name = name;
    n->lower = lower_bound;
    n->hash = mix(2, std::hash<std::string>{}(name));
    return Sym(std::move(n));
}

SymKind Sym::kind() const { return node_->kind; }
std::optional<int64_t> Sym::constant() const {
    if (node_->kind != SymKind::Const) return std::nullopt;
    return node_->value;
}
const std::string& Sym::symbol_name() const { return node_->name; }
const std::vector<Sym>& Sym::operands() const { return node_->operands; }
int64_t Sym::lower() const { return node_->lower; }
int64_t Sym::upper() const { return node_->upper; }
uint64_t Sym::hash() const { return node_->hash; }
uint64_t Sym::size() const { return node_->size; }

// Canonical form makes structural equality meaningful; 64 mixed hash bits and the size stand for the structure.
bool Sym::known_equal(const Sym& o) const {
    return node_ == o.node_ ||
           (node_->hash == o.node_->hash && node_->kind == o.node_->kind && node_->size == o.node_->size);
}
bool Sym::known_different(const Sym& o) const {
    const Sym d = *this - o;
    return d.lower() > 0 || d.upper() < 0;
}

bool Sym::multiple_of(int64_t d) const {
    if (d == 1) return true;
    switch (kind()) {
        case SymKind::Const: return node_->value % d == 0;
        case SymKind::Add:
            return std::all_of(operands().begin(), operands().end(), [&](const Sym& s) { return s.multiple_of(d); });
        case SymKind::Mul:
            return std::any_of(operands().begin(), operands().end(), [&](const Sym& s) { return s.multiple_of(d); });
        case SymKind::Min: case SymKind::Max: return operands()[0].multiple_of(d) && operands()[1].multiple_of(d);
        case SymKind::Select: return operands()[1].multiple_of(d) && operands()[2].multiple_of(d);
        case SymKind::Symbol: case SymKind::FloorDiv: case SymKind::Mod: case SymKind::Less: case SymKind::Equal:
            return false;
    }
    return false;
}

namespace {

// A sum as coefficient * monomial terms plus a constant; a monomial is a sorted list of non-constant factors.
struct Term {
    int64_t coefficient;
    std::vector<Sym> factors;
};
struct Sum {
    std::vector<Term> terms;
    int64_t constant = 0;
};

bool before(const Sym& a, const Sym& b) {
    if (a.kind() == SymKind::Symbol && b.kind() == SymKind::Symbol) return a.symbol_name() < b.symbol_name();
    if (a.kind() != b.kind()) return a.kind() < b.kind();
    return a.hash() < b.hash();
}
bool same_factors(const std::vector<Sym>& a, const std::vector<Sym>& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}
bool factors_before(const std::vector<Sym>& a, const std::vector<Sym>& b) {
    if (a.size() != b.size()) return a.size() > b.size();
    for (size_t i = 0; i < a.size(); ++i)
        if (!(a[i] == b[i])) return before(a[i], b[i]);
    return false;
}

Term term_of(const Sym& s) {
    if (s.kind() != SymKind::Mul) return {1, {s}};
    const auto& o = s.operands();
    if (auto c = o[0].constant()) return {*c, {o.begin() + 1, o.end()}};
    return {1, o};
}
Sum sum_of(const Sym& s) {
    Sum r;
    if (auto c = s.constant()) {
        r.constant = *c;
    } else if (s.kind() == SymKind::Add) {
        for (const Sym& t : s.operands()) {
            if (auto c = t.constant()) r.constant = *c;
            else r.terms.push_back(term_of(t));
        }
    } else {
        r.terms.push_back(term_of(s));
    }
    return r;
}
Sym build(Term t) {
    if (t.coefficient == 1 && t.factors.size() == 1) return t.factors[0];
    std::vector<Sym> o;
    if (t.coefficient != 1) o.emplace_back(t.coefficient);
    o.insert(o.end(), t.factors.begin(), t.factors.end());
    return SymAccess::make(SymKind::Mul, std::move(o));
}
Sym build(Sum s) {
    std::sort(s.terms.begin(), s.terms.end(),
              [](const Term& a, const Term& b) { return factors_before(a.factors, b.factors); });
    std::vector<Sym> o;
    for (size_t i = 0; i < s.terms.size();) {
        Term t = s.terms[i++];
        while (i < s.terms.size() && same_factors(t.factors, s.terms[i].factors)) {
            if (__builtin_add_overflow(t.coefficient, s.terms[i++].coefficient, &t.coefficient)) t.coefficient = kHigh;
        }
        if (t.coefficient != 0) o.push_back(build(std::move(t)));
    }
    if (o.empty()) return Sym(s.constant);
    if (s.constant != 0) o.emplace_back(s.constant);
    if (o.size() == 1) return o[0];
    return SymAccess::make(SymKind::Add, std::move(o));
}

// Removes the factors of `by` from t; false if t is no multiple of it.
bool divide_term(Term& t, const Term& by) {
    if (by.coefficient == 0 || t.coefficient % by.coefficient != 0) return false;
    Term r{t.coefficient / by.coefficient, t.factors};
    for (const Sym& f : by.factors) {
        auto it = std::find(r.factors.begin(), r.factors.end(), f);
        if (it == r.factors.end()) return false;
        r.factors.erase(it);
    }
    t = std::move(r);
    return true;
}

// a = by * quotient + rest, where `by` is a constant or a single product; moves every divisible term to the quotient.
bool split_multiple(const Sym& a, const Sym& by, Sum& quotient, Sum& rest) {
    Term divisor;
    if (auto c = by.constant()) divisor = {*c, {}};
    else if (by.kind() == SymKind::Add) return false;
    else divisor = term_of(by);
    const Sum s = sum_of(a);
    for (Term t : s.terms) {
        if (divide_term(t, divisor)) {
            if (t.factors.empty()) quotient.constant += t.coefficient;
            else quotient.terms.push_back(std::move(t));
        } else {
            rest.terms.push_back(std::move(t));
        }
    }
    if (divisor.factors.empty()) {
        const int64_t q = floor_div_int(s.constant, divisor.coefficient);
        quotient.constant += q;
        rest.constant = s.constant - q * divisor.coefficient;
        // A quotient of the constant alone is only canonical when something else was moved or nothing is left over.
    } else {
        rest.constant = s.constant;
    }
    return true;
}
}  // namespace

Sym operator+(const Sym& a, const Sym& b) {
    Sum s = sum_of(a), t = sum_of(b);
    s.terms.insert(s.terms.end(), t.terms.begin(), t.terms.end());
    if (__builtin_add_overflow(s.constant, t.constant, &s.constant)) s.constant = kHigh;
    return build(std::move(s));
}
Sym operator-(const Sym& a) { return a * Sym(-1); }
Sym operator-(const Sym& a, const Sym& b) { return a + (-b); }

Sym operator*(const Sym& a, const Sym& b) {
    const Sum s = sum_of(a), t = sum_of(b);
    const size_t ns = s.terms.size() + (s.constant != 0), nt = t.terms.size() + (t.constant != 0);
    Sum r;
    const auto add = [&r](const Term& x, const Term& y) {
        Term p;
        if (__builtin_mul_overflow(x.coefficient, y.coefficient, &p.coefficient)) p.coefficient = kHigh;
        p.factors = x.factors;
        p.factors.insert(p.factors.end(), y.factors.begin(), y.factors.end());
        std::sort(p.factors.begin(), p.factors.end(), before);
        if (p.factors.empty()) r.constant += p.coefficient;
        else r.terms.push_back(std::move(p));
    };
    if (ns * nt > kExpandLimit && ns > 1 && nt > 1) {
        add({1, {a}}, {1, {b}});  // kept as a product of sums
        return build(std::move(r));
    }
    for (const Term& x : s.terms) {
        for (const Term& y : t.terms) add(x, y);
        if (t.constant) add(x, {t.constant, {}});
    }
    if (s.constant) {
        for (const Term& y : t.terms) add({s.constant, {}}, y);
        if (t.constant) add({s.constant, {}}, {t.constant, {}});
    }
    return build(std::move(r));
}

Sym floor_div(const Sym& a, const Sym& b) {
    if (b.is(1)) return a;
    if (a.is(0)) return 0;
    auto ca = a.constant(), cb = b.constant();
    if (ca && cb && *cb != 0) return floor_div_int(*ca, *cb);
    if (a == b && a.lower() > 0) return 1;
    if (b.lower() > 0 && a.lower() >= 0 && (b - a).lower() > 0) return 0;
    if (!cb || *cb > 0) {
        Sum quotient, rest;
        if (split_multiple(a, b, quotient, rest)) {
            const Sym r = build(std::move(rest));
            if (r.is(0)) return build(std::move(quotient));
            const Sym q = build(std::move(quotient));
            if (!q.is(0)) return q + floor_div(r, b);
        }
    }
    // (x // c) // d == x // (c*d) for positive constants
    if (a.kind() == SymKind::FloorDiv && cb && *cb > 0)
        if (auto c = a.operands()[1].constant(); c && *c > 0) return floor_div(a.operands()[0], Sym(*c) * b);
    return SymAccess::make(SymKind::FloorDiv, {a, b});
}
Sym ceil_div(const Sym& a, const Sym& b) { return floor_div(a + b - Sym(1), b); }

Sym mod(const Sym& a, const Sym& b) {
    auto ca = a.constant(), cb = b.constant();
    if (ca && cb && *cb != 0) return *ca - floor_div_int(*ca, *cb) * *cb;
    if (b.is(1) || a.is(0)) return 0;
    if (b.lower() > 0 && a.lower() >= 0 && (b - a).lower() > 0) return a;
    if (!cb || *cb > 0) {
        Sum quotient, rest;
        if (split_multiple(a, b, quotient, rest)) {
            const Sym r = build(std::move(rest));
            if (r.is(0)) return 0;
            if (!(r == a)) return mod(r, b);
        }
    }
    return SymAccess::make(SymKind::Mod, {a, b});
}

Sym min(const Sym& a, const Sym& b) {
    const Sym d = b - a;
    if (d.lower() >= 0) return a;
    if (d.upper() <= 0) return b;
    return SymAccess::make(SymKind::Min, before(a, b) ? std::vector{a, b} : std::vector{b, a});
}
Sym max(const Sym& a, const Sym& b) {
    const Sym d = b - a;
    if (d.lower() >= 0) return b;
    if (d.upper() <= 0) return a;
    return SymAccess::make(SymKind::Max, before(a, b) ? std::vector{a, b} : std::vector{b, a});
}
Sym less(const Sym& a, const Sym& b) {
    const Sym d = b - a;
    if (d.lower() > 0) return 1;
    if (d.upper() <= 0) return 0;
    return SymAccess::make(SymKind::Less, {a, b});
}
Sym equal(const Sym& a, const Sym& b) {
    const Sym d = b - a;
    if (d.is(0)) return 1;
    if (d.lower() > 0 || d.upper() < 0) return 0;
    return SymAccess::make(SymKind::Equal, before(a, b) ? std::vector{a, b} : std::vector{b, a});
}
Sym select(const Sym& c, const Sym& a, const Sym& b) {
    if (auto v = c.constant()) return *v ? a : b;
    if (a == b) return a;
    // equal(x, k) ? k : x is x
    if (c.kind() == SymKind::Equal) {
        const auto& o = c.operands();
        if ((o[0] == a && o[1] == b) || (o[0] == b && o[1] == a)) return b;
    }
    return SymAccess::make(SymKind::Select, {c, a, b});
}
Sym product(const std::vector<Sym>& v) {
    Sym r = 1;
    for (const Sym& s : v) r = r * s;
    return r;
}

namespace {

using Memo = std::unordered_map<const Sym::Node*, std::optional<int64_t>>;

std::optional<int64_t> eval(const Sym& s, const SymValues& values, Memo& memo) {
    if (auto c = s.constant()) return c;
    if (s.kind() == SymKind::Symbol) {
        auto it = values.find(s.symbol_name());
        if (it == values.end()) return std::nullopt;
        return it->second;
    }
    if (auto it = memo.find(s.id()); it != memo.end()) return it->second;
    const auto compute = [&]() -> std::optional<int64_t> {
        const auto& o = s.operands();
        if (s.kind() == SymKind::Select) {
            auto c = eval(o[0], values, memo);
            return c ? eval(*c ? o[1] : o[2], values, memo) : std::nullopt;
        }
        auto first = eval(o[0], values, memo);
        if (!first) return std::nullopt;
        int64_t r = *first;
        for (size_t i = 1; i < o.size(); ++i) {
            auto next = eval(o[i], values, memo);
            if (!next) return std::nullopt;
            const int64_t b = *next;
            switch (s.kind()) {
                case SymKind::Add: if (__builtin_add_overflow(r, b, &r)) return std::nullopt; break;
                case SymKind::Mul: if (__builtin_mul_overflow(r, b, &r)) return std::nullopt; break;
                case SymKind::FloorDiv:
                    if (b == 0 || (r == kLow && b == -1)) return std::nullopt;
                    r = floor_div_int(r, b);
                    break;
                case SymKind::Mod:
                    if (b == 0 || (r == kLow && b == -1)) return std::nullopt;
                    r -= floor_div_int(r, b) * b;
                    break;
                case SymKind::Min: r = std::min(r, b); break;
                case SymKind::Max: r = std::max(r, b); break;
                case SymKind::Less: r = r < b; break;
                case SymKind::Equal: r = r == b; break;
                case SymKind::Const: case SymKind::Symbol: case SymKind::Select: break;
            }
        }
        return r;
    };
    auto r = compute();
    memo.emplace(s.id(), r);
    return r;
}

Sym subst(const Sym& s, const std::map<std::string, Sym>& by, std::unordered_map<const Sym::Node*, Sym>& memo) {
    if (s.is_const()) return s;
    if (s.kind() == SymKind::Symbol) {
        auto it = by.find(s.symbol_name());
        return it == by.end() ? s : it->second;
    }
    if (auto it = memo.find(s.id()); it != memo.end()) return it->second;
    std::vector<Sym> o;
    for (const Sym& x : s.operands()) o.push_back(subst(x, by, memo));
    const auto compute = [&]() -> Sym {
        switch (s.kind()) {
            case SymKind::Add: {
                Sym r = 0;
                for (const Sym& x : o) r = r + x;
                return r;
            }
            case SymKind::Mul: return product(o);
            case SymKind::FloorDiv: return floor_div(o[0], o[1]);
            case SymKind::Mod: return mod(o[0], o[1]);
            case SymKind::Min: return min(o[0], o[1]);
            case SymKind::Max: return max(o[0], o[1]);
            case SymKind::Less: return less(o[0], o[1]);
            case SymKind::Equal: return equal(o[0], o[1]);
            case SymKind::Select: return select(o[0], o[1], o[2]);
            case SymKind::Const: case SymKind::Symbol: break;
        }
        return s;
    };
    Sym r = compute();
    memo.emplace(s.id(), r);
    return r;
}

void collect(const Sym& s, std::vector<std::string>& out, std::unordered_map<const Sym::Node*, bool>& seen) {
    if (s.is_const() || !seen.emplace(s.id(), true).second) return;
    if (s.kind() == SymKind::Symbol) {
        if (std::find(out.begin(), out.end(), s.symbol_name()) == out.end()) out.push_back(s.symbol_name());
        return;
    }
    for (const Sym& o : s.operands()) collect(o, out, seen);
}
}  // namespace

std::optional<int64_t> evaluate(const Sym& s, const SymValues& values) {
    Memo memo;
    return eval(s, values, memo);
}
Sym substitute(const Sym& s, const std::map<std::string, Sym>& by) {
    if (by.empty()) return s;
    std::unordered_map<const Sym::Node*, Sym> memo;
    return subst(s, by, memo);
}
void collect_symbols(const Sym& s, std::vector<std::string>& out) {
    std::unordered_map<const Sym::Node*, bool> seen;
    collect(s, out, seen);
}

std::string Sym::str() const {
    constexpr uint64_t kPrintLimit = 400;  // a shared expression can be exponentially long as text
    if (node_->size > kPrintLimit) return "<expression " + std::to_string(node_->hash) + ">";
    const auto& o = operands();
    const auto atom = [](const Sym& s) {
        const bool simple = s.kind() != SymKind::Add && s.kind() != SymKind::Mul && s.kind() != SymKind::FloorDiv &&
                            s.kind() != SymKind::Mod && s.kind() != SymKind::Less && s.kind() != SymKind::Equal;
        return simple ? s.str() : "(" + s.str() + ")";
    };
    switch (kind()) {
        case SymKind::Const: return std::to_string(node_->value);
        case SymKind::Symbol: return node_->name;
        case SymKind::Add: {
            std::string r;
            for (size_t i = 0; i < o.size(); ++i) {
                std::string t = o[i].str();
                if (i == 0) r = t;
                else if (t[0] == '-') r += " - " + t.substr(1);
                else r += " + " + t;
            }
            return r;
        }
        case SymKind::Mul: {
            std::string r;
            for (size_t i = 0; i < o.size(); ++i) {
                if (i == 0 && o[i].is(-1)) r = "-";
                else r += (r.empty() || r == "-" ? "" : "*") + atom(o[i]);
            }
            return r;
        }
        case SymKind::FloorDiv: return atom(o[0]) + "//" + atom(o[1]);
        case SymKind::Mod: return atom(o[0]) + "%" + atom(o[1]);
        case SymKind::Min: return "min(" + o[0].str() + ", " + o[1].str() + ")";
        case SymKind::Max: return "max(" + o[0].str() + ", " + o[1].str() + ")";
        case SymKind::Less: return atom(o[0]) + " < " + atom(o[1]);
        case SymKind::Equal: return atom(o[0]) + " == " + atom(o[1]);
        case SymKind::Select: return "select(" + o[0].str() + ", " + o[1].str() + ", " + o[2].str() + ")";
    }
    return "";
}

}  // namespace opwright::math
