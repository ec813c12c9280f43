// Equations: the domains of their indices, what they define, and accesses to tensors.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Outside;
using math::Sym;
using math::VarId;
using Kind = Value::Kind;

namespace {
std::string dim_of(size_t d, const std::string& tensor) { return fmt::format("dim {} of `{}`", d, tensor); }
math::Update update_of(UpdateOp u) {
    switch (u) {
        case UpdateOp::Set: return math::Update::Set;
        case UpdateOp::Add: return math::Update::Add;
        case UpdateOp::Mul: return math::Update::Mul;
        case UpdateOp::Max: return math::Update::Max;
        case UpdateOp::Min: return math::Update::Min;
        case UpdateOp::Overwrite: return math::Update::Overwrite;
    }
    return math::Update::Set;
}
bool plain_outside(const Expr& access) { return access.outside.empty() || access.outside == "error"; }
// Where a name stands in e, or null.
const Expr* find_name(const Expr& e, const std::string& name) {
    if (e.kind == ExprKind::Name && e.name == name) return &e;
    for (const Expr* a : e.args)
        if (const Expr* f = find_name(*a, name)) return f;
    return nullptr;
}
}  // namespace

// ---- names and domains

// Index names of a left side. Those that no dim or range knows are to be inferred.
void Elaborator::names_in(const Expr& e, bool under_expand, std::map<std::string, Found>& out) const {
    switch (e.kind) {
        case ExprKind::Name:
            if (const auto d = dims_.find(e.name); d != dims_.end()) {
                out[e.name].pack = d->second.pack;
            } else if (!values_.count(e.name) && !types_.count(e.name) && !views_.count(e.name) && e.name != "true" &&
                       e.name != "false" && e.name != "inf" && e.name != "nan" && e.name != "pi" && e.name != "none" &&
                       !each_.count(e.name)) {
                out[e.name].pack |= under_expand;
            }
            return;
        case ExprKind::Expand: return names_in(*e.args[0], e.args[0]->kind == ExprKind::Name, out);
        case ExprKind::Call: {
            const std::string& n = e.name;
            if (n == "size" || n == "rank" || n == "len" || n == "present" || n == "before") return;
            const bool packs = n == "merge" || n == "permute" || n == "reverse" || n == "take" || n == "drop";
            const size_t first = n == "merge" ? 2 : 1;
            for (size_t i = 0; i < e.args.size() && (!packs || i < first); ++i) names_in(*e.args[i], packs, out);
            return;
        }
        case ExprKind::Reduce: return;
        case ExprKind::Integer:
        case ExprKind::Float:
        case ExprKind::String:
        case ExprKind::List:
        case ExprKind::Unary:
        case ExprKind::Binary:
        case ExprKind::In:
        case ExprKind::Access:
        case ExprKind::Broadcast:
        case ExprKind::Each: break;
    }
    for (const Expr* a : e.args) names_in(*a, false, out);
}

std::optional<size_t> Elaborator::length_of(const Expr& e) {
    if (e.kind == ExprKind::Name) {
        if (const auto it = indices_.find(e.name); it != indices_.end())
            return it->second.is(Kind::List) ? std::optional(it->second.list->size()) : std::nullopt;
        if (const auto it = values_.find(e.name); it != values_.end() && it->second.is(Kind::List))
            return it->second.list->size();
        if (const auto it = dims_.find(e.name); it != dims_.end() && it->second.pack) return it->second.extents.size();
        return std::nullopt;
    }
    if (e.kind == ExprKind::Call && !e.args.empty()) {
        const std::string& n = e.name;
        if (n == "merge" && e.args.size() == 3) {
            const auto a = length_of(*e.args[0]), b = length_of(*e.args[1]);
            return a && b ? std::optional(*a + *b) : std::nullopt;
        }
        if (n == "permute" || n == "reverse") return length_of(*e.args[0]);
        if (n == "take" || n == "drop" || n == "range" || n == "fill") {
            const bool outer = std::exchange(in_equation_, false);
            Result<Value> v = eval(*e.args.back(), {});
            in_equation_ = outer;
            const auto k = v.ok() ? v->constant_integer() : std::nullopt;
            if (!k || *k < 0) return std::nullopt;
            if (n != "drop") return static_cast<size_t>(*k);
            const auto all = length_of(*e.args[0]);
            return all && *all >= static_cast<size_t>(*k) ? std::optional(*all - static_cast<size_t>(*k))
                                                          : std::nullopt;
        }
    }
    std::set<std::string> bound;
    std::vector<const Expr*> packs;
    packs_in(e, bound, packs);
    for (const Expr* p : packs)
        if (p != &e)
            if (auto n = length_of(*p)) return n;
    return std::nullopt;
}

void Elaborator::infer_access(const std::vector<const Expr*>& items, const std::vector<std::optional<Sym>>& extents,
                              const std::string& tensor, std::map<std::string, Found>& names) {
    std::vector<size_t> lengths(items.size(), 1);
    size_t known = 0;
    std::optional<size_t> open;
    for (size_t i = 0; i < items.size(); ++i) {
        if (items[i]->kind == ExprKind::Expand) {
            const auto n = length_of(*items[i]->args[0]);
            if (!n && open) return;
            if (!n) open = i;
            lengths[i] = n.value_or(0);
        }
        known += lengths[i];
    }
    if (known > extents.size()) return;
    if (open)
        lengths[*open] = extents.size() - known;
    else if (known != extents.size())
        return;
    for (size_t i = 0, d = 0; i < items.size(); d += lengths[i++]) {
        const Expr& e = *items[i];
        const Expr& base = e.kind == ExprKind::Expand ? *e.args[0] : e;
        if (base.kind != ExprKind::Name || element_.count(&base)) continue;
        const auto it = names.find(base.name);
        if (it == names.end() || it->second.known || it->second.pack != (e.kind == ExprKind::Expand)) continue;
        Found f = it->second;
        f.known = true;
        f.origin = dim_of(d, tensor);
        for (size_t k = 0; k < lengths[i]; ++k) {
            f.known = f.known && extents[d + k].has_value();
            f.extents.push_back(extents[d + k].value_or(Sym(0)));
        }
        if (f.known) it->second = std::move(f);
    }
}

void Elaborator::infer(const Expr& e, std::map<std::string, Found>& names) {
    if (names.empty()) return;
    if (e.kind == ExprKind::Access && plain_outside(e))
        if (const auto v = views_.find(e.name); v != views_.end() && v->second.id != math::kNone) {
            std::vector<std::optional<Sym>> extents;
            for (const LogicalDim& d : v->second.dims) extents.emplace_back(d.extent);
            infer_access(e.args, extents, e.name, names);
        }
    for (const Expr* a : e.args) infer(*a, names);
    if (e.outside_value) infer(*e.outside_value, names);
}

VarId Elaborator::variable(const std::string& name, const Sym& extent, bool stated, bool bound,
                           const std::string& origin, const Sym& begin) {
    std::vector<VarId>& same = vars_[name];
    for (VarId v : same) {
        const Shared::VarInfo& i = s_.vars[v];
        if (i.stated == stated && i.bound == bound && p_.vars[v].extent == extent && i.begin == begin) return v;
    }
    const VarId v = p_.add_var(name, extent);
    s_.vars.resize(v + 1);
    s_.vars[v] = {name, origin, stated, bound, begin};
    same.push_back(v);
    return v;
}

Status Elaborator::bring_in(const std::string& name, bool pack, const Found* found, uint32_t at, uint32_t end,
                            bool bound, const Dim* range) {
    if (const auto v = values_.find(name); v != values_.end())
        return error_at(at, end, fmt::format("`{}` is {} and cannot be an index.", name, v->second.kind_name()),
                        "Choose another name for the index.");
    const Dim* dim = range;
    if (!dim)
        if (const auto d = dims_.find(name); d != dims_.end()) dim = &d->second;
    if (dim && dim->pack != pack)
        return error_at(
            at, end, fmt::format("`{}` is {}.", name, dim->pack ? "a pack of dims" : "one dim, not a pack"),
            dim->pack ? fmt::format("Write {}... here.", name) : fmt::format("Write {} without '...'.", name));
    Dim inferred;
    if (!dim) {
        if (!found || !found->known) {
            std::vector<std::string> all;
            for (const auto& [n, d] : dims_) all.push_back(n);
            const std::string near = did_you_mean(name, all);
            return error_at(
                at, end, fmt::format("The index `{}` has no range.", name),
                (near.empty() ? "" : fmt::format("Did you mean `{}`? ", near)) +
                    fmt::format("Use `{0}` plainly in an access such as x[{0}], or state its range: {0}{1} in 0..n.",
                                name, pack ? "..." : ""));
        }
        inferred.pack = pack;
        inferred.extents = found->extents;
        inferred.begins.assign(found->extents.size(), Sym(0));
        inferred.origin = found->origin;
        dim = &inferred;
    }
    std::vector<Value> all;
    for (size_t i = 0; i < dim->extents.size(); ++i) {
        const std::string n = dim->pack ? fmt::format("{}{}", name, i) : name;
        const VarId v = variable(n, dim->extents[i], dim->stated, bound, dim->origin, dim->begins[i]);
        ExprId e = p_.index(v);
        if (!dim->begins[i].is(0)) e = p_.call(math::Fn::Add, {e, p_.size(dim->begins[i])});
        all.push_back(Value::of_expr(e, DType::I64, true));
    }
    indices_[name] = pack ? Value::of_list(std::move(all)) : all[0];
    return ok_status();
}

// ---- accesses

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

// ---- what an equation defines

// Extents of an output as declared; nullopt where only its equation tells. `count` is the number of indices written,
// where known; a pack that nothing else defines takes what is left of it.
Result<std::vector<std::optional<Sym>>> Elaborator::declared_dims(const Param& output, std::optional<size_t> count) {
    std::vector<std::optional<Sym>> out;
    std::optional<size_t> open;
    const bool outer = std::exchange(in_equation_, false);
    const auto run = [&]() -> Status {
        for (const Expr* d : output.dims) {
            const Expr& base = d->kind == ExprKind::Expand ? *d->args[0] : *d;
            if (base.kind == ExprKind::Name && !dims_.count(base.name) && !values_.count(base.name) &&
                !each_.count(base.name)) {
                if (d->kind == ExprKind::Expand) {
                    if (open)
                        return error(*d, fmt::format("`{}` has two packs whose ranks are not known.", output.name),
                                     "State the range of one of them.");
                    open = out.size();
                } else {
                    out.emplace_back();
                }
                continue;
            }
            if (d->kind == ExprKind::Broadcast || d->kind == ExprKind::Each)
                return error(*d, "An output cannot broadcast.",
                             "Name the extent alone: it is that of the broadcast result.");
            OPW_TRY(auto some, items({d}, {}));
            for (const Value& v : some) {
                const auto s = v.as_sym();
                if (!s)
                    return error(*d, fmt::format("`{}` is {} and no extent.", source_of(*d), v.kind_name()),
                                 "An extent is an integer of extents and attributes.");
                out.emplace_back(*s);
            }
        }
        return ok_status();
    };
    const Status good = run();
    in_equation_ = outer;
    if (!good.ok()) return good.error();
    if (out.size() > kMaxRank)
        return error(output, fmt::format("`{}` has more than {} dims.", output.name, kMaxRank), "Lower its rank.");
    if (open) {
        if (!count) return std::vector<std::optional<Sym>>{};
        if (*count > out.size()) out.insert(out.begin() + static_cast<long>(*open), *count - out.size(), std::nullopt);
    }
    return out;
}

Result<View*> Elaborator::define(const std::string& name, DType type, std::vector<Sym> shape, uint32_t at,
                                 uint32_t end) {
    if (shape.size() > kMaxRank)
        return error_at(at, end, fmt::format("`{}` has more than {} dims.", name, kMaxRank), "Lower its rank.");
    const auto out = outputs_.find(name);
    View v;
    v.name = name;
    v.type = type;
    v.at = at;
    v.at_end = end;
    for (size_t i = 0; i < shape.size(); ++i) v.dims.push_back({static_cast<int>(i), shape[i], shape[i], false});
    const bool called = out != outputs_.end();
    const bool named = called && !out->second.second.name.empty();
    v.id = p_.add_tensor(named ? out->second.second.name : fresh_name(name), type, std::move(shape),
                         called ? out->second.second.role : math::Role::Temp);
    return &(views_[name] = std::move(v));
}

Status Elaborator::check_declared(const Param& output, const View& v, const Expr& at) {
    OPW_TRY(auto dims, declared_dims(output, v.dims.size()));
    if (dims.size() != v.dims.size())
        return error(at,
                     fmt::format("`{}` is declared with {} dim{}, but gets {}.", v.name, dims.size(),
                                 dims.size() == 1 ? "" : "s", v.dims.size()),
                     "Make the declaration and the result agree.");
    for (size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d] || *dims[d] == v.dims[d].extent) continue;
        if (dims[d]->known_different(v.dims[d].extent))
            return error(at,
                         fmt::format("{} is declared with extent {}, but gets {}.", "D" + dim_of(d, v.name).substr(1),
                                     dims[d]->str(), v.dims[d].extent.str()),
                         "Make the declaration and the result agree.");
        add_requirement(math::equal(*dims[d], v.dims[d].extent),
                        fmt::format("In `{}`, {} is declared with extent {} and gets {}; they must be equal.", op_.name,
                                    dim_of(d, v.name), dims[d]->str(), v.dims[d].extent.str()));
    }
    return ok_status();
}

Status Elaborator::equation(const Stmt& s) {
    if (p_.equations.size() >= kMaxEquations)
        return error(s, fmt::format("`{}` elaborates to more than {} equations.", op_.name, kMaxEquations),
                     "Split the operator.");
    in_equation_ = true;
    indices_.clear();
    Status r = scalar_mode ? scalar_equation(s) : equation_inside(s);
    indices_.clear();
    element_.clear();
    in_equation_ = false;
    return r;
}

Status Elaborator::scalar_equation(const Stmt& s) {
    const Expr& t = *s.target;
    if (s.update != UpdateOp::Set)
        return error(t, fmt::format("`{}` updates a tensor and cannot be called inside an expression.", op_.name),
                     "Call it as a statement.");
    if (views_.count(t.name)) return error(t, fmt::format("`{}` is defined already.", t.name), "Use another name.");
    for (const auto& [n, d] : dims_)
        if (d.pack && d.extents.empty()) indices_[n] = Value::of_list({});
    OPW_TRY(auto at, items(t.args, {}));
    if (!at.empty())
        return error(t, fmt::format("`{}` has dims and cannot be computed inside an expression.", t.name),
                     fmt::format("Call `{}` as a statement.", op_.name));
    std::optional<DType> type;
    if (const auto out = outputs_.find(t.name); out != outputs_.end()) {
        OPW_TRY(type, output_type(*out->second.first));
    } else if (s.type) {
        OPW_TRY(type, type_of(s.type));
    }
    OPW_TRY(Value v, eval(*s.value, type));
    OPW_TRY(v, computed(*s.value, v, type));
    if (type && v.type != *type)
        return error(*s.value,
                     fmt::format("`{}` is {}, but its equation delivers {}.", t.name, opwright::name(*type),
                                 opwright::name(v.type)),
                     fmt::format("Convert it: cast(..., {}).", opwright::name(*type)));
    View view;
    view.name = t.name;
    view.type = v.type;
    view.scalar = std::move(v);
    views_[t.name] = std::move(view);
    return ok_status();
}

Result<std::optional<DType>> Elaborator::output_type(const Param& output) const {
    if (output.type) {
        OPW_TRY(DType t, type_of(output.type));
        return std::optional<DType>(t);
    }
    const auto t = types_.find("T");
    return t == types_.end() ? std::nullopt : std::optional<DType>(t->second);
}

Status Elaborator::equation_inside(const Stmt& s) {
    const Expr& t = *s.target;
    const std::string& n = t.name;
    const auto out = outputs_.find(n);
    const auto existing = views_.find(n);
    const bool is_new = existing == views_.end();
    if (!is_new) {
        const math::Role role = p_.tensors[existing->second.id].role;
        const bool own = written_.count(n) > 0;
        if (!own || role == math::Role::Constant)
            return error(t,
                         fmt::format("`{}` is {} and cannot be written.", n,
                                     role == math::Role::Constant ? "a table" : "a parameter"),
                         "Copy it first: y[i] = x[i].");
        if (s.update == UpdateOp::Set) {
            Diagnostic x = error(t, fmt::format("`{}` is defined already.", n),
                                 "Use another name, or update it with += *= max= min= or :=.");
            return x.with_note("its first equation is here", op_.span(existing->second.at, existing->second.at_end));
        }
    } else {
        if (out == outputs_.end()) OPW_CHECK(free_name(n, t.begin, t.begin + static_cast<uint32_t>(n.size())));
        if (s.update != UpdateOp::Set && !(s.update == UpdateOp::Overwrite && out != outputs_.end()))
            return error(t, fmt::format("`{}` is updated before an equation defines it.", n),
                         fmt::format("Define the whole tensor first, as in {}[...] = 0.", n));
    }
    if (!t.outside.empty() && t.outside != "drop" && t.outside != "error")
        return error(t, fmt::format("`{}` does not say what a write outside means.", t.outside),
                     "Write `outside drop`, or nothing where writes must stay inside.");
    if (!t.outside.empty() && s.update == UpdateOp::Set)
        return error(t, "An equation that defines a tensor has no outside.",
                     "Remove it; updates such as += may have one.");

    // Domains of the indices on the left: dims and ranges are known; others come from plain accesses.
    std::map<std::string, Found> left;
    for (const Expr* a : t.args) names_in(*a, false, left);
    std::map<std::string, Found> open;
    for (const auto& [name, f] : left)
        if (!dims_.count(name)) open.emplace(name, f);
    if (!open.empty()) {
        std::vector<std::optional<Sym>> extents;
        bool usable = true;
        if (!is_new) {
            for (const LogicalDim& d : existing->second.dims) extents.emplace_back(d.extent);
        } else if (out != outputs_.end()) {
            OPW_TRY(extents, declared_dims(*out->second.first, {}));
        } else {
            usable = false;
        }
        if (usable) infer_access(t.args, extents, n, open);
        for (const Expr* a : t.args) infer(*a, open);
        infer(*s.value, open);
    }
    for (const auto& [name, f] : left) {
        const auto o = open.find(name);
        const Expr* at = find_name(t, name);
        OPW_CHECK(bring_in(name, f.pack, o == open.end() ? nullptr : &o->second, (at ? at : &t)->begin,
                           (at ? at : &t)->end, false));
    }
    OPW_TRY(auto at, items(t.args, DType::I64));

    std::vector<Sym> extents;  // of the indices on the left, where they are plain
    if (s.update == UpdateOp::Set) {
        std::set<VarId> seen;
        for (const Value& v : at) {
            OPW_TRY(ExprId i, as_index(t, v));
            if (p_.is_integer_literal(i, 0)) {
                extents.emplace_back(1);
                continue;
            }
            if (p_.expr(i).kind != math::ExprKind::Index)
                return error(t, fmt::format("The left side `{}` sets only a part of the tensor.", source_of(t)),
                             fmt::format("Define it with plain indices that start at 0, and write parts with := after "
                                         "that: {}[...] = 0.",
                                         n));
            const VarId v_id = p_.expr(i).ref;
            if (!seen.insert(v_id).second)
                return error(t, fmt::format("The index `{}` stands twice on the left.", p_.vars[v_id].name),
                             "Use a different index for every dim.");
            extents.push_back(p_.vars[v_id].extent);
        }
    }

    // Type and extents of what is written.
    std::optional<DType> type;
    if (!is_new) type = existing->second.type;
    if (s.type) {
        OPW_TRY(DType stated, type_of(s.type));
        if (!is_new || out != outputs_.end())
            return error(s.type, fmt::format("The type of `{}` is stated already.", n), "State it once.");
        type = stated;
    }
    std::vector<Sym> shape;
    if (is_new && out != outputs_.end()) {
        OPW_TRY(type, output_type(*out->second.first));
        OPW_TRY(auto dims, declared_dims(*out->second.first, at.size()));
        if (dims.size() != at.size())
            return error(
                t,
                fmt::format("`{}` is declared with {} dim{}, but {} {} written.", n, dims.size(),
                            dims.size() == 1 ? "" : "s", at.size(), at.size() == 1 ? "index is" : "indices are"),
                "Give one index for each dim.");
        for (size_t d = 0; d < dims.size(); ++d) {
            if (!dims[d] && extents.empty())
                return error(t, fmt::format("The extent of {} is not known.", dim_of(d, n)),
                             "State the ranges of the output's dims, or define the whole tensor first.");
            shape.push_back(dims[d] ? *dims[d] : extents[d]);
        }
    } else if (is_new) {
        shape = extents;
    }

    Value v;
    VarId along = math::kNone;
    if (is_scan(*s.value) && s.update == UpdateOp::Set) {
        OPW_TRY(v, scan(*s.value, type, along));
        if ((type && *type != v.type) || p_.expr(v.expr).dtype != v.type)
            v = through_temporary(s.value->name, v.expr, v.type, along);
    } else {
        OPW_TRY(v, eval(*s.value, type));
        OPW_TRY(v, computed(*s.value, v, type));
    }
    if (type && v.type != *type) {
        const bool declared = is_new;
        return error(
            *s.value,
            fmt::format("`{}` is {}, but its equation delivers {}.", n, opwright::name(*type), opwright::name(v.type)),
            fmt::format("Convert it: cast(..., {}){}.", opwright::name(*type),
                        declared ? fmt::format("; or declare {}: {}[...]", n, opwright::name(v.type)) : ""));
    }
    const ExprId rhs = narrow(v);
    View* view = nullptr;
    if (is_new) {
        OPW_TRY(view, define(n, v.type, std::move(shape), t.begin, t.end));
        written_.insert(n);
    } else {
        view = &views_.at(n);
    }
    const auto reads = p_.reads(rhs);
    if (std::find(reads.begin(), reads.end(), view->id) != reads.end())
        return error(*s.value, fmt::format("`{}` is read while it is being updated.", n),
                     "Read a copy: z[i] = y[i] before this equation.");
    OPW_TRY(auto index, lower(*view, at, t,
                              s.update == UpdateOp::Set ? Extents::Equal
                              : t.outside == "drop"     ? Extents::Any
                                                        : Extents::Within));
    p_.add_equation(view->id, std::move(index), rhs, update_of(s.update),
                    t.outside == "drop" ? Outside::Value : Outside::Error, op_.span(s.begin, s.end));
    return ok_status();
}

}  // namespace opwright::lang
