#include "emit/c_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace opwright::emit {
using namespace math;

namespace {
std::string type_name(DType t) { return std::string(opwright::name(compute_type(t))); }

// C's name of a function of floats, without the f of float; empty where C has none with the results that are meant.
const char* c_name(Fn f) {
    switch (f) {
        case Fn::Abs: return "fabs";
        case Fn::Floor: return "floor";
        case Fn::Ceil: return "ceil";
        case Fn::Round: return "rint";
        case Fn::Trunc: return "trunc";
        case Fn::Sqrt: return "sqrt";
        case Fn::Exp: return "exp";
        case Fn::Exp2: return "exp2";
        case Fn::Expm1: return "expm1";
        case Fn::Log: return "log";
        case Fn::Log2: return "log2";
        case Fn::Log1p: return "log1p";
        case Fn::Sin: return "sin";
        case Fn::Cos: return "cos";
        case Fn::Tan: return "tan";
        case Fn::Asin: return "asin";
        case Fn::Acos: return "acos";
        case Fn::Atan: return "atan";
        case Fn::Sinh: return "sinh";
        case Fn::Cosh: return "cosh";
        case Fn::Tanh: return "tanh";
        case Fn::Asinh: return "asinh";
        case Fn::Acosh: return "acosh";
        case Fn::Atanh: return "atanh";
        case Fn::Erf: return "erf";
        case Fn::Fmod: return "fmod";
        case Fn::Pow: return "pow";
        case Fn::Atan2: return "atan2";
        default: return nullptr;
    }
}
}  // namespace

CPoint::CPoint(const Program& p, CFunctions& functions, Names& names) : p_(p), functions_(functions), names_(names) {}

// ---- text and precedence

std::string CPoint::at_least(const Text& t, int precedence) {
    return t.precedence >= precedence ? t.s : "(" + t.s + ")";
}
CPoint::Text CPoint::binary(const Text& a, const char* op, const Text& b, int precedence) {
    return {fmt::format("{} {} {}", at_least(a, precedence), op, at_least(b, precedence + 1)), precedence};
}

std::string CPoint::literal(double v, DType t) const {
    const CDialect& d = functions_.dialect();
    const bool f64 = t == DType::F64;
    if (std::isnan(v)) return f64 ? d.nan64 : d.nan;
    if (std::isinf(v)) return (v < 0 ? "-" : "") + (f64 ? d.infinity64 : d.infinity);
    std::string s = f64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return f64 ? s : s + "f";
}
std::string CPoint::integer(int64_t v, DType t) const {
    switch (t) {
        case DType::Bool: return v ? "true" : "false";
        case DType::U64: return fmt::format("{}ULL", static_cast<uint64_t>(v));
        case DType::U32: return fmt::format("{}U", static_cast<uint32_t>(v));
        default: break;
    }
    if (v == INT64_MIN) return "(-9223372036854775807LL - 1)";
    if (v == INT32_MIN) return t == DType::I64 ? "-2147483648LL" : "(-2147483647 - 1)";
    return fmt::format("{}{}", v, v > INT32_MAX || v < INT32_MIN ? "LL" : "");
}

CPoint::Text CPoint::sym_text(const Sym& s) {
    if (const auto c = s.constant()) return {integer(*c, DType::I64), *c < 0 ? 15 : 16};
    if (s.kind() == SymKind::Symbol) return {symbols.at(s.symbol_name())};
    for (const auto& [expression, name] : extents)
        if (expression == s) return {name};
    const auto& o = s.operands();
    if (s.kind() == SymKind::Mul && o[0].is(-1) && o.size() == 2) return {"-" + at_least(sym_text(o[1]), 15), 15};
    if (s.kind() == SymKind::Select)
        return {fmt::format("{} ? {} : {}", at_least(sym_text(o[0]), 4), at_least(sym_text(o[1]), 4),
                            at_least(sym_text(o[2]), 3)),
                3};
    Text r = sym_text(o[0]);
    for (size_t i = 1; i < o.size(); ++i) {
        const Text x = sym_text(o[i]);
        switch (s.kind()) {
            case SymKind::Add:
                // Sums are kept with their signs in the terms: a + -1 is written a - 1.
                r = !x.s.empty() && x.s[0] == '-'
                        ? binary(r, "-", {x.s.substr(1), x.precedence == 15 ? 16 : x.precedence}, 12)
                        : binary(r, "+", x, 12);
                break;
            case SymKind::Mul: r = binary(r, "*", x, 13); break;
            case SymKind::FloorDiv: r = {fmt::format("{}({}, {})", functions_.use("floor_div_i64"), r.s, x.s)}; break;
            case SymKind::Mod: r = {fmt::format("{}({}, {})", functions_.use("mod_i64"), r.s, x.s)}; break;
            case SymKind::Min: r = {fmt::format("{}({}, {})", functions_.use("min_i64"), r.s, x.s)}; break;
            case SymKind::Max: r = {fmt::format("{}({}, {})", functions_.use("max_i64"), r.s, x.s)}; break;
            case SymKind::Less: r = {fmt::format("({} < {} ? 1 : 0)", at_least(r, 11), at_least(x, 11))}; break;
            case SymKind::Equal: r = {fmt::format("({} == {} ? 1 : 0)", at_least(r, 10), at_least(x, 10))}; break;
            case SymKind::Const:
            case SymKind::Symbol:
            case SymKind::Select: break;
        }
    }
    return r;
}
std::string CPoint::sym(const Sym& s, int precedence) { return at_least(sym_text(s), precedence); }

// ---- values

void CPoint::count_uses(ExprId e) {
    if (held.count(e)) return;
    if (++uses_[e] > 1) return;
    for (ExprId a : p_.expr(e).args) count_uses(a);
}

std::string CPoint::value(ExprId e) {
    uses_.clear();
    count_uses(e);
    return text(e).s;
}

std::string CPoint::declare(ExprId e, const std::string& wanted) {
    if (auto it = held.find(e); it != held.end()) return it->second;
    const std::string v = value(e);
    const std::string name = names_.take(wanted);
    lines.push_back(fmt::format("const {} {} = {};", functions_.dialect().value.at(p_.expr(e).dtype), name, v));
    held[e] = name;
    return name;
}

CPoint::Text CPoint::text(ExprId e) {
    if (auto it = held.find(e); it != held.end()) return {it->second};
    const Expr& x = p_.expr(e);
    Text t = make(e);
    const bool plain = x.kind == ExprKind::Literal || x.kind == ExprKind::Index || x.kind == ExprKind::Size;
    if (plain || uses_[e] < 2 || is_position(e)) return t;
    const std::string name = names_.take(x.kind == ExprKind::Load ? p_.tensors[x.ref].name + "_value" : "t");
    lines.push_back(fmt::format("const {} {} = {};", functions_.dialect().value.at(x.dtype), name, t.s));
    held[e] = name;
    return {name};
}

CPoint::Text CPoint::make(ExprId e) {
    const Expr& x = p_.expr(e);
    switch (x.kind) {
        case ExprKind::Literal: {
            const std::string s =
                is_float(x.dtype) ? literal(x.number, compute_type(x.dtype)) : integer(x.integer, x.dtype);
            return {s, s[0] == '-' ? 15 : 16};
        }
        case ExprKind::Index: {
            const std::string& s = vars.at(x.ref);
            return {s, s.find(' ') == std::string::npos ? 16 : 3};
        }
        case ExprKind::Size: return sym_text(x.sym);
        case ExprKind::Load: return load(e);
        case ExprKind::Inside: {
            std::string all;
            for (size_t d = 0; d < x.args.size(); ++d) {
                const Sym& n = p_.tensors[x.ref].shape[d];
                if (known_inside(x.args[d], n)) continue;
                const Text i = text(x.args[d]);
                all += fmt::format("{}{} >= 0 && {} < {}", all.empty() ? "" : " && ", at_least(i, 11), at_least(i, 11),
                                   at_least(sym_text(n), 11));
            }
            return all.empty() ? Text{"true"} : Text{all, 5};
        }
        case ExprKind::Call: return call(x);
        case ExprKind::Cast: return cast(x);
        case ExprKind::Wrap: {
            const Text a = text(x.args[0]);
            if (x.dtype == DType::Bool) return binary(a, "!=", {"0"}, 9);
            return {fmt::format("({}){}", functions_.dialect().value.at(x.dtype), at_least(a, 15)), 15};
        }
        case ExprKind::Bitcast: {
            const DType from = p_.expr(x.args[0]).dtype;
            std::string a = to_element(text(x.args[0]).s, from);
            // 16-bit floats are held as the bits of their elements here.
            const DType source = from == DType::F16 || from == DType::BF16 ? DType::U16 : from;
            const DType result = x.dtype == DType::F16 || x.dtype == DType::BF16 ? DType::U16 : x.dtype;
            if (source != result)
                a = fmt::format(
                    "{}({})", functions_.use(fmt::format("bits_{}_{}", opwright::name(result), opwright::name(source))),
                    a);
            return {from_element(a, x.dtype), 15};
        }
        case ExprKind::Reduce:
        case ExprKind::Scan: throw std::logic_error("a reduction is used before it is computed");
    }
    return {};
}

bool CPoint::is_position(ExprId e) const {
    const Expr& x = p_.expr(e);
    if (x.dtype != DType::I64) return false;
    if (x.kind == ExprKind::Index || x.kind == ExprKind::Size) return true;
    if (x.kind == ExprKind::Literal) return true;
    return affine(p_, e).has_value();
}

CPoint::Text CPoint::call(const Expr& x) {
    std::vector<Text> a;
    for (ExprId y : x.args) a.push_back(text(y));
    const DType t = p_.expr(x.args[0]).dtype;
    switch (x.fn) {
        case Fn::Not: return {"!" + at_least(a[0], 15), 15};
        case Fn::And: return binary(a[0], "&&", a[1], 5);
        case Fn::Or: return binary(a[0], "||", a[1], 4);
        case Fn::Xor: return binary(a[0], "!=", a[1], 9);
        case Fn::Eq: return binary(a[0], "==", a[1], 9);
        case Fn::Ne: return binary(a[0], "!=", a[1], 9);
        case Fn::Lt: return binary(a[0], "<", a[1], 10);
        case Fn::Le: return binary(a[0], "<=", a[1], 10);
        case Fn::Gt: return binary(a[0], ">", a[1], 10);
        case Fn::Ge: return binary(a[0], ">=", a[1], 10);
        case Fn::Select:
            return {fmt::format("{} ? {} : {}", at_least(a[0], 4), at_least(a[1], 4), at_least(a[2], 3)), 3};
        case Fn::Max:
        case Fn::Min:
        case Fn::Sign:
            if (t == DType::Bool) return binary(a[0], x.fn == Fn::Max ? "||" : "&&", a[1], x.fn == Fn::Max ? 4 : 5);
            {
                std::string s = functions_.use(fmt::format("{}_{}", info(x.fn).name, type_name(t))) + "(" + a[0].s;
                if (a.size() > 1) s += ", " + a[1].s;
                return {s + ")"};
            }
        default: break;
    }
    if (!is_float(t)) return integer_call(x, a);
    const std::string suffix = t == DType::F64 ? "" : "f";
    switch (x.fn) {
        case Fn::Neg: return {"-" + at_least(a[0], 16), 15};
        case Fn::Add: return binary(a[0], "+", a[1], 12);
        case Fn::Sub: return binary(a[0], "-", a[1], 12);
        case Fn::Mul: return binary(a[0], "*", a[1], 13);
        case Fn::Div: return binary(a[0], "/", a[1], 13);
        case Fn::FloorDiv: return {fmt::format("floor{}({})", suffix, binary(a[0], "/", a[1], 13).s)};
        case Fn::Mod: return {fmt::format("{}({}, {})", functions_.use("floor_mod_" + type_name(t)), a[0].s, a[1].s)};
        case Fn::Rsqrt: return {fmt::format("1.0{0} / sqrt{0}({1})", suffix, a[0].s), 13};
        case Fn::IsNan: return {fmt::format("isnan({})", a[0].s)};
        case Fn::IsInf: return {fmt::format("isinf({})", a[0].s)};
        default: break;
    }
    const char* c = c_name(x.fn);
    if (!c) throw std::logic_error(fmt::format("no C form of {}", info(x.fn).name));
    return {fmt::format("{}{}({}{})", c, suffix, a[0].s, a.size() > 1 ? ", " + a[1].s : "")};
}

CPoint::Text CPoint::integer_call(const Expr& x, const std::vector<Text>& a) {
    const DType t = x.dtype;
    const std::string type = functions_.dialect().value.at(t);
    const bool position = std::all_of(x.args.begin(), x.args.end(), [&](ExprId e) { return is_position(e); });
    const auto helper = [&](const char* name) -> Text {
        return {
            fmt::format("{}({}, {})", functions_.use(fmt::format("{}_{}", name, opwright::name(t))), a[0].s, a[1].s)};
    };
    // C computes in int or wider, where the signed overflow is undefined: detour through unsigned, then keep the low
    // bits.
    const auto wrapped = [&](const char* op, int precedence) -> Text {
        if (position || t == DType::U32 || t == DType::U64) return binary(a[0], op, a[1], precedence);
        if (size_of(t) < 4 && x.fn != Fn::Mul)
            return {fmt::format("({})({})", type, binary(a[0], op, a[1], precedence).s), 15};
        const std::string u = functions_.dialect().value.at(size_of(t) == 8 ? DType::U64 : DType::U32);
        return {fmt::format("({0})(({1}){2} {3} ({1}){4})", type, u, at_least(a[0], 15), op, at_least(a[1], 15)), 15};
    };
    switch (x.fn) {
        case Fn::Add: return wrapped("+", 12);
        case Fn::Sub: return wrapped("-", 12);
        case Fn::Mul: return wrapped("*", 13);
        case Fn::Neg:
            if (position) return {"-" + at_least(a[0], 16), 15};
            return {fmt::format("({0})(0u - ({1}){2})", type,
                                functions_.dialect().value.at(size_of(t) == 8 ? DType::U64 : DType::U32),
                                at_least(a[0], 15)),
                    15};
        case Fn::Abs: {
            if (is_unsigned_int(t)) return a[0];
            const std::string u = functions_.dialect().value.at(size_of(t) == 8 ? DType::U64 : DType::U32);
            return {
                fmt::format("{0} < 0 ? ({1})(0u - ({2}){3}) : {0}", at_least(a[0], 15), type, u, at_least(a[0], 15)),
                3};
        }
        case Fn::BitNot: return {fmt::format("({})~{}", type, at_least(a[0], 15)), 15};
        case Fn::BitAnd: return binary(a[0], "&", a[1], 8);
        case Fn::BitXor: return binary(a[0], "^", a[1], 7);
        case Fn::BitOr: return binary(a[0], "|", a[1], 6);
        case Fn::Div: return helper("div");
        case Fn::FloorDiv: return helper("floor_div");
        case Fn::Mod: return helper("mod");
        case Fn::Fmod: return helper("rem");
        case Fn::Pow: return helper("pow");
        case Fn::Shl: return helper("shl");
        case Fn::Shr: return helper("shr");
        default: throw std::logic_error(fmt::format("no integer form of {}", info(x.fn).name));
    }
}

CPoint::Text CPoint::cast(const Expr& x) {
    const Text a = text(x.args[0]);
    const DType from = p_.expr(x.args[0]).dtype, to = x.dtype;
    const std::string type = functions_.dialect().value.at(to);
    if (from == to) return a;
    if (to == DType::Bool) return binary(a, "!=", {"0"}, 9);
    if (to == DType::F16 || to == DType::BF16) {
        const std::string narrow = compute_type(from) == DType::F32 ? a.s : "(float)" + at_least(a, 15);
        return {fmt::format("{}({})", functions_.use(fmt::format("round_{}_f32", opwright::name(to))), narrow)};
    }
    if (is_float(to)) {
        if (compute_type(from) == to) return a;
        return {fmt::format("({}){}", type, at_least(a, 15)), 15};
    }
    const bool fits =
        from == DType::Bool ||
        (is_int(from) &&
         (is_unsigned_int(from) ? size_of(from) < size_of(to) || (size_of(from) == size_of(to) && is_unsigned_int(to))
                                : is_signed_int(to) && size_of(from) <= size_of(to)));
    if (fits) return {fmt::format("({}){}", type, at_least(a, 15)), 15};
    return {fmt::format("{}({})", functions_.use(fmt::format("cast_{}_{}", opwright::name(to), type_name(from))), a.s)};
}

std::string CPoint::to_element(const std::string& value, DType t) {
    if (t != DType::F16 && t != DType::BF16) return value;
    return fmt::format("{}({})", functions_.use(fmt::format("f32_to_{}", opwright::name(t))), value);
}
std::string CPoint::from_element(const std::string& element, DType t) {
    if (t != DType::F16 && t != DType::BF16) return element;
    return fmt::format("{}({})", functions_.use(fmt::format("{}_to_f32", opwright::name(t))), element);
}

// ---- accesses

bool CPoint::known_inside(ExprId index, const Sym& extent) const {
    const auto f = affine(p_, index);
    if (!f) return false;
    Sym low = f->offset, high = f->offset;
    for (const auto& [v, c] : f->terms) {
        const Sym last = c * (p_.vars[v].extent - Sym(1));
        if (c.lower() >= 0)
            high = high + last;
        else if (c.upper() <= 0)
            low = low + last;
        else
            return false;
    }
    return low.lower() >= 0 && (extent - Sym(1) - high).lower() >= 0;
}

std::string CPoint::message_of(TensorId t) const {
    return fmt::format("{}: an index of {} lies outside the tensor", p_.name, p_.tensors[t].name);
}

CPoint::Place CPoint::place(TensorId t, std::span<const ExprId> at, Outside outside) {
    const CDialect& d = functions_.dialect();
    Place r;
    Text offset{"0"};
    for (size_t i = 0; i < at.size(); ++i) {
        if (const auto k = kept.find(t); k != kept.end() && !k->second[i]) continue;
        const Sym& extent = p_.tensors[t].shape[i];
        Text index = text(at[i]);
        if (!known_inside(at[i], extent)) {
            const std::string n = sym_text(extent).s;
            const auto inside = [&] {
                return fmt::format("{} >= 0 && {} < {}", at_least(index, 11), at_least(index, 11),
                                   at_least(sym_text(extent), 11));
            };
            const auto folded = [&](const char* helper) {
                index = {fmt::format("{}({}, {})", functions_.use(helper), index.s, n)};
            };
            switch (outside) {
                case Outside::Error: {
                    if (affine(p_, at[i])) break;  // checked when the kernel is launched
                    const std::string name = names_.take("at"), ok = names_.take(name + "_inside");
                    const std::string what = message_of(t);
                    auto it = std::find(faults.begin(), faults.end(), what);
                    if (it == faults.end()) it = faults.insert(faults.end(), what);
                    lines.push_back(fmt::format("const {} {} = {};", d.index, name, index.s));
                    lines.push_back(fmt::format("const {} {} = {} >= 0 && {} < {};", d.value.at(DType::Bool), ok, name,
                                                name, at_least(sym_text(extent), 11)));
                    lines.push_back(
                        fmt::format("if (!{}) {};", ok, fmt::format(fmt::runtime(d.report), it - faults.begin() + 1)));
                    index = {name};
                    r.condition += (r.condition.empty() ? "" : " && ") + ok;
                    break;
                }
                case Outside::Value:
                    if (index.precedence < 16) {
                        const std::string name = names_.take("at");
                        lines.push_back(fmt::format("const {} {} = {};", d.index, name, index.s));
                        index = {name};
                    }
                    r.condition += (r.condition.empty() ? "" : " && ") + inside();
                    break;
                case Outside::Clamp: folded("clamp_index"); break;
                case Outside::Wrap: folded("wrap_index"); break;
                case Outside::Reflect: folded("reflect_index"); break;
                case Outside::Mirror: folded("mirror_index"); break;
            }
        }
        if (extent.is(1) && index.s == "0") continue;
        const bool first = offset.s == "0";
        offset = first ? index : binary(binary(offset, "*", sym_text(extent), 13), "+", index, 12);
    }
    r.offset = offset.s;
    return r;
}

CPoint::Text CPoint::load(ExprId e) {
    const Expr x = p_.expr(e);
    const TensorInfo& t = p_.tensors[x.ref];
    if (const auto s = scalars.find(x.ref); s != scalars.end()) return {s->second};
    const Place at = place(x.ref, std::span(x.args).first(t.shape.size()), x.outside);
    const std::string place_text = fmt::format("{}[{}]", pointers.at(x.ref), at.offset);
    const std::string element = t.role == Role::Temp ? place_text : from_element(place_text, t.dtype);
    if (at.condition.empty()) return {element};
    // Where data leaves a tensor with nothing said about it, the error is reported and 0 goes on.
    const std::string other = x.outside == Outside::Value ? at_least(text(x.args.back()), 3) : "0";
    return {fmt::format("{} ? {} : {}", at.condition, element, other), 3};
}

}  // namespace opwright::emit
