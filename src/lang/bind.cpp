// Binding of a call: attributes, dtypes, ranks of packs, extents.
#include <algorithm>
#include <cctype>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

namespace {
std::optional<DType> dtype_word(const std::string& s) {
    const auto t = dtype_from_name(s);
    return t && opwright::name(*t) == s ? t : std::nullopt;
}
std::string kind_text(AttributeKind k) {
    switch (k) {
        case AttributeKind::Unstated: return "a value";
        case AttributeKind::Int: return "an integer";
        case AttributeKind::Float: return "a number";
        case AttributeKind::Bool: return "true or false";
        case AttributeKind::String: return "a string";
        case AttributeKind::DType: return "a dtype";
        case AttributeKind::Ints: return "a list of integers";
        case AttributeKind::Floats: return "a list of numbers";
        case AttributeKind::Strings: return "a list of strings";
    }
    return {};
}
std::string dims_text(size_t n) { return fmt::format("{} dim{}", n, n == 1 ? "" : "s"); }
}  // namespace

bool is_dtype_class(const std::string& c) {
    return c == "any" || c == "float" || c == "int" || c == "signed" || c == "unsigned" || c == "numeric";
}
bool in_dtype_class(const std::string& c, DType t) {
    if (c == "any") return true;
    if (c == "float") return is_float(t);
    if (c == "int") return is_int(t);
    if (c == "signed") return is_float(t) || is_signed_int(t);
    if (c == "unsigned") return is_unsigned_int(t);
    if (c == "numeric") return is_numeric(t);
    return dtype_word(c) == t;
}

// What one dim of an argument is, as declared.
// k*NAME or NAME*k with a number k > 1: binds NAME to the extent divided by k.
struct Multiple {
    std::string name;
    int64_t factor = 0;
};
static std::optional<Multiple> multiple_of_name(const Expr& e) {
    if (e.kind != ExprKind::Binary || e.fn != math::Fn::Mul) return std::nullopt;
    const Expr &a = *e.args[0], &b = *e.args[1];
    if (a.kind == ExprKind::Integer && b.kind == ExprKind::Name && a.integer > 1) return Multiple{b.name, a.integer};
    if (b.kind == ExprKind::Integer && a.kind == ExprKind::Name && b.integer > 1) return Multiple{a.name, b.integer};
    return std::nullopt;
}

struct Elaborator::Slot {
    std::string key;            // "m", "i#2", or "" where no name stands for it
    const Expr* dim = nullptr;  // the declaration's item
    bool broadcast = false, each = false;
    int physical = -1;
};
struct Elaborator::Occurrence {
    std::string where;  // "dim 1 of `x`"
    Sym own;
    bool broadcast = false;
};

Diagnostic Elaborator::at_call(const Span& place, const Param& p, std::string message, std::string next) const {
    if (!place.source) return Diagnostic(std::move(message), op_.span(p.begin, p.end), std::move(next));
    return Diagnostic(std::move(message), place, std::move(next))
        .with_note(fmt::format("`{}` is declared here", p.name), op_.span(p.begin, p.end));
}

// ---- attributes

Result<Value> Elaborator::to_attribute(const AttributeDecl& a, const Value& v, const Span& place) const {
    const auto number = [](const Value& x) -> std::optional<double> {
        if (x.is(Kind::Literal)) return x.number;
        if (auto c = x.constant_integer()) return static_cast<double>(*c);
        return std::nullopt;
    };
    const auto integer = [](const Value& x) { return x.as_sym(); };
    switch (a.kind) {
        case AttributeKind::Int:
            if (auto s = integer(v)) return Value::of_size(*s);
            break;
        case AttributeKind::Float:
            if (auto n = number(v)) return Value::of_real(*n);
            break;
        case AttributeKind::Bool:
            if (v.is(Kind::Condition)) return v;
            if (auto c = v.constant_integer(); c == 0 || c == 1) return Value::of_condition(*c);
            break;
        case AttributeKind::String:
            if (v.is(Kind::Text)) return v;
            break;
        case AttributeKind::DType:
            if (v.is(Kind::Type)) return v;
            break;
        case AttributeKind::Ints:
        case AttributeKind::Floats:
        case AttributeKind::Strings: {
            const auto one = [&](const Value& x) -> std::optional<Value> {
                if (a.kind == AttributeKind::Ints) {
                    if (auto s = integer(x)) return Value::of_size(*s);
                } else if (a.kind == AttributeKind::Floats) {
                    if (auto n = number(x)) return Value::of_real(*n);
                } else if (x.is(Kind::Text)) {
                    return x;
                }
                return std::nullopt;
            };
            if (!v.is(Kind::List)) {
                if (auto x = one(v)) return *x;  // one value for every element
                break;
            }
            std::vector<Value> all;
            for (const Value& x : *v.list) {
                auto y = one(x);
                if (!y) break;
                all.push_back(std::move(*y));
            }
            if (all.size() == v.list->size()) return Value::of_list(std::move(all));
            break;
        }
        case AttributeKind::Unstated: break;
    }
    const std::string message = fmt::format("The attribute `{}` of `{}` is {}, but {} is needed.", a.name, op_.name,
                                            v.str(), kind_text(a.kind));
    Diagnostic d(message, place.source ? place : op_.span(a.begin, a.end),
                 fmt::format("Give {} = {}.", a.name, kind_text(a.kind)));
    return d;
}

Status Elaborator::bind_attributes(const std::map<std::string, Value>& given, Span place) {
    for (const auto& [n, v] : given) {
        if (std::any_of(op_.attributes.begin(), op_.attributes.end(),
                        [&](const AttributeDecl& a) { return a.name == n; }))
            continue;
        std::vector<std::string> all;
        for (const AttributeDecl& a : op_.attributes) all.push_back(a.name);
        const std::string near = did_you_mean(n, all);
        std::string list;
        for (const std::string& a : all) list += (list.empty() ? "" : ", ") + a;
        return Diagnostic(fmt::format("`{}` has no attribute `{}`.", op_.name, n), place,
                          (near.empty() ? "" : fmt::format("Did you mean `{}`? ", near)) +
                              (list.empty() ? "It has no attributes." : fmt::format("Its attributes are {}.", list)));
    }
    for (const AttributeDecl& a : op_.attributes) {
        const auto it = given.find(a.name);
        if (it != given.end() && !(it->second.is(Kind::None) && a.value)) {
            OPW_TRY(values_[a.name], to_attribute(a, it->second, place));
            continue;
        }
        if (!a.value) {
            Diagnostic d(fmt::format("The attribute `{}` of `{}` is not given and has no default.", a.name, op_.name),
                         place.source ? place : op_.span(a.begin, a.end),
                         fmt::format("Give {} = {}.", a.name, kind_text(a.kind)));
            return d;
        }
        OPW_TRY(Value v, eval_static(*a.value));
        if (v.is(Kind::None))
            values_[a.name] = v;
        else { OPW_TRY(values_[a.name], to_attribute(a, v, op_.span(*a.value))); }
    }
    return ok_status();
}

// ---- dtypes

Result<DType> Elaborator::type_of(const TypeRef& t) const {
    std::optional<DType> r;
    if (const auto v = values_.find(t.name); v != values_.end() && v->second.is(Kind::Type))
        r = v->second.type;
    else if (const auto x = types_.find(t.name); x != types_.end())
        r = x->second;
    else
        r = dtype_word(t.name);
    if (r) return t.accumulate ? accumulate_type(*r) : *r;
    std::vector<std::string> all;
    for (int i = 0; i < kDTypeCount; ++i) all.emplace_back(opwright::name(static_cast<DType>(i)));
    for (const auto& [n, x] : types_) all.push_back(n);
    const std::string near = did_you_mean(t.name, all);
    const bool variable = std::isupper(static_cast<unsigned char>(t.name[0])) != 0;
    return error(t,
                 variable ? fmt::format("The dtype variable `{}` is bound by no argument.", t.name)
                          : fmt::format("`{}` is no dtype.", t.name),
                 (near.empty() ? "" : fmt::format("Did you mean `{}`? ", near)) +
                     (variable ? "Give it to a parameter, or write a dtype."
                               : "Dtypes are bool, i8 .. i64, u8 .. u64, f16, bf16, f32, f64; a dtype variable starts "
                                 "with a capital letter."));
}

bool Elaborator::allowed(const TypeConstraint& c, DType t) const {
    return std::any_of(c.allowed.begin(), c.allowed.end(), [&](const std::string& k) { return in_dtype_class(k, t); });
}

Status Elaborator::bind_types(const std::vector<std::vector<BoundArg>>& args, const Span& place) {
    std::map<std::string, const Param*> first;
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        const std::string var = p.type ? p.type.name : "T";
        for (const BoundArg& a : args[i]) {
            if (!a.present || p.type.accumulate) continue;
            std::optional<DType> want;
            if (const auto v = values_.find(var); v != values_.end() && v->second.is(Kind::Type))
                want = v->second.type;
            else if (auto t = dtype_word(var))
                want = t;
            if (want) {
                if (*want == a.type) continue;
                return at_call(place, p,
                               fmt::format("`{}` of `{}` is {}, but {} is given.", p.name, op_.name,
                                           opwright::name(*want), opwright::name(a.type)),
                               fmt::format("Convert the argument to {}.", opwright::name(*want)));
            }
            if (!std::isupper(static_cast<unsigned char>(var[0]))) return type_of(p.type).error();
            const auto [t, fresh] = types_.emplace(var, a.type);
            if (fresh)
                first[var] = &p;
            else if (t->second != a.type)
                return at_call(
                    place, p,
                    fmt::format("`{}` is {} and `{}` is {}, but `{}` takes both of one type {}.", first[var]->name,
                                opwright::name(t->second), p.name, opwright::name(a.type), op_.name, var),
                    "Convert one of the two.");
        }
    }
    for (size_t i = 0; i < op_.params.size(); ++i)
        for (const BoundArg& a : args[i]) {
            if (!a.present || !op_.params[i].type.accumulate) continue;
            OPW_TRY(DType want, type_of(op_.params[i].type));
            if (want != a.type)
                return at_call(place, op_.params[i],
                               fmt::format("`{}` of `{}` is {}, but {} is given.", op_.params[i].name, op_.name,
                                           opwright::name(want), opwright::name(a.type)),
                               fmt::format("Convert the argument to {}.", opwright::name(want)));
        }
    for (const TypeConstraint& c : op_.constraints) {
        const auto t = types_.find(c.variable);
        if (t == types_.end()) {
            const bool used = std::any_of(op_.params.begin(), op_.params.end(),
                                          [&](const Param& p) { return (p.type ? p.type.name : "T") == c.variable; }) ||
                              values_.count(c.variable);
            if (!used)
                return error(c, fmt::format("`{}` is not the dtype of a parameter of `{}`.", c.variable, op_.name),
                             "Restrict T, or a dtype variable that a parameter has.");
            if (const auto v = values_.find(c.variable);
                v != values_.end() && v->second.is(Kind::Type) && !allowed(c, v->second.type))
                return Diagnostic(fmt::format("The attribute `{}` of `{}` cannot be {}.", c.variable, op_.name,
                                              opwright::name(v->second.type)),
                                  place.source ? place : op_.span(c.begin, c.end),
                                  "Choose a dtype that the declaration allows.");
            continue;
        }
        if (allowed(c, t->second)) continue;
        std::string list;
        for (const std::string& k : c.allowed) list += (list.empty() ? "" : " | ") + k;
        const Param* p = first[c.variable];
        return at_call(
            place, *p,
            fmt::format("`{}` takes {} for `{}`, but {} is given.", op_.name, list, p->name, opwright::name(t->second)),
            "Convert the argument, or widen the `where` of the declaration.");
    }
    return ok_status();
}

// ---- ranks

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

// ---- extents

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

Result<std::vector<std::vector<BoundArg>>> Elaborator::symbolic_arguments(
    const std::vector<std::vector<BoundArg>>& like, int pack_rank) {
    std::map<std::string, int> lengths;
    if (!like.empty()) OPW_CHECK(bind_ranks(like, lengths, {}));
    const auto pack_length = [&](const Expr& item, const std::string& n) -> Result<int> {
        if (const auto l = lengths.find(n); l != lengths.end()) return l->second;
        OPW_TRY(auto stated, stated_rank(item, lengths));
        const int k = stated.value_or(pack_rank);
        lengths[n] = k;
        Dim d;
        d.pack = true;
        d.extents.assign(static_cast<size_t>(k), Sym::symbol("?"));
        d.begins.assign(static_cast<size_t>(k), Sym(0));
        dims_[n] = std::move(d);
        return k;
    };
    std::vector<std::vector<BoundArg>> out(op_.params.size());
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        const size_t count = !like.empty() ? like[i].size() : p.variadic ? 2 : 1;
        for (size_t t = 0; t < count; ++t) {
            BoundArg a;
            if (!like.empty()) {
                a.present = like[i][t].present;
                a.type = like[i][t].type;
            } else {
                const std::string var = p.type ? p.type.name : "T";
                if (auto fixed = dtype_word(var))
                    a.type = *fixed;
                else if (const auto v = values_.find(var); v != values_.end() && v->second.is(Kind::Type))
                    a.type = v->second.type;
                for (const TypeConstraint& c : op_.constraints) {
                    if (c.variable != var || allowed(c, DType::F32)) continue;
                    for (DType d : {DType::I64, DType::I32, DType::U8, DType::Bool, DType::F64, DType::F16, DType::BF16,
                                    DType::I8, DType::I16, DType::U16, DType::U32, DType::U64})
                        if (allowed(c, d)) {
                            a.type = d;
                            break;
                        }
                }
                if (p.type.accumulate) a.type = accumulate_type(a.type);
            }
            for (const Expr* d : p.dims) {
                const Expr& item = d->kind == ExprKind::Broadcast ? *d->args[0] : *d;
                if (item.kind != ExprKind::Expand) continue;
                const Expr& of = *item.args[0];
                if (of.kind == ExprKind::Name && values_.count(of.name) && values_.at(of.name).is(Kind::List)) {
                    lengths[of.name] = static_cast<int>(values_.at(of.name).list->size());
                } else if (of.kind == ExprKind::Name) {
                    OPW_CHECK(pack_length(item, of.name));
                } else if (of.kind == ExprKind::Call && of.name == "merge" && of.args.size() == 3 &&
                           of.args[0]->kind == ExprKind::Name && of.args[1]->kind == ExprKind::Name) {
                    OPW_TRY(auto axes, list_argument(*of.args[2]));
                    lengths.emplace(of.args[1]->name, static_cast<int>(axes.size()));
                    OPW_CHECK(pack_length(item, of.args[0]->name));
                } else {
                    return error(*d, fmt::format("`{}` is no form of dims that a parameter can have.", source_of(*d)),
                                 "The forms are m, 3, ~m, m..., ~m..., m...(rank) and merge(o, r, positions)....");
                }
            }
            OPW_TRY(auto slots, slots_of(p, 1 << 20, lengths));
            for (const Slot& s : slots) {
                if (s.key.empty()) {
                    a.shape.emplace_back(0);  // an expression of others: below
                    if (const auto m = multiple_of_name(*s.dim);
                        m && !values_.count(m->name) && !dims_.count(m->name)) {
                        Dim d;
                        d.extents = {Sym::symbol(m->name)};
                        d.begins = {Sym(0)};
                        dims_[m->name] = std::move(d);
                    }
                    continue;
                }
                std::string n = s.key;
                n.erase(std::remove(n.begin(), n.end(), '#'), n.end());
                if (s.each) n += std::to_string(t);
                a.shape.push_back(Sym::symbol(n));
                if (s.each) continue;
                const size_t hash = s.key.find('#');
                if (const auto v = values_.find(s.key.substr(0, hash)); v != values_.end()) {
                    a.shape.back() =
                        v->second.list->at(std::stoul(s.key.substr(hash + 1))).as_sym().value_or(a.shape.back());
                    continue;
                }
                Dim& d = dims_[s.key.substr(0, hash)];
                d.pack = hash != std::string::npos;
                const size_t k = d.pack ? std::stoul(s.key.substr(hash + 1)) : 0;
                if (d.extents.size() <= k) d.extents.resize(k + 1);
                d.extents[k] = a.shape.back();
            }
            out[i].push_back(std::move(a));
        }
    }
    for (size_t i = 0; i < op_.params.size(); ++i)
        for (BoundArg& a : out[i]) {
            OPW_TRY(auto slots, slots_of(op_.params[i], 1 << 20, lengths));
            for (size_t k = 0; k < slots.size(); ++k) {
                if (!slots[k].key.empty()) continue;
                OPW_TRY(Value v, eval_static(*slots[k].dim));
                const auto s = v.as_sym();
                if (!s)
                    return error(*slots[k].dim,
                                 fmt::format("`{}` is {} and no extent.", source_of(*slots[k].dim), v.kind_name()),
                                 "An extent is an integer of extents and attributes.");
                a.shape[k] = *s;
            }
        }
    return out;
}

}  // namespace opwright::lang
