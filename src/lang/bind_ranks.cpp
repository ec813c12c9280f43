// Binding of the ranks of packs.
#include <algorithm>

#include "lang/bind.h"
#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

// The stated length of a pack item, where it can be computed already.
Result<std::optional<int>> Elaborator::stated_rank(const Expr& e, std::map<std::string, int>& lengths) {
    (void)lengths;
    if (!e.rank) return std::optional<int>();
    OPW_TRY(Value v, eval_static(*e.rank));
    const auto c = v.constant_integer();
    if (!c)
        return error(*e.rank, fmt::format("The rank `{}` is not known at elaboration.", source_of(*e.rank)),
                     "Use constants, constant attributes, rank(...) and len(...).");
    if (*c < 0 || *c > kMaxRank)
        return error(
            *e.rank, fmt::format("The rank `{}` is {}, not from 0 to {}.", source_of(*e.rank), *c, kMaxRank),
            "Check the attribute: positions count from 0, and negative ones must be made positive before the call.");
    return std::optional<int>(static_cast<int>(*c));
}

Status Elaborator::bind_ranks(const std::vector<std::vector<BoundArg>>& args, std::map<std::string, int>& lengths,
                              const Span& place) {
    // A name known by its length alone until extents are bound; rank() of it is known already.
    const auto learn = [&](const std::string& n, int k, const Param& p) -> Status {
        if (k > kMaxRank)
            return at_call(place, p,
                           fmt::format("The pack `{}` of `{}` has rank {}, more than {}.", n, op_.name, k, kMaxRank),
                           "Lower the rank of the argument.");
        lengths[n] = k;
        Dim d;
        d.pack = true;
        d.extents.assign(static_cast<size_t>(k), Sym::symbol("?"));
        d.begins.assign(static_cast<size_t>(k), Sym(0));
        dims_[n] = std::move(d);
        return ok_status();
    };
    struct Widest {
        int rank = 0;
        const Param* param = nullptr;
    };
    std::map<std::string, Widest> widest;  // broadcast packs: the longest argument
    struct Todo {
        const Param* param;
        const BoundArg* arg;
        bool done = false;
    };
    std::vector<Todo> todo;
    for (size_t i = 0; i < op_.params.size(); ++i)
        for (const BoundArg& a : args[i])
            if (a.present) todo.push_back({&op_.params[i], &a});
    std::optional<Diagnostic> why;
    const auto pass = [&]() -> Result<bool> {
        bool progress = false;
        for (Todo& t : todo) {
            if (t.done) continue;
            int known = 0, single_broadcasts = 0;
            std::vector<std::string> open;
            const Expr* spread = nullptr;
            const Param& p = *t.param;
            const int rank = static_cast<int>(t.arg->shape.size());
            for (const Expr* d : p.dims) {
                const bool b = d->kind == ExprKind::Broadcast;
                const Expr& item = b ? *d->args[0] : *d;
                if (item.kind != ExprKind::Expand) {
                    ++known;
                    single_broadcasts += b;
                    continue;
                }
                const Expr& of = *item.args[0];
                std::vector<const Expr*> names;
                if (of.kind == ExprKind::Name) names = {&of};
                if (of.kind == ExprKind::Call && of.name == "merge" && of.args.size() == 3 &&
                    of.args[0]->kind == ExprKind::Name && of.args[1]->kind == ExprKind::Name && !b) {
                    names = {of.args[0], of.args[1]};
                    if (!lengths.count(of.args[1]->name)) {
                        in_equation_ = false;
                        Result<std::vector<Value>> axes = list_argument(*of.args[2]);
                        if (axes.ok())
                            OPW_CHECK(learn(of.args[1]->name, static_cast<int>(axes->size()), p));
                        else
                            why = axes.error();
                    }
                }
                if (names.empty())
                    return error(*d, fmt::format("`{}` is no form of dims that a parameter can have.", source_of(*d)),
                                 "The forms are m, 3, ~m, m..., ~m..., m...(rank) and merge(o, r, positions)....");
                if (b && of.kind == ExprKind::Name && values_.count(of.name)) {  // ~shape...: against an attribute
                    const Value& v = values_.at(of.name);
                    if (!v.is(Kind::List))
                        return error(
                            *d, fmt::format("`{}` is {}, where a list of extents is needed.", of.name, v.kind_name()),
                            "Broadcast against a pack, or an attribute of kind ints given as a list.");
                    if (v.list->size() > static_cast<size_t>(kMaxRank))
                        return error(*d, fmt::format("`{}` has more than {} elements.", of.name, kMaxRank),
                                     "Lower the rank.");
                    lengths[of.name] = static_cast<int>(v.list->size());
                }
                if (b && !item.rank) {
                    if (spread)
                        return error(*d, fmt::format("`{}` has two broadcast packs.", p.name),
                                     "One is enough: they would align at the right.");
                    spread = &of;
                    continue;
                }
                for (const Expr* n : names) {
                    if (!lengths.count(n->name) && item.rank) {
                        Result<std::optional<int>> r = stated_rank(item, lengths);
                        if (r.ok() && *r)
                            OPW_CHECK(learn(n->name, **r, p));
                        else if (!r.ok())
                            why = r.error();
                    }
                    if (const auto l = lengths.find(n->name); l != lengths.end())
                        known += l->second;
                    else
                        open.push_back(n->name);
                }
            }
            const bool all_broadcast = !spread && open.empty() && single_broadcasts == static_cast<int>(p.dims.size());
            if (open.size() > 1 || (open.size() == 1 && spread)) continue;
            const int rest = rank - known;
            const bool fits = open.size() == 1 || spread ? rest >= 0 : all_broadcast ? rest <= 0 : rest == 0;
            if (!fits) {
                const std::string need = open.size() == 1 || spread
                                             ? fmt::format("at least {}", dims_text(static_cast<size_t>(known)))
                                             : dims_text(static_cast<size_t>(known));
                return at_call(place, p,
                               fmt::format("`{}` of `{}` has {}, but an argument with {} is given.", p.name, op_.name,
                                           need, dims_text(static_cast<size_t>(rank))),
                               "Reshape the argument, or check the attributes that set the rank.");
            }
            if (open.size() == 1) OPW_CHECK(learn(open[0], rest, p));
            if (spread) {
                Widest& w = widest.emplace(spread->name, Widest{rest, &p}).first->second;
                if (rest > w.rank) w = {rest, &p};
            }
            t.done = progress = true;
        }
        return progress;
    };
    const auto settle = [&]() -> Status {
        for (;;) {
            OPW_TRY(bool more, pass());
            if (!more) return ok_status();
        }
    };
    OPW_CHECK(settle());
    for (const auto& [n, w] : widest)
        if (!lengths.count(n)) OPW_CHECK(learn(n, w.rank, *w.param));
    OPW_CHECK(settle());
    for (const Todo& t : todo) {
        if (t.done) continue;
        if (why) return *why;
        return error(*t.param, fmt::format("The ranks of the packs of `{}` cannot be told apart.", t.param->name),
                     "State the rank of all packs but one, as in a...(axis).");
    }
    for (const auto& [n, w] : widest)
        if (w.rank > lengths[n])
            return at_call(place, *w.param,
                           fmt::format("`{}` of `{}` has {} for the pack `{}` of rank {}.", w.param->name, op_.name,
                                       dims_text(static_cast<size_t>(w.rank)), n, lengths[n]),
                           "Leave out dims of the argument: a pack of another parameter sets the rank.");
    return ok_status();
}

}  // namespace opwright::lang
