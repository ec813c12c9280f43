#include "target/cuda/point.h"

#include <algorithm>
#include <stdexcept>

namespace opwright::target::cuda {
using namespace math;
using L = Operand::Level;

int Context::fault(const std::string& message) {
    uses_fault = true;
    auto it = std::find(faults.begin(), faults.end(), message);
    if (it == faults.end()) it = faults.insert(faults.end(), message);
    return static_cast<int>(it - faults.begin()) + 1;
}

Operand Context::size(const Sym& s) {
    const auto find = [](const auto& list, const Sym& x) {
        return std::find_if(list.begin(), list.end(), [&](const auto& e) { return e.first == x; });
    };
    const auto name_of = [&](const Sym& x) {
        if (const auto it = find(sizes, x); it != sizes.end()) return it->second;
        auto it = find(known_sizes, x);
        if (it == known_sizes.end()) {
            // Named by the index that runs over it: a capital letter where that is one.
            std::string wanted = x.kind() == SymKind::Symbol ? x.symbol_name() : "size";
            for (const Var& v : p.vars)
                if (v.extent == x) {
                    wanted = v.name;
                    break;
                }
            if (wanted.size() == 1)
                wanted[0] = static_cast<char>(std::toupper(wanted[0]));
            else
                wanted = "n_" + wanted;
            known_sizes.emplace_back(x, names.fresh(wanted));
            permanent.push_back(known_sizes.back().second);
            it = known_sizes.end() - 1;
        }
        sizes.push_back(*it);
        return it->second;
    };
    const bool composed = s.kind() == SymKind::Add || s.kind() == SymKind::Mul;
    if (composed && find(known_sizes, s) != known_sizes.end()) return {name_of(s)};
    return print(s, name_of);
}

void Context::name_size(const Sym& s, const std::string& name) {
    for (const auto& known : known_sizes)
        if (known.first == s) return;
    if (s.is_const()) return;
    known_sizes.emplace_back(s, names.fresh(name));
    permanent.push_back(known_sizes.back().second);
}

void Point::restore(Scope s) {
    vars_ = std::move(s.vars);
    values_ = std::move(s.values);
    held_ = std::move(s.held);
    divisors_ = std::move(s.divisors);
    inward_ = std::move(s.inward);
    c_.names.restore(std::move(s.names));
    c_.names.keep(c_.permanent);
}

void Point::count_uses(ExprId root) {
    const bool first = uses_[root]++ == 0;
    if (first)
        for (ExprId a : c_.p.expr(root).args) count_uses(a);
}

Operand Point::named(ExprId e, const std::string& name) {
    const Operand v = eval(e);
    const std::string n = c_.names.fresh(name);
    c_.code.line("const {} {} = {};", c_type(c_.p.expr(e).dtype), n, v.text);
    set(e, {n});
    return {n};
}

namespace {
// n where x is the power n of a float, 2 or 3; else 0.
int whole_power(const Program& p, const Expr& x) {
    if (x.kind != ExprKind::Call || x.fn != Fn::Pow || !is_float(x.dtype)) return 0;
    ExprId n = x.args[1];
    while (p.expr(n).kind == ExprKind::Cast) n = p.expr(n).args[0];
    const Expr& y = p.expr(n);
    if (y.kind != ExprKind::Literal) return 0;
    const double v = is_float(y.dtype) ? y.number : static_cast<double>(y.integer);
    return v == 2 ? 2 : v == 3 ? 3 : 0;
}
}  // namespace

Operand Point::eval(ExprId e, const char* name) {
    if (auto it = values_.find(e); it != values_.end()) return it->second;
    const Expr& x = c_.p.expr(e);
    Operand r;
    bool simple = false;
    switch (x.kind) {
        case ExprKind::Literal:
            r = {is_float(x.dtype) ? literal(x.number, compute_type(x.dtype)) : literal_int(x.integer, x.dtype)};
            if (r.text[0] == '-') r.level = L::Unary;
            if (r.text[0] == '(' && r.text.back() != ')') r.level = L::Unary;
            simple = true;
            break;
        case ExprKind::Index:
            r = {"(long long)" + vars_.at(x.ref), L::Unary};
            simple = true;
            break;
        case ExprKind::Size: {
            const Operand s = c_.size(x.sym);
            r = {"(long long)" + s.at(L::Unary), L::Unary};
            simple = true;
            break;
        }
        case ExprKind::Load: return load(e);
        case ExprKind::Inside: r = inside(e); break;
        case ExprKind::Call: {
            std::vector<Operand> a;
            for (ExprId y : x.args) a.push_back(eval(y));
            if (x.dtype == DType::I64 && (x.fn == Fn::Add || x.fn == Fn::Sub || x.fn == Fn::Mul) && is_position(e)) {
                const bool product = x.fn == Fn::Mul;
                r = {fmt::format("{} {} {}", a[0].at(product ? L::Product : L::Sum),
                                 x.fn == Fn::Add ? "+"
                                 : product       ? "*"
                                                 : "-",
                                 a[1].at(product ? L::Unary : L::Product)),
                     product ? L::Product : L::Sum};
                break;
            }
            if (x.fn == Fn::Div) {
                if (const auto d = divisors_.find(x.args[1]); d != divisors_.end()) {
                    r = {fmt::format("{}({}, {})", short_results_ ? "multiply_by" : "divide_by", a[0].text, d->second)};
                    break;
                }
            }
            if (approximate_.count(e)) {
                r = {fmt::format("{}({})", c_.helpers.use("short_exp"), a[0].text)};
                break;
            }
            if (const int n = whole_power(c_.p, x); n > 0) {  // not by pow, which takes a hundred instructions
                const std::string factor = a[0].level == L::Atom ? a[0].text : named(x.args[0], "base").text;
                r = {factor, L::Product};
                for (int i = 1; i < n; ++i) r.text += " * " + factor;
                break;
            }
            const DType t = x.args.size() == 3 ? x.dtype : c_.p.expr(x.args[0]).dtype;
            r = call(x.fn, a, compute_type(t), c_.helpers);
            break;
        }
        case ExprKind::Cast: {
            Operand from = eval(x.args[0]);
            const ExprKind kind = c_.p.expr(x.args[0]).kind;
            constexpr std::string_view kWide = "(long long)";  // a position or size has the same value without
            const bool place = (kind == ExprKind::Index || kind == ExprKind::Size) && is_float(x.dtype);
            if (place && from.text.starts_with(kWide)) from = {from.text.substr(kWide.size()), L::Unary};
            r = convert(from, c_.p.expr(x.args[0]).dtype, x.dtype, c_.helpers);
            break;
        }
        case ExprKind::Wrap: r = wrap(eval(x.args[0]), c_.p.expr(x.args[0]).dtype, x.dtype); break;
        case ExprKind::Bitcast: r = bitcast(eval(x.args[0]), c_.p.expr(x.args[0]).dtype, x.dtype, c_.helpers); break;
        case ExprKind::Reduce: reduce_serially(e); return values_.at(e);
        case ExprKind::Scan: throw std::logic_error("a scan inside an expression");
    }
    constexpr size_t kLong = 70;
    const bool call = r.level == L::Atom && r.text.find('(') != std::string::npos;
    if (!simple && (uses_[e] > 1 || r.text.size() > kLong) && (r.level != L::Atom || call)) {
        const std::string n = c_.names.fresh(name);
        c_.code.line("const {} {} = {};", c_type(x.dtype), n, r.text);
        r = {n};
    }
    values_[e] = r;
    return r;
}

void Point::loops(const std::vector<VarId>& vars, const std::vector<ExprId>& roots, const std::function<void()>& body) {
    if (vars.empty()) return body();
    size_t opened = 0;
    for (ExprId r : roots) hoist(r);  // outside of the scope: these stay known behind the loops
    const Scope scope = save();
    for (VarId v : vars) {
        if (bound(v)) continue;
        if (c_.p.vars[v].extent.is(1)) {
            bind(v, "0");
            continue;
        }
        if (opened)
            for (ExprId r : roots) hoist(r);
        const std::string n = c_.names.fresh(c_.p.vars[v].name);
        c_.code.open("for (Index {} = 0; {} < {}; ++{})", n, n, c_.size(c_.p.vars[v].extent).at(L::Shift), n);
        bind(v, n);
        ++opened;
    }
    body();
    for (; opened; --opened) c_.code.close();
    restore(scope);
}

// ---- reductions

const char* accumulator_name(ReduceOp op) {
    switch (op) {
        case ReduceOp::Sum: return "total";
        case ReduceOp::Prod: return "product";
        case ReduceOp::Max: return "largest";
        case ReduceOp::Min: return "smallest";
        case ReduceOp::Any: return "found";
        case ReduceOp::All: return "all";
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast: return "best";
    }
    return "";
}

Point::Accumulator Point::declare(ExprId reduce) {
    const Expr& x = c_.p.expr(reduce);
    Accumulator a;
    a.type = compute_type(is_arg(x.reduce) ? c_.p.expr(x.args[0]).dtype : x.dtype);
    a.value = c_.names.fresh(accumulator_name(x.reduce));
    c_.code.line("{} {} = {};", c_type(a.type), a.value, identity_text(x.reduce, a.type));
    if (is_arg(x.reduce)) {
        a.best = c_.names.fresh("best_at");
        c_.code.line("long long {} = -1;", a.best);
    }
    return a;
}

std::string Point::position(ExprId reduce) {
    std::string r;
    for (VarId v : c_.p.expr(reduce).vars) {
        const std::string n = c_.size(c_.p.vars[v].extent).at(L::Product);
        r = r.empty()
                ? "(long long)" + variable(v)
                : fmt::format("{} * {} + {}", r.find(' ') == std::string::npos ? r : "(" + r + ")", n, variable(v));
    }
    return r;
}

namespace {
bool seeks_largest(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMaxLast; }
bool takes_last(ReduceOp op) { return op == ReduceOp::ArgMaxLast || op == ReduceOp::ArgMinLast; }
}  // namespace

std::string Point::better(ExprId reduce) {
    const ReduceOp op = c_.p.expr(reduce).reduce;
    return fmt::format("{}</*largest*/ {}, /*first*/ {}>()", c_.helpers.use("Better"), seeks_largest(op),
                       !takes_last(op));
}

void Point::accumulate(ExprId reduce, const Accumulator& a) {
    const Expr& x = c_.p.expr(reduce);
    const Scope scope = save();
    const bool conditional = x.args.size() > 1;
    if (conditional) c_.code.open("if ({})", eval(x.args[1]).text);
    const Expr& body = c_.p.expr(x.args[0]);
    if (is_arg(x.reduce)) {
        std::string value = eval(x.args[0]).text;
        if (!is_name(value)) {
            const std::string candidate = c_.names.fresh("candidate");
            c_.code.line("const {} {} = {};", c_type(a.type), candidate, value);
            value = candidate;
        }
        if (a.ordered) {  // an equal one comes too late to be the first
            const char* beyond = seeks_largest(x.reduce) ? ">" : "<";
            std::string wins = fmt::format("{} {}{} {}", value, beyond, takes_last(x.reduce) ? "=" : "", a.value);
            if (is_float(a.type) && takes_last(x.reduce))
                wins += fmt::format(" || {0} != {0}", value);
            else if (is_float(a.type))  // NaN is beyond every number
                wins = fmt::format("(!({} {}= {}) && {} == {})", value, seeks_largest(x.reduce) ? "<" : ">", a.value,
                                   a.value, a.value);
            c_.code.line("if ({} < 0 || {}) {} = {}, {} = {};", a.best, wins, a.value, value, a.best, position(reduce));
        } else {
            c_.code.line("if ({}({}, {}, {}, {})) {} = {}, {} = {};", better(reduce), value, position(reduce), a.value,
                         a.best, a.value, value, a.best, position(reduce));
        }
    } else {
        Operand v = eval(x.args[0]);
        // The body may be a narrower type than the accumulator.
        if (compute_type(body.dtype) != a.type) v = convert(v, body.dtype, a.type, c_.helpers);
        if (is_float(a.type) && x.reduce == ReduceOp::Sum)
            c_.code.line("{} += {};", a.value, v.text);
        else if (is_float(a.type) && x.reduce == ReduceOp::Prod)
            c_.code.line("{} *= {};", a.value, v.text);
        else
            c_.code.line("{} = {};", a.value, combine(x.reduce, {a.value}, v, a.type, c_.helpers).text);
    }
    if (conditional) c_.code.close_if();
    restore(scope);
}

Operand Point::result(ExprId reduce, const Accumulator& a) {
    if (!is_arg(c_.p.expr(reduce).reduce)) return {a.value};
    return {fmt::format("{} < 0 ? 0 : {}", a.best, a.best), L::Lowest};
}

void Point::reduce_serially(ExprId reduce) {
    Accumulator a = declare(reduce);
    a.ordered = true;
    const Expr& x = c_.p.expr(reduce);
    // Behind a condition only that is certain to be evaluated.
    loops(x.vars, {x.args.back()}, [&] { accumulate(reduce, a); });
    set(reduce, result(reduce, a));
}

// ---- accesses

bool Point::is_position(ExprId e) const {
    const Expr& x = c_.p.expr(e);
    switch (x.kind) {
        case ExprKind::Literal: return x.dtype == DType::I64 && x.integer > INT32_MIN && x.integer < INT32_MAX;
        case ExprKind::Index:
        case ExprKind::Size: return true;
        case ExprKind::Call: {
            if (x.dtype != DType::I64) return false;
            const bool selects = x.fn == Fn::Select;
            if (!selects && x.fn != Fn::Add && x.fn != Fn::Sub && x.fn != Fn::Mul && x.fn != Fn::Min &&
                x.fn != Fn::Max && x.fn != Fn::FloorDiv && x.fn != Fn::Mod && x.fn != Fn::Neg)
                return false;
            for (size_t i = selects ? 1 : 0; i < x.args.size(); ++i)
                if (!is_position(x.args[i])) return false;
            return true;
        }
        default: return false;
    }
}

namespace {
// Whether the text needs parentheses as a factor: not where a pair already encloses all of it.
bool is_sum(const std::string& s) {
    if (s.find(' ') == std::string::npos) return false;
    int depth = 0;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
        depth += s[i] == '(' ? 1 : s[i] == ')' ? -1 : 0;
        if (depth == 0) return true;
    }
    return false;
}
}  // namespace

std::string Point::index(ExprId e) {
    const auto f = affine(c_.p, e);
    if (!f) return "";
    std::string r;
    for (const auto& [v, k] : f->terms) {
        const std::string& name = vars_.at(v);
        const bool atom = name.find(' ') == std::string::npos;
        if (k.is(1)) {
            const bool enclosed = !atom && name.front() == '(' && !is_sum(name);
            r += (r.empty() ? "" : " + ") + (enclosed ? name.substr(1, name.size() - 2) : name);
        } else if (k.is(-1)) {
            r += (r.empty() ? "-" : " - ") + (atom ? name : "(" + name + ")");
        } else {
            r += (r.empty() ? "" : " + ") + c_.size(k).at(L::Product) + " * " + (atom ? name : "(" + name + ")");
        }
    }
    if (!f->offset.is(0) || r.empty()) {
        const Operand o = c_.size(f->offset);
        if (r.empty())
            r = o.text;
        else if (o.text[0] == '-' && o.level >= L::Product)
            r += " - " + o.text.substr(1);
        else
            r += " + " + o.at(L::Sum);
    }
    return r;
}

namespace {
// Lowest and highest that an affine index can be; nothing where a coefficient has no known sign.
struct Reach {
    bool known = false;
    Sym low, high;
};
Reach reach(const Program& p, const Affine& f) {
    Reach r{true, f.offset, f.offset};
    for (const auto& [v, k] : f.terms) {
        const Sym last = k * (p.vars[v].extent - Sym(1));
        if (k.lower() >= 0)
            r.high = r.high + last;
        else if (k.upper() <= 0)
            r.low = r.low + last;
        else
            return {};
    }
    return r;
}
}  // namespace

// A position folded back inside, by the name that it got where it was needed first.
std::string Point::inward(Outside outside, const std::string& i, const Operand& n) {
    const char* f = outside == Outside::Clamp     ? "clamped"
                    : outside == Outside::Wrap    ? "floor_mod"
                    : outside == Outside::Reflect ? "reflected"
                                                  : "mirrored";
    // floor_mod is for all types, and takes two of one.
    const std::string text = outside == Outside::Wrap ? fmt::format("{}<long long>({}, {})", f, i, n.text)
                                                      : fmt::format("{}({}, {})", f, i, n.text);
    const auto [it, fresh] = inward_.try_emplace(text);
    if (fresh) {
        c_.helpers.use(f);
        it->second = c_.names.fresh("at");
        c_.code.line("const Index {} = (Index){};", it->second, text);
    }
    return it->second;
}

Place Point::place(TensorId t, const ExprId* at, Outside outside, const std::string& what) {
    const auto& shape = c_.p.tensors[t].shape;
    Place r;
    for (size_t d = 0; d < shape.size(); ++d) {
        std::string i;
        const auto f = affine(c_.p, at[d]);
        const Operand n = c_.size(shape[d]);
        const auto require = [&](const std::string& condition) {
            r.condition += (r.condition.empty() ? "" : " && ") + condition;
        };
        if (f) {
            i = index(at[d]);
            const Reach bounds = reach(c_.p, *f);
            const bool low = bounds.known && bounds.low.lower() >= 0;
            const bool high = bounds.known && (shape[d] - Sym(1) - bounds.high).lower() >= 0;
            if (outside == Outside::Value) {
                if (!low) require(fmt::format("{} >= 0", i));
                if (!high) require(fmt::format("{} < {}", i, n.at(L::Shift)));
            } else if (outside != Outside::Error && !(low && high)) {
                i = inward(outside, i, n);
            }
        } else {
            // Data: in 64 bits until it is known to be inside.
            std::string name = eval(at[d], "at").text;
            if (!is_name(name)) {
                const std::string value = std::move(name);
                name = c_.names.fresh("at");
                c_.code.line("const long long {} = {};", name, value);
            }
            i = "(Index)" + name;
            const std::string inside = fmt::format("{} >= 0 && {} < {}", name, name, n.at(L::Shift));
            switch (outside) {
                case Outside::Error: {
                    const std::string known = c_.names.fresh("inside");
                    c_.code.line("const bool {} = {};", known, inside);
                    c_.code.line("if (!{}) *fault = {};", known, c_.fault(what));
                    require(known);
                    break;
                }
                case Outside::Value: require(inside); break;
                default: i = inward(outside, name, n); break;
            }
        }
        if (shape[d].is(1) && f && outside != Outside::Value) i = "0";
        if (r.offset.empty() || r.offset == "0")
            r.offset = i;
        else if (shape[d].is(1) && i == "0")
            continue;
        else if (i == "0")
            r.offset = fmt::format("{} * {}", is_sum(r.offset) ? "(" + r.offset + ")" : r.offset, n.at(L::Unary));
        else
            r.offset =
                fmt::format("{} * {} + {}", is_sum(r.offset) ? "(" + r.offset + ")" : r.offset, n.at(L::Unary), i);
    }
    if (r.offset.empty()) r.offset = "0";
    return r;
}

Operand Point::load(ExprId e) {
    const Expr& x = c_.p.expr(e);
    const TensorInfo& t = c_.p.tensors[x.ref];
    if (auto it = held_.find(x.ref); it != held_.end()) return it->second;
    c_.touched[x.ref] = true;
    const DType stored = c_.stored[x.ref];
    const Place at =
        place(x.ref, x.args.data(), x.outside,
              fmt::format("{}: an index of {}[{}] lies outside the tensor", c_.p.name, t.name, c_.p.print(e)));
    const std::string element = fmt::format("{}[{}]", c_.pointers[x.ref], at.offset);
    Operand v = from_memory({element}, stored, c_.helpers);
    if (!at.condition.empty()) {
        const Operand fill = x.outside == Outside::Value ? eval(x.args.back())
                             : is_float(stored)          ? Operand{literal(0, compute_type(stored))}
                                                         : Operand{literal_int(0, stored)};
        v = {fmt::format("{} ? {} : {}", at.condition, v.text, fill.at(L::Or)), L::Lowest};
    }
    const std::string n = c_.names.fresh(t.name + "_value");
    c_.code.line("const {} {} = {};", c_type(stored), n, v.text);
    values_[e] = {n};
    return {n};
}

Operand Point::inside(ExprId e) {
    const Expr& x = c_.p.expr(e);
    const Place at = place(x.ref, x.args.data(), Outside::Value, "");
    if (at.condition.empty()) return {"true"};
    return {at.condition, L::And};
}

void Point::store(const Equation& q, const Operand& value, bool atomic) {
    const TensorInfo& t = c_.p.tensors[q.lhs];
    const DType stored = c_.stored[q.lhs], compute = compute_type(stored);
    c_.touched[q.lhs] = c_.written[q.lhs] = true;
    const Place at = place(q.lhs, q.at.data(), q.outside,
                           fmt::format("{}: an index of {} lies outside the tensor", c_.p.name, t.name));
    const std::string element = fmt::format("{}[{}]", c_.pointers[q.lhs], at.offset);
    if (!at.condition.empty()) c_.code.open("if ({})", at.condition);
    const ReduceOp op = q.update == Update::Add   ? ReduceOp::Sum
                        : q.update == Update::Mul ? ReduceOp::Prod
                        : q.update == Update::Max ? ReduceOp::Max
                                                  : ReduceOp::Min;
    if (q.update == Update::Set || q.update == Update::Overwrite) {
        c_.code.line("{} = {};", element, to_memory(value, stored, c_.helpers).text);
    } else if (!atomic) {
        const Operand old = from_memory({element}, stored, c_.helpers);
        c_.code.line("{} = {};", element,
                     to_memory(combine(op, old, value, compute, c_.helpers), stored, c_.helpers).text);
    } else if (q.update == Update::Add && (stored == DType::F64 || stored == DType::I32 || stored == DType::U32)) {
        // Not of float: that instruction flushes subnormal numbers to zero in global memory.
        c_.code.line("atomicAdd(&{}, {});", element, value.text);
    } else if (q.update == Update::Add && size_of(stored) == 8) {
        c_.code.line("atomicAdd((unsigned long long*)&{}, (unsigned long long){});", element, value.at(L::Unary));
    } else {
        c_.helpers.use("atomic_update");
        const std::string v = c_.names.fresh("value"), old = c_.names.fresh("old");
        c_.code.line("const {} {} = {};", c_type(stored), v, value.text);
        const Operand before = from_memory({old}, stored, c_.helpers);
        c_.code.line("atomic_update(&{}, [&]({} {}) {{ return {}; }});", element, memory_type(stored), old,
                     to_memory(combine(op, before, {v}, compute, c_.helpers), stored, c_.helpers).text);
    }
    if (!at.condition.empty()) c_.code.close_if();
}

// ---- walks

std::vector<ExprId> reduces_in(const Program& p, ExprId root) {
    std::vector<ExprId> out;
    std::vector<bool> seen(p.expr_count());
    const std::function<void(ExprId)> walk = [&](ExprId e) {
        if (seen[e]) return;
        seen[e] = true;
        if (p.expr(e).kind == ExprKind::Reduce) {
            out.push_back(e);
            return;
        }
        for (ExprId a : p.expr(e).args) walk(a);
    };
    walk(root);
    return out;
}

std::vector<ExprId> loads_in(const Program& p, ExprId root, bool into_reduces) {
    std::vector<ExprId> out;
    std::vector<bool> seen(p.expr_count());
    const std::function<void(ExprId)> walk = [&](ExprId e) {
        if (seen[e]) return;
        seen[e] = true;
        const Expr& x = p.expr(e);
        if (x.kind == ExprKind::Reduce && !into_reduces) return;
        for (ExprId a : x.args) walk(a);
        if (x.kind == ExprKind::Load) out.push_back(e);
    };
    walk(root);
    return out;
}

}  // namespace opwright::target::cuda
