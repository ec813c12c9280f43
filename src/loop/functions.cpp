#include "loop/functions.h"

namespace opwright::loop {

std::string_view name(UnaryFn f) {
    static constexpr std::string_view names[kUnaryFnCount] = {
        "neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2",
        "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        "not", "isnan", "isinf"};
    return names[static_cast<int>(f)];
}

std::string_view name(BinaryFn f) {
    static constexpr std::string_view names[kBinaryFnCount] = {
        "add", "sub", "mul", "div", "floordiv", "mod", "fmod", "min", "max", "pow", "atan2", "and", "or", "xor", "shl",
        "shr", "lt", "le", "gt", "ge", "eq", "ne"};
    return names[static_cast<int>(f)];
}

std::string_view name(TileFn f) {
    constexpr std::string_view names[] = {"tile_bf16x2", "tile_u8u8x4", "tile_u8s8x4", "tile_s8u8x4", "tile_s8s8x4"};
    return names[static_cast<size_t>(f)];
}
std::string_view name(DotFn f) { return f == DotFn::Bf16x2 ? "dot_bf16x2" : "dot_u8s8x4"; }

}  // namespace opwright::loop
