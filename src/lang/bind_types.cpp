// Binding of a call's attributes and dtypes.
#include <algorithm>
#include <cctype>

#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

namespace {
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
}  // namespace

std::optional<DType> dtype_word(const std::string& s) {
    const auto t = dtype_from_name(s);
    return t && opwright::name(*t) == s ? t : std::nullopt;
}
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

}  // namespace opwright::lang
