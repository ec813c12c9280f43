#include "derive/linear.h"

#include <algorithm>

namespace opwright::derive {
using namespace math;

void Linear::add(ExprId atom, const Sym& c) {
    for (size_t i = 0; i < terms.size(); ++i) {
        if (terms[i].first != atom) continue;
        terms[i].second = terms[i].second + c;
        if (terms[i].second.is(0)) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
        return;
    }
    if (!c.is(0)) terms.emplace_back(atom, c);
}
Linear& Linear::accumulate(const Linear& o, const Sym& scale) {
    const Linear from = o;  // may be *this
    for (const auto& [a, c] : from.terms) add(a, c * scale);
    offset = offset + from.offset * scale;
    return *this;
}
Sym Linear::coefficient(ExprId atom) const {
    for (const auto& [a, c] : terms)
        if (a == atom) return c;
    return 0;
}

std::optional<Linear> IndexAlgebra::linear(ExprId id) const {
    const Expr& e = p_.expr(id);
    if (e.dtype != DType::I64) return std::nullopt;
    Linear r;
    switch (e.kind) {
        case ExprKind::Literal: r.offset = Sym(e.integer); return r;
        case ExprKind::Size: r.offset = e.sym; return r;
        case ExprKind::Index: r.add(id, 1); return r;
        case ExprKind::Call: break;
        default: return std::nullopt;
    }
    if (e.fn == Fn::FloorDiv || e.fn == Fn::Mod) {
        const auto a = linear(e.args[0]), b = linear(e.args[1]);
        if (!a || !b || !b->terms.empty() || b->offset.lower() < 1) return std::nullopt;
        r.add(id, 1);
        return r;
    }
    if (e.fn != Fn::Add && e.fn != Fn::Sub && e.fn != Fn::Mul && e.fn != Fn::Neg) return std::nullopt;
    const auto a = linear(e.args[0]);
    if (!a) return std::nullopt;
    if (e.fn == Fn::Neg) return r -= *a;
    const auto b = linear(e.args[1]);
    if (!b) return std::nullopt;
    r = *a;
    if (e.fn == Fn::Add) return r += *b;
    if (e.fn == Fn::Sub) return r -= *b;
    if (a->terms.empty()) return Linear{}.accumulate(*b, a->offset);
    if (b->terms.empty()) return Linear{}.accumulate(*a, b->offset);
    return std::nullopt;
}

ExprId IndexAlgebra::expression(const Linear& l) {
    auto terms = l.terms;  // what is added before what is taken away
    std::stable_partition(terms.begin(), terms.end(), [](const auto& t) { return t.second.lower() >= 0; });
    ExprId r = kNone;
    for (const auto& [atom, c] : terms) {
        const bool away = c.upper() < 0 && r != kNone;
        const Sym by = away ? -c : c;
        const ExprId term = by.is(1)    ? atom
                            : by.is(-1) ? p_.call(Fn::Neg, {atom})
                                        : p_.call(Fn::Mul, {p_.size(by), atom});
        r = r == kNone ? term : p_.call(away ? Fn::Sub : Fn::Add, {r, term});
    }
    if (r == kNone) return p_.size(l.offset);
    if (l.offset.is(0)) return r;
    const bool away = l.offset.upper() < 0;
    return p_.call(away ? Fn::Sub : Fn::Add, {r, p_.size(away ? -l.offset : l.offset)});
}

std::pair<Linear, Linear> IndexAlgebra::split(const Linear& l, const Sym& s) const {
    Linear quotient, rest;
    for (const auto& [a, c] : l.terms) {
        if (s.lower() >= 1 && math::mod(c, s).is(0))
            quotient.add(a, math::floor_div(c, s));
        else
            rest.add(a, c);
    }
    // The constant: the multiples of s in it, as far as they show.
    const Sym left = math::mod(l.offset, s);
    if (left.kind() != SymKind::Mod) {
        rest.offset = left;
        quotient.offset = math::floor_div(l.offset, s);
    } else {
        rest.offset = l.offset;
    }
    return {std::move(quotient), std::move(rest)};
}
Linear IndexAlgebra::floor_div(const Linear& l, const Sym& s) {
    if (s.is(1)) return l;
    auto [quotient, rest] = split(l, s);
    if (within(rest, s)) return quotient;
    const ExprId e = p_.call(Fn::FloorDiv, {expression(rest), p_.size(s)});
    if (const auto folded = linear(e)) return quotient += *folded;
    quotient.add(e, 1);
    return quotient;
}
Linear IndexAlgebra::mod(const Linear& l, const Sym& s) {
    if (s.is(1)) return {};
    Linear rest = split(l, s).second;
    if (within(rest, s)) return rest;
    const ExprId e = p_.call(Fn::Mod, {expression(rest), p_.size(s)});
    if (auto folded = linear(e)) return *folded;
    Linear r;
    r.add(e, 1);
    return r;
}

std::optional<Range> IndexAlgebra::range_of_atom(ExprId atom) const {
    const Expr& e = p_.expr(atom);
    if (e.kind == ExprKind::Index) return Range{0, p_.vars[e.ref].extent - Sym(1)};
    if (e.kind != ExprKind::Call || (e.fn != Fn::FloorDiv && e.fn != Fn::Mod)) return std::nullopt;
    const auto divisor = linear(e.args[1]);
    if (!divisor || !divisor->terms.empty()) return std::nullopt;
    if (e.fn == Fn::Mod) return Range{0, divisor->offset - Sym(1)};
    const auto of = linear(e.args[0]);
    const auto r = of ? range(*of) : std::nullopt;
    if (!r) return std::nullopt;
    return Range{math::floor_div(r->low, divisor->offset), math::floor_div(r->high, divisor->offset)};
}
std::optional<Range> IndexAlgebra::range(const Linear& l) const {
    Range r{l.offset, l.offset};
    for (const auto& [atom, c] : l.terms) {
        const auto a = range_of_atom(atom);
        if (!a) return std::nullopt;
        if (c.lower() >= 0) {
            r.low = r.low + c * a->low;
            r.high = r.high + c * a->high;
        } else if (c.upper() <= 0) {
            r.low = r.low + c * a->high;
            r.high = r.high + c * a->low;
        } else {
            return std::nullopt;
        }
    }
    return r;
}
bool IndexAlgebra::within(const Linear& l, const Sym& extent) const {
    const auto r = range(l);
    return r && r->low.lower() >= 0 && (extent - Sym(1) - r->high).lower() >= 0;
}

}  // namespace opwright::derive
