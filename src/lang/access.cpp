// Accesses to tensors: checks of extents, broadcasting, what an access outside means.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Outside;
using math::Sym;
using math::VarId;
using Kind = Value::Kind;

std::string dim_of(size_t d, const std::string& tensor) { return fmt::format("dim {} of `{}`", d, tensor); }
bool plain_outside(const Expr& access) { return access.outside.empty() || access.outside == "error"; }

Result<const View*> Elaborator::tensor(const std::string& name, const Expr& at) const {
    if (const auto v = views_.find(name); v != views_.end()) return &v->second;
    if (absent_.count(name))
        return error(at, fmt::format("`{}` was left out of this call of `{}`.", name, op_.name),
                     fmt::format("Guard its use: if present({}): ....", name));
    if (outputs_.count(name))
        return error(at, fmt::format("`{}` is read before an equation defines it.", name), "Put its equation first.");
    if (variadic_.count(name))
        return error(at, fmt::format("`{}` is a list of tensors.", name),
                     fmt::format("Go through it: for x in {}:.", name));
    std::vector<std::string> all;
    for (const auto& [n, v] : views_) all.push_back(n);
    const std::string near = did_you_mean(name, all);
    return error(at, fmt::format("There is no tensor `{}` here.", name),
                 near.empty() ? "A tensor is a parameter, or is defined by an equation before its use."
                              : fmt::format("Did you mean `{}`?", near));
}

Status Elaborator::check_plain(const View& v, size_t d, VarId var, const Expr& e, Extents rule) {
    const Shared::VarInfo& i = s_.vars[var];
    const Sym &have = p_.vars[var].extent, &want = v.dims[d].extent;
    if (have == want) return ok_status();
    if (rule == Extents::Within ||
        (i.stated && rule == Extents::Agree)) {  // too long a range is refused here or at launch
        if ((have - want).lower() <= 0) return ok_status();
        return error(
            e,
            fmt::format("The index `{}` runs over {} values, but {} has only {}.", i.name, have.str(),
                        dim_of(d, v.name), want.str()),
            fmt::format("Shorten the range of `{}`, or say what the access means outside: {}[...] outside zero.",
                        i.name, v.name));
    }
    if (have.known_different(want)) {
        Diagnostic x = error(e,
                             fmt::format("The index `{}` has extent {} from {}, but {} has extent {}.", i.name,
                                         have.str(), i.origin, dim_of(d, v.name), want.str()),
                             fmt::format("Use another index for {}, or give both one extent.", dim_of(d, v.name)));
        return x;
    }
    add_requirement(math::equal(have, want),
                    fmt::format("In `{}`, the index `{}` has extent {} from {} and {} from {}; they must be equal.",
                                op_.name, i.name, have.str(), i.origin, want.str(), dim_of(d, v.name)));
    return ok_status();
}

// Refuses an access that is outside for some index whatever is fed, where all extents are constants.
Status Elaborator::check_inside(const View& v, size_t d, ExprId index, const Expr& e) {
    const auto extent = v.dims[d].extent.constant();
    const auto f = math::affine(p_, index);
    if (!extent || !f) return ok_status();
    const auto offset = f->offset.constant();
    if (!offset) return ok_status();
    __int128 low = *offset, high = *offset;
    for (const auto& [var, c] : f->terms) {
        const auto n = p_.vars[var].extent.constant(), k = c.constant();
        if (!n || !k || *n <= 0) return ok_status();
        (*k > 0 ? high : low) += static_cast<__int128>(*k) * (*n - 1);
    }
    if (low >= 0 && high < *extent) return ok_status();
    const __int128 reached = low < 0 ? low : high;
    if (reached > kMaxInteger || reached < -kMaxInteger) return ok_status();
    return error(e,
                 fmt::format("`{}` leaves {} of extent {}: the index reaches {}.", source_of(e), dim_of(d, v.name),
                             *extent, static_cast<int64_t>(reached)),
                 "Say what it means there, as in x[...] outside zero (or clamp, wrap, reflect, mirror, (value)), or "
                 "shorten the range.");
}

Result<std::vector<ExprId>> Elaborator::lower(const View& v, const std::vector<Value>& at, const Expr& e,
                                              Extents rule) {
    if (at.size() != v.dims.size()) {
        Diagnostic x =
            error(e,
                  fmt::format("`{}` has {} dim{} but {} {} given.", v.name, v.dims.size(),
                              v.dims.size() == 1 ? "" : "s", at.size(), at.size() == 1 ? "index is" : "indices are"),
                  fmt::format("Give one index for each dim of `{}`.", v.name));
        if (v.at_end > v.at) x.with_note(fmt::format("`{}` is declared here", v.name), op_.span(v.at, v.at_end));
        return x;
    }
    std::vector<ExprId> out;
    for (size_t d = 0; d < at.size(); ++d) {
        const LogicalDim& dim = v.dims[d];
        const Expr& place = e.args.size() == at.size() && e.args[d]->kind != ExprKind::Expand ? *e.args[d] : e;
        OPW_TRY(ExprId i, as_index(place, at[d]));
        if (rule != Extents::Any) {
            const bool plain = p_.expr(i).kind == math::ExprKind::Index;
            if (plain)
                OPW_CHECK(check_plain(v, d, p_.expr(i).ref, e, rule));
            else if (rule == Extents::Equal && p_.is_integer_literal(i, 0)) {
                if (dim.extent.known_different(1))
                    return error(place,
                                 fmt::format("Index 0 alone does not cover {}, of extent {}.", dim_of(d, v.name),
                                             dim.extent.str()),
                                 "Use an index that runs over the whole dim.");
                if (!dim.extent.is(1))
                    add_requirement(
                        math::equal(dim.extent, 1),
                        fmt::format("In `{}`, {} has extent {}, but only index 0 of it is set; it must be 1.", op_.name,
                                    dim_of(d, v.name), dim.extent.str()));
            } else {
                OPW_CHECK(check_inside(v, d, i, e));
            }
        }
        if (dim.physical < 0) continue;
        if (dim.broadcast && !(dim.own == dim.extent)) {
            if (dim.own.is(1))
                i = p_.integer(0);
            else if (s_.broadcasting == Broadcasting::AtRunTime)
                i = p_.call(math::Fn::Mul, {i, p_.size(math::min(dim.own - Sym(1), Sym(1)))});
        }
        out.push_back(i);
    }
    return out;
}

Result<std::pair<Outside, std::optional<Value>>> Elaborator::outside(const Expr& e, DType type) {
    using R = std::pair<Outside, std::optional<Value>>;
    std::string word = e.outside;
    if (word == "(") {
        OPW_TRY(Value v, eval(*e.outside_value, type));
        OPW_TRY(v, computed(*e.outside_value, v, type));
        if (v.type != type)
            return error(*e.outside_value,
                         fmt::format("`{}` is {}, but the tensor is {}.", source_of(*e.outside_value),
                                     opwright::name(v.type), opwright::name(type)),
                         fmt::format("Convert it: cast(..., {}).", opwright::name(type)));
        return R{Outside::Value, v};
    }
    if (const auto v = values_.find(word); v != values_.end() && v->second.is(Kind::Text)) word = v->second.text;
    if (word.empty() || word == "error") return R{Outside::Error, std::nullopt};
    if (word == "clamp") return R{Outside::Clamp, std::nullopt};
    if (word == "wrap") return R{Outside::Wrap, std::nullopt};
    if (word == "reflect") return R{Outside::Reflect, std::nullopt};
    if (word == "mirror") return R{Outside::Mirror, std::nullopt};
    if (word == "zero") {
        const ExprId zero = type == DType::Bool ? p_.integer(0, type) : p_.literal(0, type);
        return R{Outside::Value, Value::of_expr(zero, type)};
    }
    const std::string near = did_you_mean(word, {"zero", "clamp", "wrap", "reflect", "mirror", "error"});
    return error(e, fmt::format("`{}` does not say what an access outside means.", word),
                 (near.empty() ? "" : fmt::format("Did you mean `{}`? ", near)) +
                     "The words are zero, clamp, wrap, reflect, mirror, error, or a value in parentheses.");
}

Result<Value> Elaborator::access(const Expr& e, Want) {
    if (const auto it = values_.find(e.name); it != values_.end()) {
        if (e.args.size() != 1 || e.args[0]->kind == ExprKind::Expand)
            return error(e, fmt::format("`{}` is {} and takes one index.", e.name, it->second.kind_name()),
                         fmt::format("Write {}[0].", e.name));
        if (it->second.is(Kind::Size) || (it->second.is(Kind::Literal)))
            return it->second;  // one number stands for all
        if (!it->second.is(Kind::List))
            return error(e, fmt::format("`{}` is {} and has no elements.", e.name, it->second.kind_name()),
                         "Use it without an index.");
        OPW_TRY(Value i, eval(*e.args[0], DType::I64));
        const auto k = i.constant_integer();
        const int64_t n = static_cast<int64_t>(it->second.list->size());
        if (!k)
            return error(
                *e.args[0],
                fmt::format("`{}` is not known at elaboration, so it cannot choose an element of the list `{}`.",
                            source_of(*e.args[0]), e.name),
                "Put the values into a table by const, which takes any index.");
        if (*k < 0 || *k >= n)
            return error(*e.args[0], fmt::format("Element {} of `{}` is outside 0..{}.", *k, e.name, n),
                         "Count from 0.");
        return (*it->second.list)[*k];
    }
    OPW_TRY(const View* v, tensor(e.name, e));
    if (!computing())
        return error(e, fmt::format("`{}` is not known before run time.", source_of(e)),
                     "Here only extents, attributes and numbers can stand.");
    const View view = *v;  // evaluating the indices may define temporaries
    OPW_TRY(auto at, items(e.args, DType::I64));
    if (view.id == math::kNone) {
        if (at.empty()) return view.scalar;
        return error(
            e,
            fmt::format("`{}` is a number here and takes no indices, but {} {} given.", view.name, at.size(),
                        at.size() == 1 ? "is" : "are"),
            fmt::format(
                "Only operators whose dims are all packs can be called inside an expression; call `{}` as a statement.",
                op_.name));
    }
    OPW_TRY(auto index, lower(view, at, e, plain_outside(e) ? Extents::Agree : Extents::Any));
    OPW_TRY(auto beyond, outside(e, view.type));
    const ExprId fill = beyond.second ? narrow(*beyond.second) : math::kNone;
    return Value::of_expr(p_.load(view.id, std::move(index), beyond.first, fill), view.type);
}

Result<Value> Elaborator::inside(const Expr& e) {
    OPW_CHECK(arity(e, 1));
    const Expr& a = *e.args[0];
    if (a.kind != ExprKind::Access) return error(a, "`inside` asks about an access.", "Write inside(x[i]).");
    if (!in_equation_)
        return error(e, fmt::format("`{}` is not known before run time.", source_of(e)), "Use it inside an equation.");
    OPW_TRY(const View* v, tensor(a.name, a));
    const View view = *v;
    OPW_TRY(auto at, items(a.args, DType::I64));
    if (view.id == math::kNone) return Value::of_condition(1);
    OPW_TRY(auto index, lower(view, at, a, Extents::Any));
    if (index.empty()) return Value::of_condition(1);
    return Value::of_expr(p_.inside(view.id, std::move(index)), DType::Bool);
}

}  // namespace opwright::lang
