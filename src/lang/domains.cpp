// Domains of indices: from dims and stated ranges, else from plain accesses.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Sym;
using math::VarId;
using Kind = Value::Kind;

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
            const bool converts = n == "cast" || n == "wrap" || n == "bitcast";  // the second argument is a type
            const size_t first = n == "merge" ? 2 : packs || converts ? 1 : e.args.size();
            for (size_t i = 0; i < std::min(first, e.args.size()); ++i) names_in(*e.args[i], packs, out);
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

}  // namespace opwright::lang
