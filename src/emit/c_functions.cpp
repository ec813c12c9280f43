#include "emit/c_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace opwright::emit {

CDialect c99() {
    CDialect d;
    d.value = {{DType::Bool, "bool"},    {DType::I8, "int8_t"},  {DType::I16, "int16_t"},  {DType::I32, "int32_t"},
               {DType::I64, "int64_t"},  {DType::U8, "uint8_t"}, {DType::U16, "uint16_t"}, {DType::U32, "uint32_t"},
               {DType::U64, "uint64_t"}, {DType::F16, "float"},  {DType::BF16, "float"},   {DType::F32, "float"},
               {DType::F64, "double"}};
    d.element = d.value;
    d.element[DType::F16] = d.element[DType::BF16] = "uint16_t";
    d.infinity = "INFINITY";
    d.infinity64 = "(double)INFINITY";
    d.nan = "NAN";
    d.nan64 = "(double)NAN";
    return d;
}

namespace {

int bits(DType t) { return static_cast<int>(8 * size_of(t)); }
DType unsigned_of(DType t) {
    switch (bits(t)) {
        case 8: return DType::U8;
        case 16: return DType::U16;
        case 32: return DType::U32;
        default: return DType::U64;
    }
}

// "max_f32" -> {"max", F32}; "cast_i8_f32" -> {"cast_i8", F32}.
std::pair<std::string, DType> split(const std::string& name) {
    const size_t at = name.rfind('_');
    const auto t = at == std::string::npos ? std::nullopt : dtype_from_name(name.substr(at + 1));
    if (!t) throw std::logic_error("no helper function is called " + name);
    return {name.substr(0, at), *t};
}
std::string lowest_text(DType t) {
    switch (t) {
        case DType::I8: return "-128";
        case DType::I16: return "-32768";
        case DType::I32: return "(-2147483647 - 1)";
        case DType::I64: return "(-9223372036854775807LL - 1)";
        default: return "0";
    }
}
std::string highest_text(DType t) {
    switch (t) {
        case DType::I8: return "127";
        case DType::I16: return "32767";
        case DType::I32: return "2147483647";
        case DType::I64: return "9223372036854775807LL";
        case DType::U8: return "255";
        case DType::U16: return "65535";
        case DType::U32: return "4294967295U";
        default: return "18446744073709551615ULL";
    }
}
}  // namespace

std::string CFunctions::use(const std::string& name) {
    if (std::any_of(used_.begin(), used_.end(), [&](const auto& u) { return u.first == name; })) return name;
    std::string text;
    if (const auto own = d_.own.find(name); own != d_.own.end())
        text = own->second;
    else
        text = body(name);
    used_.emplace_back(name, std::move(text));  // after those that its body uses
    return name;
}

std::string CFunctions::text() const {
    std::string r;
    for (const auto& [name, text] : used_)
        if (!text.empty()) r += (r.empty() ? "" : "\n") + text;
    return r;
}

std::string CFunctions::body(const std::string& name) {
    const std::string& fn = d_.function;
    const std::string& index = d_.index;
    const auto function = [&](const std::string& result, const std::string& parameters, const std::string& lines) {
        return fmt::format("{} {} {}({}) {{\n{}}}\n", fn, result, name, parameters, lines);
    };

    // ---- positions in a tensor
    if (name == "clamp_index")
        return "// The nearest position inside 0 .. n-1.\n" +
               function(index, fmt::format("{0} i, {0} n", index), "    return i < 0 ? 0 : i < n ? i : n - 1;\n");
    if (name == "wrap_index")
        return "// Positions repeat with period n.\n" +
               function(index, fmt::format("{0} i, {0} n", index),
                        fmt::format("    {} r = n > 0 ? i % n : 0;\n    return r < 0 ? r + n : r;\n", index));
    if (name == "reflect_index") {
        use("wrap_index");
        return "// Positions reflected at the first and the last element, which stand once: 2 1 [0 1 2 3] 2 1.\n" +
               function(index, fmt::format("{0} i, {0} n", index),
                        fmt::format("    {} period = 2 * (n - 1), r = wrap_index(i, period);\n"
                                    "    return r < period - r ? r : period - r;\n",
                                    index));
    }
    if (name == "mirror_index") {
        use("wrap_index");
        return "// Positions reflected at the edges, so that the edge elements stand twice: 1 0 [0 1 2 3] 3 2.\n" +
               function(index, fmt::format("{0} i, {0} n", index),
                        fmt::format("    {} period = 2 * n, r = wrap_index(i, period);\n"
                                    "    return r < period - 1 - r ? r : period - 1 - r;\n",
                                    index));
    }

    // ---- 16-bit floats
    if (name == "f16_to_f32")
        return function("float", d_.element.at(DType::F16) + " h",
                        "    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;\n"
                        "    uint32_t u;\n"
                        "    float f;\n"
                        "    if (magnitude >= 0x7c00u) {\n"
                        "        u = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;\n"
                        "    } else if (magnitude >= 0x400u) {\n"
                        "        u = sign | ((magnitude << 13) + 0x38000000u);\n"
                        "    } else {\n"
                        "        f = (float)magnitude * 5.9604644775390625e-08f; /* subnormal: times 2^-24 */\n"
                        "        memcpy(&u, &f, 4);\n"
                        "        u |= sign;\n"
                        "    }\n"
                        "    memcpy(&f, &u, 4);\n"
                        "    return f;\n");
    if (name == "f32_to_f16")
        return "// Rounds to nearest even; what is too large becomes infinite.\n" +
               function(
                   d_.element.at(DType::F16), "float f",
                   "    uint32_t u;\n"
                   "    memcpy(&u, &f, 4);\n"
                   "    const uint32_t sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;\n"
                   "    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);\n"
                   "    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);\n"
                   "    if (magnitude < 0x38800000u) { /* subnormal: the addition rounds to multiples of 2^-24 */\n"
                   "        float a;\n"
                   "        memcpy(&a, &magnitude, 4);\n"
                   "        a += 0.5f;\n"
                   "        memcpy(&u, &a, 4);\n"
                   "        return (uint16_t)(sign | (u - 0x3f000000u));\n"
                   "    }\n"
                   "    const uint32_t odd = magnitude >> 13 & 1u;\n"
                   "    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);\n");
    if (name == "bf16_to_f32")
        return function("float", d_.element.at(DType::BF16) + " h",
                        "    const uint32_t u = (uint32_t)h << 16;\n"
                        "    float f;\n"
                        "    memcpy(&f, &u, 4);\n"
                        "    return f;\n");
    if (name == "f32_to_bf16")
        return "// Rounds to nearest even.\n" +
               function(d_.element.at(DType::BF16), "float f",
                        "    uint32_t u;\n"
                        "    memcpy(&u, &f, 4);\n"
                        "    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);\n"
                        "    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n");

    const auto [what, t] = split(name);
    const std::string T = d_.value.at(t);
    const std::string U = is_float(t) ? "" : d_.value.at(unsigned_of(t));
    const std::string two = fmt::format("{0} a, {0} b", T);
    const bool f64 = t == DType::F64;
    const std::string suffix = f64 ? "" : "f";

    if (what == "round_f16" || what == "round_bf16") {
        const std::string to = what == "round_f16" ? "f16" : "bf16";
        use(to + "_to_f32");
        use("f32_to_" + to);
        return function("float", "float x", fmt::format("    return {0}_to_f32(f32_to_{0}(x));\n", to));
    }
    if (what.rfind("cast_", 0) == 0) {
        const DType to = *dtype_from_name(what.substr(5));
        const std::string R = d_.value.at(to);
        const std::string low = lowest_text(to), high = highest_text(to);
        if (is_float(t)) {
            // The bounds are powers of two, so they are exact in any float type.
            const int width = bits(to) - (is_signed_int(to) ? 1 : 0);
            const std::string end = fmt::format("{:.1f}{}", std::ldexp(1.0, width), suffix);
            return "// Truncates and saturates; NaN becomes 0.\n" +
                   function(R, T + " x",
                            fmt::format("    if (x != x) return 0;\n"
                                        "    if (x <= {}) return {};\n"
                                        "    if (x >= {}) return {};\n"
                                        "    return ({})x;\n",
                                        is_signed_int(to) ? "-" + end : "0.0" + suffix, low, end, high, R));
        }
        std::string lines;
        const bool wide = to == DType::U64;
        if (is_signed_int(t) && (is_unsigned_int(to) || bits(to) < bits(t)))
            lines += fmt::format("    if (x < {}) return {};\n", low, low);
        if (!wide && (bits(to) < bits(t) || (bits(to) == bits(t) && is_unsigned_int(t) && is_signed_int(to))))
            lines += fmt::format("    if (x > {}) return {};\n", high, high);
        return "// Saturates.\n" + function(R, T + " x", lines + fmt::format("    return ({})x;\n", R));
    }
    if (what.rfind("bits_", 0) == 0) {
        const DType to = *dtype_from_name(what.substr(5));
        return "// The same bits as another type.\n" +
               function(d_.value.at(to), T + " x",
                        fmt::format("    {} r;\n    memcpy(&r, &x, sizeof r);\n    return r;\n", d_.value.at(to)));
    }
    if (what == "max" || what == "min") {
        const char* better = what == "max" ? ">" : "<";
        if (!is_float(t)) return function(T, two, fmt::format("    return a {} b ? a : b;\n", better));
        return fmt::format("// NaN wins, and -0 is less than +0.\n") +
               function(T, two,
                        fmt::format("    if (a != a || b != b) return a + b;\n"
                                    "    if (a == b) return {} ? b : a;\n"
                                    "    return a {} b ? a : b;\n",
                                    what == "max" ? "signbit(a)" : "signbit(b)", better));
    }
    if (what == "sign")
        return function(T, T + " x",
                        is_float(t)        ? fmt::format("    return x > 0 ? 1.0{0} : x < 0 ? -1.0{0} : x;\n", suffix)
                        : is_signed_int(t) ? "    return (x > 0) - (x < 0);\n"
                                           : "    return x != 0;\n");
    if (what == "floor_mod" && is_float(t))
        return "// a - b * floor(a / b), with the sign of b.\n" +
               function(T, two,
                        fmt::format("    {0} r = fmod{1}(a, b);\n"
                                    "    if (r == 0) return copysign{1}(r, b);\n"
                                    "    return (r < 0) != (b < 0) ? r + b : r;\n",
                                    T, suffix));
    const std::string minus_one =
        is_signed_int(t) ? fmt::format("    if (b == -1) return ({})(0 - ({})a);\n", T, U) : "";
    const std::string minus_one_0 = is_signed_int(t) ? "    if (b == -1) return 0;\n" : "";
    if (what == "div")
        return "// Truncates; a / 0 is 0.\n" +
               function(T, two, fmt::format("    if (b == 0) return 0;\n{}    return a / b;\n", minus_one));
    if (what == "floor_div")
        return "// Rounds down; a / 0 is 0.\n" +
               function(T, two,
                        fmt::format("    if (b == 0) return 0;\n{}    {} q = a / b;\n"
                                    "    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;\n",
                                    minus_one, T));
    if (what == "mod")
        return "// The remainder of rounding down, with the sign of b; a % 0 is 0.\n" +
               function(T, two,
                        fmt::format("    if (b == 0) return 0;\n{}    {} r = a % b;\n"
                                    "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n",
                                    minus_one_0, T));
    if (what == "rem")
        return "// The remainder of truncation, with the sign of a; a % 0 is 0.\n" +
               function(T, two, fmt::format("    if (b == 0) return 0;\n{}    return a % b;\n", minus_one_0));
    if (what == "pow")
        return "// a to the power b, keeping the low bits; a negative power truncates toward zero.\n" +
               function(T, two,
                        (is_signed_int(t)
                             ? fmt::format("    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;\n")
                             : "") +
                            fmt::format("    {0} r = 1, x = ({0})a;\n"
                                        "    for (; b; b >>= 1, x = ({0})(1u * x * x))\n"
                                        "        if (b & 1) r = ({0})(1u * r * x);\n"
                                        "    return ({1})r;\n",
                                        U, T));
    if (what == "shl")
        return "// Shifts past the width give 0.\n" +
               function(T, two, fmt::format("    return ({})b >= {} ? 0 : ({})(({})a << b);\n", U, bits(t), T, U));
    if (what == "shr")
        return "// Shifts past the width give 0, or the sign.\n" +
               function(T, two,
                        fmt::format("    return ({})b >= {} ? {} : ({})(a >> b);\n", U, bits(t),
                                    is_signed_int(t) ? "(a < 0 ? -1 : 0)" : "0", T));
    throw std::logic_error("no helper function is called " + name);
}

}  // namespace opwright::emit
