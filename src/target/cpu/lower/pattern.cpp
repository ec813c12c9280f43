#include <algorithm>
#include <cmath>

#include "target/cpu/lower/point.h"

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

namespace {
// (lane + rest) // divisor or (lane + rest) % divisor, where the other variables of rest come in multiples of the
// divisor. With lane 0 at a multiple of the divisor, what lanes add is the same everywhere.
struct Digits {
    bool quotient = true;
    int64_t divisor = 1, offset = 0;
    std::vector<std::pair<VarId, int64_t>> multiples;  // of the divisor
    Sym highest = 0;                                   // value
    int64_t of(int64_t lane) const {
        const int64_t n = lane + offset, q = n >= 0 ? n / divisor : -((-n + divisor - 1) / divisor);
        return quotient ? q : n - q * divisor;
    }
};
std::optional<Digits> digits(const Program& p, const math::Expr& e, VarId lane, int lanes) {
    if (e.kind != ExprKind::Call || (e.fn != Fn::FloorDiv && e.fn != Fn::Mod)) return std::nullopt;
    const math::Expr& by = p.expr(e.args[1]);
    const auto f = affine(p, e.args[0]);
    if (!f || by.kind != ExprKind::Literal || by.integer < 2 || lanes % by.integer != 0) return std::nullopt;
    if (!f->coefficient(lane).is(1) || !f->offset.constant()) return std::nullopt;
    Digits d{.quotient = e.fn == Fn::FloorDiv, .divisor = by.integer, .offset = *f->offset.constant()};
    Sym high = f->offset;
    for (const auto& [v, k] : f->terms) {
        const auto n = k.constant();
        high = high + k * (p.vars[v].extent - Sym(1));
        if (v == lane) continue;
        if (!n || *n < 0 || *n % d.divisor != 0) return std::nullopt;
        d.multiples.push_back({v, *n / d.divisor});
    }
    d.highest = d.quotient ? floor_div(high, d.divisor) : Sym(d.divisor - 1);
    return d;
}
}  // namespace

std::optional<std::vector<int>> Point::lane_digits(const math::Expr& x) const {
    const auto d = digits(p_, x, lane_, lanes_);
    if (!d || d->quotient || d->divisor > lanes_) return std::nullopt;
    std::vector<int> r;
    for (int l = 0; l < lanes_; ++l) r.push_back(static_cast<int>(d->of(l)));
    return r;
}

std::optional<LExpr> Point::patterned(const math::Expr& x, int position) {
    const Storage& s = storage_[x.ref];
    const auto& shape = p_.tensors[x.ref].shape;
    if (x.outside != Outside::Error && x.outside != Outside::Value) return std::nullopt;
    if (x.outside == Outside::Value) {
        const math::Expr& f = p_.expr(x.args.back());
        if (f.kind != ExprKind::Literal || f.integer != 0 || f.number != 0 || std::signbit(f.number))
            return std::nullopt;
    }
    if (!s.origin.empty() && std::any_of(s.origin.begin(), s.origin.end(), [](const LExpr& o) { return bool(o); }))
        return std::nullopt;
    // What lanes add to the place: along the innermost dim, and the number of a group along all others.
    const auto lanes = static_cast<size_t>(lanes_);
    std::vector<std::optional<Digits>> parts(shape.size());
    bool any = false, quotient = false;  // two dims have stride 1 where the inner one has one element
    for (size_t d = 0; d < shape.size(); ++d) {
        if (s.strides[d].is(0)) continue;
        const auto free = p_.free_vars(x.args[d]);
        if (std::find(free.begin(), free.end(), lane_) == free.end()) {
            if (!p_.reads(x.args[d]).empty()) return std::nullopt;
            continue;
        }
        parts[d] = digits(p_, p_.expr(x.args[d]), lane_, lanes_);
        if (!parts[d] || (parts[d]->quotient && (!s.strides[d].is(1) || quotient))) return std::nullopt;
        quotient |= parts[d]->quotient;
        // A digit is below its divisor. A quotient may leave where the access says what that means; the launch has
        // checked that it does not where none is said.
        const bool inside = parts[d]->of(0) >= 0 && (shape[d] - Sym(1) - parts[d]->highest).lower() >= 0;
        if (!inside && !parts[d]->quotient) return std::nullopt;
        any = true;
    }
    if (!any) return std::nullopt;

    Address a;
    LExpr offset = b_.i64(0), along = b_.i64(0);  // along: of the innermost dim, where it has digits
    const Digits* inner = nullptr;
    const Sym* inner_extent = nullptr;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (s.strides[d].is(0)) continue;
        if (!parts[d]) {
            Index i = index(x.args[d], shape[d], position);
            if (!i.known_inside && x.outside == Outside::Value) require_inside(i, shape[d], a, false, "");
            if (!i.known_inside && x.outside == Outside::Error && i.from_data && !i.at_launch) {
                const auto code =
                    faults_.code(p_.name + ": an index of " + p_.tensors[x.ref].name + " lies outside the tensor");
                b_.if_(loop::negate(loop::both(loop::ge(i.base, b_.i64(0)), loop::lt(i.base, sym(shape[d])))),
                       [&] { b_.set_error(code); });
            }
            offset = offset + i.base * sym(s.strides[d]);
        } else if (parts[d]->quotient) {
            inner = &*parts[d];
            inner_extent = &shape[d];
            along = loop::floordiv(vars_.at(lane_) + static_cast<int64_t>(position) * lanes_, inner->divisor);
            for (const auto& [v, k] : inner->multiples) along = along + vars_.at(v) * k;
        }
    }
    offset = b_.let("offset", offset + along);

    std::vector<size_t> group(lanes);
    std::vector<std::vector<int64_t>> keys;
    for (size_t l = 0; l < lanes; ++l) {
        std::vector<int64_t> key;
        for (const auto& d : parts)
            if (d && !d->quotient) key.push_back(d->of(static_cast<int64_t>(l)));
        auto at = std::find(keys.begin(), keys.end(), key);
        if (at == keys.end()) at = keys.insert(keys.end(), key);
        group[l] = static_cast<size_t>(at - keys.begin());
    }
    LExpr result;
    for (size_t g = 0; g < keys.size(); ++g) {
        int64_t low = INT64_MAX, high = INT64_MIN;
        for (size_t l = 0; l < lanes; ++l)
            if (group[l] == g) {
                const int64_t place = inner ? inner->of(static_cast<int64_t>(l)) : 0;
                low = std::min(low, place);
                high = std::max(high, place);
            }
        const auto wanted = static_cast<int>(high - low + 1);
        int width = 1;
        while (width < wanted) width *= 2;
        if (width > lanes_) return std::nullopt;
        LExpr start = offset + low;
        size_t k = 0;
        for (size_t d = 0; d < shape.size(); ++d)
            if (parts[d] && !parts[d]->quotient) start = start + sym(s.strides[d]) * keys[g][k++];
        // A worker's own memory may be read a vector beyond its end: what those lanes get is not used.
        const bool beyond = b_.program().buffer(s.buffer).space == loop::Space::Scratch && x.outside == Outside::Error &&
                            (!inner || inner->of(0) >= 0);
        LExpr guard = width > wanted && width > 1 && !beyond ? loop::first_lanes(b_.i64(wanted), width) : LExpr{};
        // Lanes past the end may have places past the end.
        const bool inside = !inner || (!mask_ && (x.outside == Outside::Error ||
                                                  (inner->of(0) >= 0 &&
                                                   (*inner_extent - Sym(1) - inner->highest).lower() >= 0)));
        if (!inside && !interior_ && !beyond) {
            const LExpr first = along + low;
            if (width == 1) return std::nullopt;
            guard = joint(guard, loop::first_lanes(sym(*inner_extent) - first, width));
            if (inner->of(0) < 0) guard = joint(guard, loop::negate(loop::first_lanes(-first, width)));
        }
        if (a.scalar_condition) guard = joint(guard, loop::broadcast(a.scalar_condition, width));
        const LExpr v = b_.let("part", b_.load(s.buffer, start, width, guard));
        std::vector<int> spread;
        for (size_t l = 0; l < lanes; ++l)
            spread.push_back(group[l] == g && inner ? static_cast<int>(inner->of(static_cast<int64_t>(l)) - low) : 0);
        const LExpr wide = v.type().is_vector() ? loop::permute_lanes(v, spread) : loop::broadcast(v, lanes_);
        if (!result) {
            result = wide;
            continue;
        }
        std::vector<int> blend;
        for (size_t l = 0; l < lanes; ++l)
            blend.push_back(group[l] == g ? lanes_ + static_cast<int>(l) : static_cast<int>(l));
        result = loop::permute_lanes(result, wide, blend);
    }
    return result;
}

}  // namespace opwright::target::cpu
