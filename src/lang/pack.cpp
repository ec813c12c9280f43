// Packs: lists of extents, indices or values whose length is known at elaboration.
#include <algorithm>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::Fn;
using math::Sym;
using Kind = Value::Kind;

namespace {
bool is_pack_function(const std::string& n) {
    return n == "merge" || n == "permute" || n == "reverse" || n == "take" || n == "drop" || n == "range" ||
           n == "fill" || n == "position";
}
// Functions that fold an expansion to one value.
std::optional<Fn> fold_of(const std::string& n) {
    if (n == "total" || n == "add") return Fn::Add;
    if (n == "product" || n == "mul") return Fn::Mul;
    if (n == "and") return Fn::And;
    if (n == "or") return Fn::Or;
    return std::nullopt;
}
}  // namespace

bool Elaborator::is_pack(const std::string& name) const {
    if (in_equation_)
        if (auto it = indices_.find(name); it != indices_.end()) return it->second.is(Kind::List);
    if (auto it = values_.find(name); it != values_.end()) return it->second.is(Kind::List);
    if (auto it = dims_.find(name); it != dims_.end()) return it->second.pack;
    return each_.count(name) > 0;
}

// The packs of e that an expansion around it goes through. Those inside an inner expansion are its own.
void Elaborator::packs_in(const Expr& e, std::set<std::string>& bound, std::vector<const Expr*>& out) const {
    if (element_.count(&e)) return;
    switch (e.kind) {
        case ExprKind::Name:
            if (!bound.count(e.name) && is_pack(e.name)) out.push_back(&e);
            return;
        case ExprKind::Call:
            if (is_pack_function(e.name)) {
                out.push_back(&e);
                return;
            }
            if (e.name == "size") {
                if (e.args.size() == 1 && e.args[0]->kind == ExprKind::Name && !bound.count(e.args[0]->name) &&
                    is_pack(e.args[0]->name))
                    out.push_back(&e);
                return;
            }
            if (e.name == "rank" || e.name == "len" || e.name == "present" || e.name == "before") return;
            if (fold_of(e.name)) {
                // What is folded stays whole; a count or value inside a pack function is stepped with the expansion.
                for (const Expr* a : e.args) {
                    if (a->kind == ExprKind::Name && is_pack(a->name)) continue;
                    if (a->kind != ExprKind::Call || !is_pack_function(a->name))
                        packs_in(*a, bound, out);
                    else if ((a->name == "take" || a->name == "drop") && a->args.size() == 2)
                        packs_in(*a->args[1], bound, out);
                    else if (a->name == "range" || a->name == "fill")
                        for (const Expr* b : a->args) packs_in(*b, bound, out);
                }
                return;
            }
            break;
        case ExprKind::Expand: return;
        case ExprKind::Reduce: {
            std::set<std::string> inner = bound;
            for (const Binding& b : e.bindings) {
                inner.insert(b.name);
                if (b.begin) packs_in(*b.begin, bound, out);
                if (b.end) packs_in(*b.end, bound, out);
            }
            for (const Expr* a : e.args) packs_in(*a, inner, out);
            return;
        }
        case ExprKind::In:
            packs_in(*e.args[0], bound, out);  // the list on the right stays whole
            return;
        case ExprKind::Integer:
        case ExprKind::Float:
        case ExprKind::String:
        case ExprKind::List:
        case ExprKind::Unary:
        case ExprKind::Binary:
        case ExprKind::Access:
        case ExprKind::Broadcast:
        case ExprKind::Each: break;
    }
    for (const Expr* a : e.args) packs_in(*a, bound, out);
    if (e.outside_value) packs_in(*e.outside_value, bound, out);
}

Result<std::vector<Value>> Elaborator::list_argument(const Expr& e) {
    if (e.kind == ExprKind::Expand) return expand(e, {});
    if (e.kind == ExprKind::Name)
        if (auto it = each_.find(e.name); it != each_.end()) {
            std::vector<Value> all;
            for (const Sym& s : it->second) all.push_back(Value::of_size(s));
            return all;
        }
    OPW_TRY(Value v, eval(e, {}));
    if (v.is(Kind::List)) {
        s_.steps += v.list->size();  // it is copied
        return *v.list;
    }
    return error(e, fmt::format("`{}` is {}, where a pack or a list is needed.", source_of(e), v.kind_name()),
                 "Name a pack, or write a list in brackets.");
}

Result<std::vector<Value>> Elaborator::expand(const Expr& e, Want want) { return expand(*e.args[0], e, want); }

Result<std::vector<Value>> Elaborator::expand(const Expr& of, const Expr& e, Want want) {
    std::set<std::string> bound;
    std::vector<const Expr*> packs;
    packs_in(of, bound, packs);
    if (packs.size() == 1 && packs[0] == &of) return list_argument(of);
    if (packs.empty()) {
        // An integer where a list may be given stands for itself, repeated; alone it has no length.
        OPW_TRY(Value v, eval(of, want));
        if (v.is(Kind::List)) return *v.list;
        return error(e, fmt::format("`{}` has no pack to expand.", source_of(e)),
                     "Remove the '...', or name a pack inside it.");
    }
    std::vector<std::vector<Value>> lists;
    for (const Expr* p : packs) {
        OPW_TRY(auto l, p->kind == ExprKind::Call && p->name == "size" ? extents_of(*p->args[0]) : list_argument(*p));
        lists.push_back(std::move(l));
        if (lists.back().size() != lists.front().size())
            return error(e,
                         fmt::format("`{}` has {} element{} and `{}` has {}, so they cannot be expanded together.",
                                     source_of(*packs[0]), lists.front().size(), lists.front().size() == 1 ? "" : "s",
                                     source_of(*p), lists.back().size()),
                         "Packs and lists in one expansion need one length.");
    }
    std::vector<Value> out;
    for (size_t i = 0; i < lists[0].size(); ++i) {
        for (size_t k = 0; k < packs.size(); ++k) element_[packs[k]] = lists[k][i];
        Result<Value> v = eval(of, want);
        for (const Expr* p : packs) element_.erase(p);
        if (!v.ok()) return v.error();
        out.push_back(std::move(*v));
    }
    return out;
}

Result<std::vector<Value>> Elaborator::items(const std::vector<const Expr*>& args, Want want) {
    std::vector<Value> out;
    for (const Expr* a : args) {
        if (a->kind == ExprKind::Expand) {
            OPW_TRY(auto some, expand(*a, want));
            out.insert(out.end(), some.begin(), some.end());
        } else {
            OPW_TRY(Value v, eval(*a, want));
            out.push_back(std::move(v));
        }
        if (out.size() > kMaxList)
            return error(*a, fmt::format("More than {} values stand here.", kMaxList),
                         "Use a tensor for so many values.");
    }
    s_.steps += out.size();
    return out;
}

// Positions in a list of `rank` places, each once.
Result<std::vector<int64_t>> Elaborator::positions(const Expr& axes, int rank) {
    OPW_TRY(auto list, list_argument(axes));
    std::vector<int64_t> out;
    for (const Value& v : list) {
        const auto c = v.constant_integer();
        if (!c)
            return error(
                axes,
                fmt::format("`{}` has {}, where positions known at elaboration are needed.", source_of(axes), v.str()),
                "Give constant positions.");
        if (*c < 0 || *c >= rank)
            return error(axes,
                         fmt::format("Position {} of `{}` is outside 0..{} of the {} dim{}.", *c, source_of(axes), rank,
                                     rank, rank == 1 ? "" : "s"),
                         "Count dims from 0; negative positions must be made positive before the call.");
        if (std::find(out.begin(), out.end(), *c) != out.end())
            return error(axes, fmt::format("Position {} stands twice in `{}`.", *c, source_of(axes)),
                         "Name every dim once.");
        out.push_back(*c);
    }
    return out;
}

Result<Value> Elaborator::pack_function(const Expr& e, bool& known) {
    const std::string& n = e.name;
    known = true;
    const auto length = [&](const Expr& a, size_t most) -> Result<size_t> {
        OPW_TRY(Value v, eval(a, {}));
        const auto c = v.constant_integer();
        if (!c)
            return error(a,
                         fmt::format("`{}` is {}, where a number known at elaboration is needed.", source_of(a),
                                     v.is(Kind::Size) ? v.str() : v.kind_name()),
                         "Use ranks, lengths and constant attributes.");
        if (*c < 0 || static_cast<uint64_t>(*c) > most)
            return error(a, fmt::format("The length {} is not from 0 to {}.", *c, most), "Use a length that fits.");
        return static_cast<size_t>(*c);
    };
    if (n == "merge") {
        OPW_CHECK(arity(e, 3));
        OPW_TRY(auto outer, list_argument(*e.args[0]));
        OPW_TRY(auto inner, list_argument(*e.args[1]));
        OPW_TRY(auto at, positions(*e.args[2], static_cast<int>(outer.size() + inner.size())));
        if (at.size() != inner.size())
            return error(e,
                         fmt::format("`{}` has {} position{} for the {} element{} of `{}`.", source_of(*e.args[2]),
                                     at.size(), at.size() == 1 ? "" : "s", inner.size(), inner.size() == 1 ? "" : "s",
                                     source_of(*e.args[1])),
                         "Give one position for each.");
        std::vector<Value> all(outer.size() + inner.size());
        std::vector<bool> taken(all.size());
        for (size_t i = 0; i < at.size(); ++i) {
            all[at[i]] = inner[i];
            taken[at[i]] = true;
        }
        for (size_t i = 0, o = 0; i < all.size(); ++i)
            if (!taken[i]) all[i] = outer[o++];
        return Value::of_list(std::move(all));
    }
    if (n == "permute") {
        OPW_CHECK(arity(e, 2));
        OPW_TRY(auto list, list_argument(*e.args[0]));
        OPW_TRY(auto at, positions(*e.args[1], static_cast<int>(list.size())));
        if (at.size() != list.size())
            return error(e,
                         fmt::format("`{}` has {} position{} for {} dim{}.", source_of(*e.args[1]), at.size(),
                                     at.size() == 1 ? "" : "s", list.size(), list.size() == 1 ? "" : "s"),
                         "A permutation names every dim once.");
        std::vector<Value> all;
        for (int64_t i : at) all.push_back(list[i]);
        return Value::of_list(std::move(all));
    }
    if (n == "reverse") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(auto list, list_argument(*e.args[0]));
        std::reverse(list.begin(), list.end());
        return Value::of_list(std::move(list));
    }
    if (n == "take" || n == "drop") {
        OPW_CHECK(arity(e, 2));
        OPW_TRY(auto list, list_argument(*e.args[0]));
        OPW_TRY(size_t k, length(*e.args[1], list.size()));
        if (n == "take")
            list.resize(k);
        else
            list.erase(list.begin(), list.begin() + static_cast<long>(k));
        return Value::of_list(std::move(list));
    }
    if (n == "range") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(size_t k, length(*e.args[0], 4096));
        std::vector<Value> all;
        for (size_t i = 0; i < k; ++i) all.push_back(Value::of_size(static_cast<int64_t>(i)));
        return Value::of_list(std::move(all));
    }
    if (n == "fill") {
        OPW_CHECK(arity(e, 2));
        OPW_TRY(Value v, eval(*e.args[0], {}));
        OPW_TRY(size_t k, length(*e.args[1], 4096));
        return Value::of_list(std::vector<Value>(k, v));
    }
    if (n == "position") {
        OPW_CHECK(arity(e, 1));
        OPW_TRY(auto list, list_argument(*e.args[0]));
        std::vector<Value> all;
        for (size_t i = 0; i < list.size(); ++i) all.push_back(Value::of_size(static_cast<int64_t>(i)));
        return Value::of_list(std::move(all));
    }
    const auto fn = fold_of(n);
    const bool operator_too =
        (n == "add" || n == "mul") &&
        std::none_of(e.args.begin(), e.args.end(), [](const Expr* a) { return a->kind == ExprKind::Expand; });
    if (fn && !operator_too) {
        std::vector<Value> all;
        if (e.args.size() == 1 && e.args[0]->kind != ExprKind::Expand) {
            OPW_TRY(all, list_argument(*e.args[0]));
        } else {
            Want side;
            for (const Expr* a : e.args)
                if (!side) side = peek(*a);
            OPW_TRY(all, items(e.args, side));
        }
        if (all.empty())
            return fn == Fn::And || fn == Fn::Or ? Value::of_condition(fn == Fn::And)
                                                 : Value::of_integer(fn == Fn::Mul);
        Value r = all[0];
        Expr at = e;
        at.kind = ExprKind::Binary;
        at.fn = *fn;
        at.args = {&e, &e};
        for (size_t i = 1; i < all.size(); ++i) {
            OPW_TRY(r, r.is_static() && all[i].is_static() ? static_binary(at, r, all[i])
                                                           : apply(at, *fn, {r, all[i]}, {}));
        }
        return r;
    }
    known = false;
    return Value();
}

}  // namespace opwright::lang
