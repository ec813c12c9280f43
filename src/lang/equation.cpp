// Equations: what they define, its type and extents.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::ExprId;
using math::Outside;
using math::Sym;
using math::VarId;
using Kind = Value::Kind;

namespace {
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
// Where a name stands in e, or null.
const Expr* find_name(const Expr& e, const std::string& name) {
    if (e.kind == ExprKind::Name && e.name == name) return &e;
    for (const Expr* a : e.args)
        if (const Expr* f = find_name(*a, name)) return f;
    return nullptr;
}
}  // namespace

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
        if (existing->second.type == DType::Bool && s.update != UpdateOp::Overwrite) {
            const char* op = s.update == UpdateOp::Add   ? "+="
                             : s.update == UpdateOp::Mul ? "*="
                             : s.update == UpdateOp::Max ? "max="
                                                         : "min=";
            return error(t, fmt::format("`{}` goes over numbers, and `{}` is bool.", op, n),
                         "Keep the tensor in i8, and compare it with 0 at the end.");
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
        if ((type && *type != v.type) || p_.expr(v.expr).dtype != v.type) {
            OPW_TRY(v, through_temporary(s.value->name, *s.value, v.expr, v.type, along));
        }
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
