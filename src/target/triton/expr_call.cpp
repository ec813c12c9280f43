// Calls and conversions: one line a function, the rest of its meaning in functions.py.
#include <fmt/format.h>

#include <cmath>

#include "target/triton/expr.h"
#include "target/triton/share.h"

namespace opwright::target::triton {
using namespace math;
namespace {

int bits(DType t) { return static_cast<int>(size_of(t)) * 8; }
std::string low_text(DType t) {
    return t == DType::I64 ? "-9223372036854775808" : std::to_string(static_cast<int64_t>(lowest(t)));
}
std::string high_text(DType t) {
    if (t == DType::I64) return "9223372036854775807";
    if (t == DType::U64) return "18446744073709551615";
    return std::to_string(static_cast<int64_t>(highest(t)));
}
bool half(DType t) { return t == DType::F16 || t == DType::BF16; }
// Whether x / v is x * (1 / v) to the last bit.
bool power_of_two(double v) {
    int e = 0;
    return std::isfinite(v) && v != 0 && std::abs(std::frexp(v, &e)) == 0.5 && e > -100 && e < 100;
}
}  // namespace

Piece Expressions::call(const Expr& e, const Axes& order) {
    const DType t = p_.expr(e.args[0]).dtype;
    switch (e.fn) {
        case Fn::Select: {
            const Piece c = print(e.args[0], order);
            Piece a = print(e.args[1], order), b = print(e.args[2], order);
            const Expr &x = p_.expr(e.args[1]), &y = p_.expr(e.args[2]);
            if (x.kind == ExprKind::Literal && y.kind == ExprKind::Literal && e.dtype != DType::F32)
                a = {literal_text(x, compute_type(e.dtype) != DType::F32), kAtom, {}};
            const Axes axes = merge({c.axes, a.axes, b.axes}, order);
            return {fmt::format("tl.where({}, {}, {})", over(c, axes), over(a, axes), over(b, axes)), kAtom, axes};
        }
        case Fn::Eq: return operation("==", kCompare, e.args[0], e.args[1], order);
        case Fn::Ne: return operation("!=", kCompare, e.args[0], e.args[1], order);
        case Fn::Lt: return operation("<", kCompare, e.args[0], e.args[1], order);
        case Fn::Le: return operation("<=", kCompare, e.args[0], e.args[1], order);
        case Fn::Gt: return operation(">", kCompare, e.args[0], e.args[1], order);
        case Fn::Ge: return operation(">=", kCompare, e.args[0], e.args[1], order);
        case Fn::And: return operation("&", kAnd, e.args[0], e.args[1], order);
        case Fn::Or: return operation("|", kOr, e.args[0], e.args[1], order);
        case Fn::Xor: return operation("^", kXor, e.args[0], e.args[1], order);
        case Fn::Not: {
            const Piece a = print(e.args[0], order);
            return {"~" + over(a, a.axes, kUnary), kUnary, a.axes};
        }
        default: break;
    }
    return is_float(t) ? float_call(e, t, order) : int_call(e, t, order);
}

Piece Expressions::float_call(const Expr& e, DType t, const Axes& order) {
    const bool wide = t == DType::F64;
    const auto& a = e.args;
    const auto literal = [&](size_t i) -> const Expr* {
        const Expr& x = p_.expr(a[i]);
        return x.kind == ExprKind::Literal ? &x : nullptr;
    };
    switch (e.fn) {
        case Fn::Neg: {
            // Triton's -x is 0 - x, which loses the sign of a zero.
            const Piece x = print(a[0], order);
            return {"-1.0 * " + over(x, x.axes, kUnary), kProduct, x.axes};
        }
        case Fn::Abs: return function("tl.abs", a, order);
        case Fn::Sign: return helper("_sign", a, order);
        case Fn::Floor: return function("tl.floor", a, order);
        case Fn::Ceil: return function("tl.ceil", a, order);
        case Fn::Round: return helper("_round", a, order);
        case Fn::Trunc: return helper("_trunc", a, order);
        case Fn::Sqrt: return function(wide ? "tl.sqrt" : "tl.sqrt_rn", a, order);
        case Fn::Rsqrt: return function("tl.rsqrt", a, order);
        case Fn::Exp:
            if (wide) return function("tl.exp", a, order);
            return helper(is_short(e) ? "_short_exp" : "_exp", a, order);
        case Fn::Exp2: return function("tl.exp2", a, order);
        case Fn::Expm1: return helper("_expm1", a, order);
        case Fn::Log: return function("tl.log", a, order);
        case Fn::Log2: return function("tl.log2", a, order);
        case Fn::Log1p: return helper("_log1p", a, order);
        case Fn::Sin: return function("tl.sin", a, order);
        case Fn::Cos: return function("tl.cos", a, order);
        case Fn::Tan: return helper("_tan", a, order);
        case Fn::Asin: return helper("_asin", a, order);
        case Fn::Acos: return helper("_acos", a, order);
        case Fn::Atan: return helper("_atan", a, order);
        case Fn::Sinh: return helper("_sinh", a, order);
        case Fn::Cosh: return helper("_cosh", a, order);
        case Fn::Tanh: return helper("_tanh", a, order);
        case Fn::Asinh: return helper("_asinh", a, order);
        case Fn::Acosh: return helper("_acosh", a, order);
        case Fn::Atanh: return helper("_atanh", a, order);
        case Fn::Erf: return function("tl.erf", a, order);
        case Fn::IsNan: {
            const Piece x = print(a[0], order);
            const Piece n = x.level == kAtom && x.text.find('(') == std::string::npos ? x : bind(x, "t");
            return {fmt::format("{0} != {0}", n.text), kCompare, n.axes};
        }
        case Fn::IsInf: {
            const Piece x = function("tl.abs", a, order);
            return {x.text + " == float(\"inf\")", kCompare, x.axes};
        }
        case Fn::Add: return operation("+", kSum, a[0], a[1], order);
        case Fn::Sub: return operation("-", kSum, a[0], a[1], order);
        case Fn::Mul: return operation("*", kProduct, a[0], a[1], order);
        case Fn::Div:
            if (const Expr* c = literal(1); c && power_of_two(c->number)) {
                const Piece x = print(a[0], order);
                Expr inverse = *c;
                inverse.number = 1 / c->number;
                return {over(x, x.axes, kProduct) + " * " + literal_text(inverse), kProduct, x.axes};
            }
            if (t == DType::F32 && is_share(p_, a[0], a[1]))
                return helper(short_exponentials.empty() ? "_share" : "_short_share", a, order);
            // `/` on float32 is an approximation.
            return wide ? operation("/", kProduct, a[0], a[1], order) : function("tl.div_rn", a, order);
        case Fn::FloorDiv: {
            const Piece q = wide ? operation("/", kProduct, a[0], a[1], order) : function("tl.div_rn", a, order);
            return {"tl.floor(" + q.text + ")", kAtom, q.axes};
        }
        case Fn::Mod:
        case Fn::Fmod: return helper(e.fn == Fn::Mod ? "_floor_mod" : wide ? "_fmod64" : "_fmod", a, order);
        case Fn::Pow:
            if (const Expr* c = literal(1)) {
                if (c->number == 2 || c->number == 3) {
                    const Piece x = print(a[0], order);
                    const Piece n = x.level == kAtom && x.text.find('(') == std::string::npos ? x : bind(x, "t");
                    return {fmt::format(fmt::runtime(c->number == 2 ? "{0} * {0}" : "{0} * {0} * {0}"), n.text),
                            kProduct, n.axes};
                }
                if (c->number == 1) return print(a[0], order);
                if (c->number == -1) {
                    const Piece x = print(a[0], order);
                    if (wide) return {"1.0 / " + over(x, x.axes, kUnary), kProduct, x.axes};
                    return {"tl.div_rn(1.0, " + over(x, x.axes) + ")", kAtom, x.axes};
                }
            }
            return helper(wide ? "_pow64" : "_pow", a, order);
        case Fn::Atan2: return helper("_atan2", a, order);
        case Fn::Min:
        case Fn::Max: {
            const bool max = e.fn == Fn::Max;
            for (size_t i : {size_t{0}, size_t{1}})
                if (const Expr* c = literal(i); c && c->number == 0 && !std::signbit(c->number)) {
                    // Keeps NaN, and orders -0 below +0.
                    Piece x = print(a[1 - i], order);
                    if (x.level != kAtom || x.text.find('(') != std::string::npos) x = bind(x, "t");
                    return {fmt::format("tl.where({0} {1} 0.0, 0.0, {0})", x.text, max ? "<=" : ">"), kAtom, x.axes};
                }
            return function(file_.helper(max ? "_maximum" : "_minimum"), a, order);
        }
        default: throw Refusal(fmt::format("{} has no form on floats", info(e.fn).name));
    }
}

Piece Expressions::int_call(const Expr& e, DType t, const Axes& order) {
    const auto& a = e.args;
    const bool boolean = t == DType::Bool, is_signed = is_signed_int(t);
    const Expr& second = p_.expr(a.back());
    const bool number = second.kind == ExprKind::Literal && a.size() == 2;
    const int64_t n = number ? second.integer : 0;
    const std::string width = ", BITS=" + std::to_string(bits(t));
    switch (e.fn) {
        case Fn::Neg: {
            const Piece x = print(a[0], order);
            return {"0 - " + over(x, x.axes, kProduct), kSum, x.axes};
        }
        case Fn::Abs: return is_signed ? function("tl.abs", a, order) : print(a[0], order);
        case Fn::Sign: {
            Piece x = print(a[0], order);
            if (boolean) return x;
            if (x.level != kAtom || x.text.find('(') != std::string::npos) x = bind(x, "t");
            const std::string type = storage_name(t);
            if (!is_signed) return {fmt::format("({} > 0).to({})", x.text, type), kAtom, x.axes};
            return {fmt::format("({0} > 0).to({1}) - ({0} < 0).to({1})", x.text, type), kSum, x.axes};
        }
        case Fn::BitNot: {
            const Piece x = print(a[0], order);
            // The interpreter has no ~ of unsigned numbers.
            if (is_unsigned_int(t)) return {over(x, x.axes, kXor) + " ^ " + high_text(t), kXor, x.axes};
            return {"~" + over(x, x.axes, kUnary), kUnary, x.axes};
        }
        case Fn::Add: return operation(boolean ? "|" : "+", boolean ? kOr : kSum, a[0], a[1], order);
        case Fn::Sub: return operation(boolean ? "^" : "-", boolean ? kXor : kSum, a[0], a[1], order);
        case Fn::Mul: return operation(boolean ? "&" : "*", boolean ? kAnd : kProduct, a[0], a[1], order);
        case Fn::Div:
            if (number && n > 0) return operation("//", kProduct, a[0], a[1], order);
            return helper(is_signed ? "_int_div" : "_uint_div", a, order);
        case Fn::FloorDiv:
            if (number && n > 0 && !is_signed) return operation("//", kProduct, a[0], a[1], order);
            return helper(is_signed ? "_int_floor_div" : "_uint_div", a, order);
        case Fn::Mod:
            if (number && n > 0 && !is_signed) return operation("%", kProduct, a[0], a[1], order);
            return helper(is_signed ? "_int_floor_mod" : "_uint_mod", a, order);
        case Fn::Fmod:
            if (number && n > 0) return operation("%", kProduct, a[0], a[1], order);
            return helper(is_signed ? "_int_mod" : "_uint_mod", a, order);
        case Fn::Pow: return helper("_int_pow", a, order, width + (is_signed ? ", SIGNED=True" : ", SIGNED=False"));
        case Fn::Min: return boolean ? operation("&", kAnd, a[0], a[1], order) : function("tl.minimum", a, order);
        case Fn::Max: return boolean ? operation("|", kOr, a[0], a[1], order) : function("tl.maximum", a, order);
        case Fn::BitAnd: return operation("&", kAnd, a[0], a[1], order);
        case Fn::BitOr: return operation("|", kOr, a[0], a[1], order);
        case Fn::BitXor: return operation("^", kXor, a[0], a[1], order);
        case Fn::Shl:
            if (number && n >= 0 && n < bits(t)) return operation("<<", kShift, a[0], a[1], order);
            return helper("_shift_left", a, order, width);
        case Fn::Shr:
            if (number && n >= 0 && n < bits(t)) return operation(">>", kShift, a[0], a[1], order);
            return helper(is_signed ? "_shift_right" : "_uint_shift_right", a, order, width);
        default: throw Refusal(fmt::format("{} has no form on integers", info(e.fn).name));
    }
}

Piece Expressions::convert(const Expr& e, const Axes& order) {
    const DType from = p_.expr(e.args[0]).dtype, to = e.dtype;
    const std::string type = compute_name(to);
    if (e.kind == ExprKind::Cast && from == DType::I64 && plain(e.args[0]) && (is_float(to) || to == DType::I64))
        return integer(e.args[0], order, type);
    const Piece x = print(e.args[0], order);
    const auto converted = [&](const std::string& arguments) {
        return Piece{fmt::format("{}.to({})", over(x, x.axes, kAtom), arguments), kAtom, x.axes};
    };
    if (e.kind == ExprKind::Bitcast) {
        Piece r = x;
        if (half(from)) r = converted(storage_name(from));
        r = {fmt::format("{}.to({}, bitcast=True)", over(r, r.axes, kAtom), storage_name(to)), kAtom, x.axes};
        if (half(to)) r.text += ".to(tl.float32)";
        return r;
    }
    if (from == to) return x;
    if (to == DType::Bool) return {over(x, x.axes, kOr) + (is_float(from) ? " != 0.0" : " != 0"), kCompare, x.axes};
    if (e.kind == ExprKind::Wrap || from == DType::Bool) return converted(type);
    if (is_float(to)) return compute_type(from) == compute_type(to) ? x : converted(type);
    if (is_float(from))
        return {fmt::format("{}({}, LOW={}, HIGH={}, DTYPE={})", file_.helper("_to_int"), over(x, x.axes), low_text(to),
                            high_text(to), type),
                kAtom, x.axes};
    // Integers to integers of another range saturate.
    Piece r = x;
    if (lowest(from) < lowest(to)) r = {fmt::format("tl.maximum({}, {})", r.text, low_text(to)), kAtom, r.axes};
    if (highest(from) > highest(to)) r = {fmt::format("tl.minimum({}, {})", r.text, high_text(to)), kAtom, r.axes};
    return {fmt::format("{}.to({})", over(r, r.axes, kAtom), type), kAtom, r.axes};
}

}  // namespace opwright::target::triton
