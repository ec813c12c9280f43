#include "target/cuda/functions.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace opwright::target::cuda {
using math::Fn;
using math::ReduceOp;
using L = Operand::Level;

namespace {

Operand infix(const Operand& a, const char* op, const Operand& b, L level, L left, L right) {
    return {fmt::format("{} {} {}", a.at(left), op, b.at(right)), level};
}
Operand invoke(const std::string& f, std::span<const Operand> a) {
    std::string r = f + "(";
    for (size_t i = 0; i < a.size(); ++i) r += (i ? ", " : "") + a[i].text;
    return {r + ")"};
}
Operand cast_to(std::string_view type, const Operand& a) {
    return {fmt::format("({}){}", type, a.at(L::Unary)), L::Unary};
}
int bits(DType t) { return static_cast<int>(size_of(t)) * 8; }

// + - * of integers, wrapping: narrow types widen to int by themselves, 32 and 64 bits go through unsigned.
Operand wrapping(const char* op, const Operand& a, const Operand& b, DType t) {
    const L level = op[0] == '*' ? L::Product : L::Sum;
    const L right = op[0] == '*' ? L::Unary : op[0] == '-' ? L::Product : L::Sum;
    if (t == DType::U32 || t == DType::U64) return infix(a, op, b, level, level, right);
    if (bits(t) < 32 && t != DType::U16) return cast_to(c_type(t), {infix(a, op, b, level, level, right).text, level});
    const char* wide = bits(t) == 64 ? "unsigned long long" : "unsigned";
    // A size is widened with its sign by either cast: one is enough.
    constexpr std::string_view widened = "(long long)";
    const auto unsigned_of = [&](const Operand& x) {
        const bool twice = bits(t) == 64 && x.level == L::Unary && x.text.starts_with(widened);
        return cast_to(wide, twice ? Operand{x.text.substr(widened.size()), L::Unary} : x);
    };
    return cast_to(c_type(t), infix(unsigned_of(a), op, unsigned_of(b), level, level, right));
}

Operand call_float(Fn f, std::span<const Operand> a, DType t, Helpers& h) {
    const bool wide = t == DType::F64;
    const auto libm = [&](const char* name) { return invoke(std::string(name) + (wide ? "" : "f"), a); };
    const char* one = wide ? "1.0" : "1.0f";
    switch (f) {
        case Fn::Neg: return {"-" + a[0].at(L::Atom), L::Unary};
        case Fn::Abs: return libm("fabs");
        case Fn::Sign: return invoke(h.use("sign"), a);
        case Fn::Floor: return libm("floor");
        case Fn::Ceil: return libm("ceil");
        case Fn::Round: return libm("rint");
        case Fn::Trunc: return libm("trunc");
        case Fn::Sqrt: return libm("sqrt");
        case Fn::Rsqrt: return {std::string(one) + " / " + libm("sqrt").text, L::Product};
        case Fn::Exp: return libm("exp");
        case Fn::Exp2: return libm("exp2");
        case Fn::Expm1: return libm("expm1");
        case Fn::Log: return libm("log");
        case Fn::Log2: return libm("log2");
        case Fn::Log1p: return libm("log1p");
        case Fn::Sin: return libm("sin");
        case Fn::Cos: return libm("cos");
        case Fn::Tan: return libm("tan");
        case Fn::Asin: return libm("asin");
        case Fn::Acos: return libm("acos");
        case Fn::Atan: return libm("atan");
        case Fn::Sinh: return libm("sinh");
        case Fn::Cosh: return libm("cosh");
        case Fn::Tanh: return libm("tanh");
        case Fn::Asinh: return libm("asinh");
        case Fn::Acosh: return libm("acosh");
        case Fn::Atanh: return libm("atanh");
        case Fn::Erf: return libm("erf");
        case Fn::IsNan: return {fmt::format("{} != {}", a[0].at(L::Relation), a[0].at(L::Relation)), L::Equality};
        case Fn::IsInf: return {fmt::format("{} == {}", libm("fabs").text, literal(INFINITY, t)), L::Equality};
        case Fn::Add: return infix(a[0], "+", a[1], L::Sum, L::Sum, L::Sum == a[1].level ? L::Product : L::Sum);
        case Fn::Sub: return infix(a[0], "-", a[1], L::Sum, L::Sum, L::Product);
        case Fn::Mul: return infix(a[0], "*", a[1], L::Product, L::Product, L::Unary);
        case Fn::Div: return infix(a[0], "/", a[1], L::Product, L::Product, L::Unary);
        case Fn::FloorDiv: {
            const Operand q[] = {infix(a[0], "/", a[1], L::Product, L::Product, L::Unary)};
            return invoke(wide ? "floor" : "floorf", q);
        }
        case Fn::Mod: return invoke(h.use(wide ? "floor_mod_double" : "floor_mod_float"), a);
        case Fn::Fmod: return libm("fmod");
        case Fn::Pow: return libm("pow");
        case Fn::Atan2: return libm("atan2");
        case Fn::Min: return invoke(h.use(wide ? "min_double" : "min_float"), a);
        case Fn::Max: return invoke(h.use(wide ? "max_double" : "max_float"), a);
        default: break;
    }
    throw std::logic_error("a function that floats do not have");
}

Operand negated(const Operand& a, DType t, Helpers& h) {
    if (!is_signed_int(t) || bits(t) > 32) return wrapping("-", {"0"}, a, t);
    const Operand r = invoke(h.use("negative"), std::span(&a, 1));
    return t == DType::I32 ? r : cast_to(c_type(t), r);
}

Operand call_int(Fn f, std::span<const Operand> a, DType t, Helpers& h) {
    const bool boolean = t == DType::Bool;
    switch (f) {
        case Fn::Neg: return negated(a[0], t, h);
        case Fn::Abs: {
            if (is_unsigned_int(t) || boolean) return a[0];
            return {fmt::format("({} < 0 ? {} : {})", a[0].at(L::Shift), negated(a[0], t, h).text, a[0].text)};
        }
        case Fn::Sign: return invoke(h.use("sign"), a);
        case Fn::BitNot:
            if (boolean) return {"!" + a[0].at(L::Unary), L::Unary};
            return cast_to(c_type(t), {"~" + a[0].at(L::Unary), L::Unary});
        case Fn::Add: return wrapping("+", a[0], a[1], t);
        case Fn::Sub: return a[0].text == "0" ? negated(a[1], t, h) : wrapping("-", a[0], a[1], t);
        case Fn::Mul:
            if (a[0].text == "-1") return negated(a[1], t, h);
            if (a[1].text == "-1") return negated(a[0], t, h);
            return wrapping("*", a[0], a[1], t);
        case Fn::Div: return invoke(h.use("divide"), a);
        case Fn::FloorDiv: return invoke(h.use(is_signed_int(t) ? "floor_div" : "divide"), a);
        case Fn::Mod: return invoke(h.use(is_signed_int(t) ? "floor_mod" : "remainder_of"), a);
        case Fn::Fmod: return invoke(h.use("remainder_of"), a);
        case Fn::Pow: return invoke(h.use("power"), a);
        case Fn::Min: return invoke(h.use("smaller"), a);
        case Fn::Max: return invoke(h.use("larger"), a);
        case Fn::BitAnd: return cast_to(c_type(t), infix(a[0], "&", a[1], L::Bit, L::Unary, L::Unary));
        case Fn::BitOr: return cast_to(c_type(t), infix(a[0], "|", a[1], L::Bit, L::Unary, L::Unary));
        case Fn::BitXor: return cast_to(c_type(t), infix(a[0], "^", a[1], L::Bit, L::Unary, L::Unary));
        case Fn::Shl: return invoke(h.use("shift_left"), a);
        case Fn::Shr: return invoke(h.use("shift_right"), a);
        default: break;
    }
    throw std::logic_error("a function that integers do not have");
}

// Whether every value of integer type `from` is one of `to`.
bool holds(DType to, DType from) {
    if (from == DType::Bool) return true;
    if (is_signed_int(from) && !is_signed_int(to)) return false;
    const int room = bits(to) - (is_signed_int(to) && !is_signed_int(from) ? 1 : 0);
    return bits(from) <= room;
}
}  // namespace

Operand call(Fn f, std::span<const Operand> a, DType t, Helpers& h) {
    switch (f) {
        case Fn::Select:
            return {fmt::format("{} ? {} : {}", a[0].at(L::Or), a[1].at(L::Or), a[2].at(L::Or)), L::Lowest};
        case Fn::Not: return {"!" + a[0].at(L::Unary), L::Unary};
        case Fn::And: return infix(a[0], "&&", a[1], L::And, L::And, L::Bit);
        case Fn::Or: return infix(a[0], "||", a[1], L::Or, L::Equality, L::Equality);
        case Fn::Xor: return infix(a[0], "!=", a[1], L::Equality, L::Relation, L::Relation);
        case Fn::Eq: return infix(a[0], "==", a[1], L::Equality, L::Relation, L::Relation);
        case Fn::Ne: return infix(a[0], "!=", a[1], L::Equality, L::Relation, L::Relation);
        case Fn::Lt: return infix(a[0], "<", a[1], L::Relation, L::Shift, L::Shift);
        case Fn::Le: return infix(a[0], "<=", a[1], L::Relation, L::Shift, L::Shift);
        case Fn::Gt: return infix(a[0], ">", a[1], L::Relation, L::Shift, L::Shift);
        case Fn::Ge: return infix(a[0], ">=", a[1], L::Relation, L::Shift, L::Shift);
        default: break;
    }
    return is_float(t) ? call_float(f, a, t, h) : call_int(f, a, t, h);
}

Operand convert(const Operand& a, DType from, DType to, Helpers& h) {
    if (from == to) return a;
    if (to == DType::Bool) return {fmt::format("{} != 0", a.at(L::Relation)), L::Equality};
    if (is_float(to)) {
        Operand r = is_float(from) && compute_type(from) == compute_type(to) ? a : cast_to(c_type(to), a);
        // Between floats the rounding to a 16-bit type is left to the store (docs/numerics.md).
        if ((to == DType::F16 || to == DType::BF16) && !is_float(from)) r = from_memory(to_memory(r, to, h), to, h);
        return r;
    }
    const std::string type(c_type(to));
    if (is_float(from)) return {fmt::format("{}<{}>({})", h.use("saturate"), type, a.text)};
    if (holds(to, from)) return cast_to(type, a);
    return {fmt::format("{}<{}>({})", h.use("saturate_int"), type, a.text)};
}

Operand wrap(const Operand& a, DType from, DType to) {
    if (from == to) return a;
    if (to == DType::Bool) return {fmt::format("{} != 0", a.at(L::Relation)), L::Equality};
    return cast_to(c_type(to), a);
}

Operand bitcast(const Operand& a, DType from, DType to, Helpers& h) {
    if (from == to) return a;
    if (to == DType::F16 || to == DType::BF16) h.use(std::string(memory_type(to)));
    return from_memory({fmt::format("{}<{}>({})", h.use("bits_as"), memory_type(to), to_memory(a, from, h).text)}, to,
                       h);
}

Operand from_memory(const Operand& a, DType t, Helpers& h) {
    if (t != DType::F16 && t != DType::BF16) return a;
    h.use(std::string(memory_type(t)));
    return {"to_float(" + a.text + ")"};
}
Operand to_memory(const Operand& a, DType t, Helpers& h) {
    if (t != DType::F16 && t != DType::BF16) return a;
    return {fmt::format("to_{}({})", h.use(std::string(memory_type(t))), a.text)};
}

Operand combine(ReduceOp op, const Operand& a, const Operand& b, DType t, Helpers& h) {
    const Operand v[] = {a, b};
    switch (op) {
        case ReduceOp::Sum: return call(Fn::Add, v, t, h);
        case ReduceOp::Prod: return call(Fn::Mul, v, t, h);
        case ReduceOp::Max: return call(Fn::Max, v, t, h);
        case ReduceOp::Min: return call(Fn::Min, v, t, h);
        case ReduceOp::Any: return call(Fn::Or, v, DType::Bool, h);
        case ReduceOp::All: return call(Fn::And, v, DType::Bool, h);
        default: break;
    }
    throw std::logic_error("an arg reduction has no combination of values alone");
}

std::string identity_text(ReduceOp op, DType t) {
    if (is_float(t)) return literal(math::identity(op, t), t);
    switch (op) {
        case ReduceOp::Max:
        case ReduceOp::ArgMax:
        case ReduceOp::ArgMaxLast:
            if (t == DType::I64) return literal_int(INT64_MIN, t);
            break;
        case ReduceOp::Min:
        case ReduceOp::ArgMin:
        case ReduceOp::ArgMinLast:
            if (t == DType::I64) return literal_int(INT64_MAX, t);
            if (t == DType::U64) return literal_int(-1, t);
            break;
        default: break;
    }
    return literal_int(static_cast<int64_t>(math::identity(op, t)), t);
}

}  // namespace opwright::target::cuda
