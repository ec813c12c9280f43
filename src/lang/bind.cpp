// Binding of a call's arguments: their dims under the names that the declaration gives them, and the extents behind
// those.
#include <algorithm>

#include "lang/bind.h"
#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

Diagnostic Elaborator::at_call(const Span& place, const Param& p, std::string message, std::string next) const {
    if (!place.source) return Diagnostic(std::move(message), op_.span(p.begin, p.end), std::move(next));
    return Diagnostic(std::move(message), place, std::move(next))
        .with_note(fmt::format("`{}` is declared here", p.name), op_.span(p.begin, p.end));
}

bool Elaborator::not_one(const Sym& extent) const {
    return extent.known_different(1) || (s_.broadcasting == Broadcasting::Known && !extent.is(1));
}

// The extent that all dims under one name agree on. What cannot be decided now becomes a requirement.
Status Elaborator::unify(const std::string& key, const std::vector<Occurrence>& all, Sym& common, const Span& place) {
    const std::string shown = key.substr(0, key.find('#'));
    const auto agree = [&](const Occurrence& a, const Occurrence& b) -> Status {
        if (a.own == b.own) return ok_status();
        if (a.own.known_different(b.own))
            return Diagnostic(fmt::format("`{}` of `{}` is {} in {}, but {} in {}.", shown, op_.name, a.own.str(),
                                          a.where, b.own.str(), b.where),
                              place.source ? place : op_.span(op_.name_at, op_.name_end),
                              fmt::format("Give arguments that agree: all dims named `{}` have one extent.", shown));
        const bool open = (a.broadcast && !a.own.known_different(1)) || (b.broadcast && !b.own.known_different(1));
        add_requirement(
            math::equal(a.own, b.own),
            fmt::format(
                "In `{}`, {} (extent {}) and {} (extent {}) must be equal{}.", op_.name, a.where, a.own.str(), b.where,
                b.own.str(),
                open ? "; an extent of 1 is broadcast only where it is known before: state the shapes of the inputs"
                     : ""));
        return ok_status();
    };
    const auto cannot = [&](const Occurrence& a, const Occurrence& b) {
        return Diagnostic(
            fmt::format("In `{}`, {} has extent {} and {} has extent {}, and they cannot be broadcast together.",
                        op_.name, a.where, a.own.str(), b.where, b.own.str()),
            place.source ? place : op_.span(op_.name_at, op_.name_end), "Extents must be equal, or one of them 1.");
    };
    const auto or_one = [&](const Occurrence& a, const Occurrence& b, Sym value) {
        add_requirement(std::move(value),
                        fmt::format("In `{}`, {} (extent {}) and {} (extent {}) must be equal, or one of them 1.",
                                    op_.name, a.where, a.own.str(), b.where, b.own.str()));
    };
    const Occurrence* strict = nullptr;
    for (const Occurrence& o : all)
        if (!o.broadcast && (!strict || (!strict->own.is_const() && o.own.is_const()))) strict = &o;
    if (strict) {
        for (const Occurrence& o : all)
            if (!o.broadcast) OPW_CHECK(agree(*strict, o));
        common = strict->own;
        for (const Occurrence& o : all) {
            if (!o.broadcast || o.own == common || o.own.is(1)) continue;
            const bool must_agree = not_one(o.own), not_same = o.own.known_different(common);
            if (o.own.known_different(1) && not_same) return cannot(*strict, o);
            if (must_agree)
                OPW_CHECK(agree(*strict, o));
            else
                add_requirement(math::max(math::equal(o.own, 1), math::equal(o.own, common)),
                                fmt::format("In `{}`, {} (extent {}) must be 1 or equal {} (extent {}).", op_.name,
                                            o.where, o.own.str(), strict->where, common.str()));
        }
        return ok_status();
    }
    Occurrence so_far = all[0];
    for (size_t i = 1; i < all.size(); ++i) {
        const Occurrence& o = all[i];
        if (o.own == so_far.own || o.own.is(1)) continue;
        if (so_far.own.is(1)) {
            so_far = o;
            continue;
        }
        const bool a_not_one = not_one(so_far.own), b_not_one = not_one(o.own),
                   differ = so_far.own.known_different(o.own);
        if (a_not_one && b_not_one) {
            if (differ) return cannot(so_far, o);
            OPW_CHECK(agree(so_far, o));
            if (o.own.is_const()) so_far = o;
        } else if (a_not_one) {
            or_one(so_far, o, math::max(math::equal(o.own, 1), math::equal(o.own, so_far.own)));
        } else if (b_not_one) {
            or_one(so_far, o, math::max(math::equal(so_far.own, 1), math::equal(o.own, so_far.own)));
            so_far = o;
        } else {
            or_one(so_far, o,
                   math::max(math::max(math::equal(so_far.own, 1), math::equal(o.own, 1)),
                             math::equal(o.own, so_far.own)));
            so_far.own = math::select(math::equal(so_far.own, 1), o.own, so_far.own);
        }
    }
    common = so_far.own;
    return ok_status();
}

// The dims of one argument of p, in order, missing leading ones of a broadcast parameter included.
Result<std::vector<Elaborator::Slot>> Elaborator::slots_of(const Param& p, int rank,
                                                           const std::map<std::string, int>& lengths) {
    std::vector<Slot> out;
    const auto pack = [&](const std::string& n, const Expr* d, bool broadcast) {
        for (int k = 0; k < lengths.at(n); ++k) out.push_back({n + "#" + std::to_string(k), d, broadcast, false, -1});
    };
    for (const Expr* d : p.dims) {
        const bool b = d->kind == ExprKind::Broadcast;
        const Expr& item = b ? *d->args[0] : *d;
        if (item.kind == ExprKind::Expand) {
            const Expr& of = *item.args[0];
            if (of.kind == ExprKind::Name) {
                if (!b && values_.count(of.name))
                    return error(of, fmt::format("`{}` is an attribute and a pack of dims at once.", of.name),
                                 "Rename one of the two.");
                pack(of.name, d, b);
            } else {
                const std::string &o = of.args[0]->name, &r = of.args[1]->name;
                const int total = lengths.at(o) + lengths.at(r);
                OPW_TRY(auto at, positions(*of.args[2], total));
                if (static_cast<int>(at.size()) != lengths.at(r))
                    return error(*of.args[2],
                                 fmt::format("`{}` has {} positions for the {} dims of `{}`.", source_of(*of.args[2]),
                                             at.size(), lengths.at(r), r),
                                 "Give one position for each.");
                std::vector<std::string> keys(static_cast<size_t>(total));
                for (size_t k = 0; k < at.size(); ++k) keys[at[k]] = r + "#" + std::to_string(k);
                int next = 0;
                for (std::string& k : keys) {
                    if (k.empty()) k = o + "#" + std::to_string(next++);
                    out.push_back({k, d, false, false, -1});
                }
            }
        } else if (item.kind == ExprKind::Name && !values_.count(item.name)) {
            if (lengths.count(item.name))
                return error(item, fmt::format("`{0}` is a pack and one dim at once.", item.name),
                             fmt::format("Write {0}... for the pack, or rename the dim.", item.name));
            out.push_back({item.name, d, b, false, -1});
        } else if (item.kind == ExprKind::Each) {
            out.push_back({item.args[0]->name, d, false, true, -1});
        } else {
            if (b) return error(*d, "Only a name or a pack can be broadcast.", "Write ~m or ~m....");
            out.push_back({"", d, false, false, -1});
        }
    }
    // Missing dims: the leading ones of a broadcast pack, or of a parameter whose dims are all broadcast.
    const int missing = static_cast<int>(out.size()) - rank;
    int skip = missing, physical = 0;
    for (Slot& s : out) {
        if (skip > 0 && s.broadcast)
            --skip;
        else
            s.physical = physical++;
    }
    return out;
}

Status Elaborator::bind_arguments(std::vector<std::vector<BoundArg>> args, std::vector<OutputSlot> outputs,
                                  Span place) {
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        for (const BoundArg& a : args[i]) {
            if (a.present) continue;
            if (!p.optional)
                return at_call(place, p,
                               fmt::format("`{}` of `{}` is left out, but it is not optional.", p.name, op_.name),
                               "Give the argument.");
            absent_.insert(p.name);
        }
        if (p.variadic && args[i].empty())
            return at_call(place, p, fmt::format("`{}` needs at least one tensor for `{}`.", op_.name, p.name),
                           "Give one or more arguments.");
    }
    for (size_t i = 0; i < op_.outputs.size(); ++i) outputs_[op_.outputs[i].name] = {&op_.outputs[i], outputs[i]};
    for (const Param& p : op_.params)
        for (const Expr* d : p.dims)
            if (d->kind == ExprKind::Each && !p.variadic)
                return error(
                    *d, fmt::format("`{}` is not variadic, so its dims cannot differ from tensor to tensor.", p.name),
                    "Remove the '*', or declare " + p.name + "*.");
    OPW_CHECK(bind_types(args, place));
    std::map<std::string, int> lengths;
    OPW_CHECK(bind_ranks(args, lengths, place));

    std::vector<std::string> order;
    std::map<std::string, std::vector<Occurrence>> occurrences;
    std::vector<std::vector<std::vector<Slot>>> slots(op_.params.size());
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        for (size_t t = 0; t < args[i].size(); ++t) {
            slots[i].emplace_back();
            const BoundArg& a = args[i][t];
            if (!a.present) continue;
            OPW_TRY(slots[i].back(), slots_of(p, static_cast<int>(a.shape.size()), lengths));
            for (const Slot& s : slots[i].back()) {
                if (s.key.empty()) continue;
                if (s.physical < 0) {  // as if it were there with extent 1
                    auto& all = occurrences[s.key];
                    if (all.empty()) order.push_back(s.key);
                    all.push_back({fmt::format("a missing dim of `{}`", p.name), Sym(1), true});
                    continue;
                }
                const std::string label =
                    fmt::format("dim {} of `{}`", s.physical, p.variadic ? fmt::format("{}[{}]", p.name, t) : p.name);
                if (s.each) {
                    each_[s.key].push_back(a.shape[static_cast<size_t>(s.physical)]);
                    continue;
                }
                auto& all = occurrences[s.key];
                if (all.empty()) order.push_back(s.key);
                all.push_back({label, a.shape[static_cast<size_t>(s.physical)], s.broadcast});
            }
        }
    }
    std::map<std::string, Sym> commons;
    for (const auto& [n, k] : lengths) {
        if (const auto v = values_.find(n); v != values_.end()) {
            for (size_t i = 0; i < v->second.list->size(); ++i) {
                const std::string key = fmt::format("{}#{}", n, i);
                if (!occurrences.count(key)) order.push_back(key);
                const auto s = (*v->second.list)[i].as_sym();
                if (!s)
                    return error_at(op_.name_at, op_.name_end, fmt::format("`{}` holds values that are no extents.", n),
                                    "Broadcast against integers.");
                occurrences[key].push_back({fmt::format("element {} of `{}`", i, n), *s, false});
            }
            continue;
        }
        Dim d;
        d.pack = true;
        d.begins.assign(static_cast<size_t>(k), Sym(0));
        d.extents.assign(static_cast<size_t>(k), Sym(0));
        dims_[n] = std::move(d);
    }
    for (const std::string& key : order) {
        const auto& all = occurrences[key];
        Sym common;
        OPW_CHECK(unify(key, all, common, place));
        commons[key] = common;
        const size_t hash = key.find('#');
        if (values_.count(key.substr(0, hash))) continue;
        Dim& d = dims_[key.substr(0, hash)];
        if (hash == std::string::npos) {
            d.extents = {common};
            d.begins = {Sym(0)};
        } else {
            d.extents[std::stoul(key.substr(hash + 1))] = common;
        }
        if (d.origin.empty()) d.origin = all[0].where;
    }
    // A dim such as 2*c binds c where nothing else does.
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        for (size_t t = 0; t < args[i].size(); ++t)
            for (const Slot& s : slots[i][t]) {
                const auto m = s.key.empty() ? multiple_of_name(*s.dim) : std::nullopt;
                if (!m || values_.count(m->name) || dims_.count(m->name)) continue;
                const Sym& own = args[i][t].shape[static_cast<size_t>(s.physical)];
                const Sym rest = math::mod(own, m->factor);
                if (rest.lower() > 0)
                    return at_call(place, p,
                                   fmt::format("Dim {} of `{}` has extent {}, which is no multiple of {}.", s.physical,
                                               p.name, own.str(), m->factor),
                                   fmt::format("Give `{}` an extent of the form {}.", p.name, source_of(*s.dim)));
                if (!rest.is(0))
                    add_requirement(
                        math::equal(rest, 0),
                        fmt::format("In `{}`, dim {} of `{}` has extent {}, which must be a multiple of {}.", op_.name,
                                    s.physical, p.name, own.str(), m->factor));
                Dim d;
                d.extents = {math::floor_div(own, m->factor)};
                d.begins = {Sym(0)};
                d.stated = true;  // it goes over a part of that dim
                d.origin = fmt::format("dim {} of `{}`", s.physical, p.name);
                dims_[m->name] = std::move(d);
            }
    }
    // Packs whose dims no present argument has tell nothing.
    for (const auto& [n, k] : lengths)
        for (int i = 0; i < k && !values_.count(n); ++i)
            if (!occurrences.count(n + "#" + std::to_string(i))) {
                dims_.erase(n);
                break;
            }

    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        for (size_t t = 0; t < args[i].size(); ++t) {
            const BoundArg& a = args[i][t];
            if (!a.present) continue;
            View v;
            v.name = p.variadic ? fmt::format("{}[{}]", p.name, t) : p.name;
            v.id = a.id;
            v.type = a.type;
            v.at = p.begin;
            v.at_end = p.end;
            if (a.scalar) v.scalar = *a.scalar;
            for (const Slot& s : slots[i][t]) {
                LogicalDim d;
                d.physical = s.physical;
                d.broadcast = s.broadcast;
                if (s.physical >= 0) d.own = a.shape[static_cast<size_t>(s.physical)];
                if (s.key.empty()) {
                    d.extent = d.own;
                    OPW_TRY(Value want, eval_static(*s.dim));
                    const auto w = want.as_sym();
                    if (!w)
                        return error(*s.dim,
                                     fmt::format("`{}` is {} and no extent.", source_of(*s.dim), want.kind_name()),
                                     "An extent is an integer of extents and attributes.");
                    if (d.own.known_different(*w))
                        return at_call(
                            place, p,
                            fmt::format("Dim {} of `{}` must have extent {}, but has {}.", s.physical, v.name,
                                        w->str() == source_of(*s.dim)
                                            ? w->str()
                                            : fmt::format("{} = {}", source_of(*s.dim), w->str()),
                                        d.own.str()),
                            fmt::format("Give `{}` that extent.", v.name));
                    if (!(d.own == *w))
                        add_requirement(
                            math::equal(d.own, *w),
                            fmt::format("In `{}`, dim {} of `{}` has extent {} and must have {} = {}.", op_.name,
                                        s.physical, v.name, d.own.str(), source_of(*s.dim), w->str()));
                } else if (s.each) {
                    d.extent = d.own;
                } else {
                    d.extent = commons.at(s.key);
                }
                v.dims.push_back(std::move(d));
            }
            if (scalar_mode && !v.dims.empty())
                return at_call(place, p,
                               fmt::format("`{}` of `{}` has dims, so the operator cannot be called on a number.",
                                           p.name, op_.name),
                               "Call it as a statement on tensors: y = op(x).");
            if (p.variadic)
                variadic_[p.name].push_back(std::move(v));
            else
                views_[p.name] = std::move(v);
        }
    }
    for (const auto& [n, d] : dims_)
        if (views_.count(n) || outputs_.count(n))
            return error_at(op_.name_at, op_.name_end,
                            fmt::format("`{}` is a dim and a tensor of `{}` at once.", n, op_.name),
                            "Rename one of the two.");
    return ok_status();
}

}  // namespace opwright::lang
