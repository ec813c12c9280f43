// A variable v that stands in quotients and remainders of u = v + offset is written u = sum of digit_i * weight_i,
// where every weight divides the next; each quotient and remainder is then a sum of some digits.
#include "derive/digits.h"

#include <algorithm>

namespace opwright::derive {
using namespace math;
namespace {

// (u // weight) % extent of one variable; without an extent: u // weight.
struct Part {
    VarId var = kNone;
    Sym offset, weight = 1;
    std::optional<Sym> extent;
};

class Splitter {
public:
    Splitter(Program& p, const std::vector<VarId>& scope) : p_(p), x_(p), scope_(scope) {}

    std::optional<Digits> run(const std::vector<ExprId>& at) {
        std::vector<Linear> forms;
        for (ExprId a : at) {
            auto l = x_.linear(a);
            if (!l) return std::nullopt;
            for (const auto& [atom, c] : l->terms)
                if (!collect(atom)) return std::nullopt;
            forms.push_back(std::move(*l));
        }
        for (const auto& [v, parts] : parts_)
            if (!split(v, parts)) return std::nullopt;
        for (VarId v : scope_)
            if (!parts_.count(v)) d_.variables.push_back(v);
        for (const Linear& l : forms) {
            Linear r;
            r.offset = l.offset;
            for (const auto& [atom, c] : l.terms) {
                const auto form = replaced_.find(atom);
                if (form == replaced_.end())
                    r.add(atom, c);
                else
                    r.accumulate(form->second, c);
            }
            d_.at.push_back(std::move(r));
        }
        return std::move(d_);
    }

private:
    // Notes an atom that is a quotient or remainder; false if it is one of no variable alone.
    bool collect(ExprId atom) {
        if (p_.expr(atom).kind == ExprKind::Index) return true;
        const auto part = part_of(atom);
        if (!part) return false;
        const auto& all = parts_[part->var];
        if (!all.empty() && !(all.front().second.offset == part->offset)) return false;
        parts_[part->var].emplace_back(atom, *part);
        return true;
    }
    std::optional<Part> part_of(ExprId id) const {
        const Expr& e = p_.expr(id);
        if (e.kind != ExprKind::Call || (e.fn != Fn::FloorDiv && e.fn != Fn::Mod)) return std::nullopt;
        const auto divisor = x_.linear(e.args[1]);
        const auto of = x_.linear(e.args[0]);
        if (!divisor || !of || of->terms.size() != 1 || !of->terms[0].second.is(1)) return std::nullopt;
        const Sym by = divisor->offset;
        const ExprId inner = of->terms[0].first;
        if (p_.expr(inner).kind == ExprKind::Index) {
            const VarId v = p_.expr(inner).ref;
            if (std::find(scope_.begin(), scope_.end(), v) == scope_.end()) return std::nullopt;
            if (e.fn == Fn::Mod) return Part{v, of->offset, 1, by};
            return Part{v, of->offset, by, std::nullopt};
        }
        auto part = part_of(inner);
        if (!part || !of->offset.is(0)) return std::nullopt;
        if (e.fn == Fn::Mod) {
            // (u // w) % n % by: only where by divides n
            if (part->extent && !math::mod(*part->extent, by).is(0)) return std::nullopt;
            part->extent = by;
            return part;
        }
        if (part->extent) {  // (u // w % n) // by
            if (!math::mod(*part->extent, by).is(0)) return std::nullopt;
            part->extent = math::floor_div(*part->extent, by);
        }
        part->weight = part->weight * by;
        return part;
    }

    bool split(VarId v, const std::vector<std::pair<ExprId, Part>>& parts) {
        std::vector<Sym> weights{Sym(1)};
        const auto add = [&](const Sym& w) {
            if (std::none_of(weights.begin(), weights.end(), [&](const Sym& x) { return x == w; }))
                weights.push_back(w);
        };
        for (const auto& [atom, part] : parts) {
            add(part.weight);
            if (part.extent) add(part.weight * *part.extent);
        }
        // In order of divisibility.
        for (size_t i = 0; i + 1 < weights.size(); ++i) {
            const auto next =
                std::find_if(weights.begin() + static_cast<std::ptrdiff_t>(i) + 1, weights.end(), [&](const Sym& w) {
                    return std::all_of(weights.begin() + static_cast<std::ptrdiff_t>(i) + 1, weights.end(),
                                       [&](const Sym& o) { return math::mod(o, w).is(0); });
                });
            if (next == weights.end() || !math::mod(*next, weights[i]).is(0)) return false;
            std::swap(weights[i + 1], *next);
        }
        const Sym offset = parts.front().second.offset, extent = p_.vars[v].extent;
        std::vector<Linear> digit;  // over the new variables
        for (size_t i = 0; i < weights.size(); ++i) {
            Linear l;
            const bool last = i + 1 == weights.size();
            if (last && offset.is(0) && weights[i] == extent) {
                digit.push_back(l);  // one value: 0
                break;
            }
            Sym first = 0, count = 0;
            if (last) {
                first = math::floor_div(offset, weights[i]);
                count = math::floor_div(offset + extent - Sym(1), weights[i]) - first + Sym(1);
                if (offset.is(0) && math::mod(extent, weights[i]).is(0)) count = math::floor_div(extent, weights[i]);
            } else {
                count = math::floor_div(weights[i + 1], weights[i]);
            }
            const VarId d = p_.add_var(p_.vars[v].name, count);
            d_.variables.push_back(d);
            l.add(p_.index(d), 1);
            l.offset = first;
            digit.push_back(std::move(l));
        }
        const auto sum = [&](const Sym& from, const std::optional<Sym>& to) {
            Linear l;
            bool on = false;
            for (size_t i = 0; i < weights.size(); ++i) {
                on = on || weights[i] == from;
                if (to && weights[i] == from * *to) break;
                if (on) l.accumulate(digit[i], math::floor_div(weights[i], from));
            }
            return l;
        };
        for (const auto& [atom, part] : parts) replaced_[atom] = sum(part.weight, part.extent);
        Linear whole = sum(1, std::nullopt);
        whole.offset = whole.offset - offset;
        replaced_[p_.index(v)] = whole;
        d_.composed[v] = whole;
        if (offset.is(0) && math::mod(extent, weights.back()).is(0)) d_.covers.insert(v);
        return true;
    }

    Program& p_;
    IndexAlgebra x_;
    const std::vector<VarId>& scope_;
    std::map<VarId, std::vector<std::pair<ExprId, Part>>> parts_;
    std::map<ExprId, Linear> replaced_;
    Digits d_;
};
}  // namespace

std::optional<Digits> split_digits(Program& p, const std::vector<ExprId>& at, const std::vector<VarId>& scope) {
    return Splitter(p, scope).run(at);
}

}  // namespace opwright::derive
