// Constant folding of integer and bool functions, with exactly the meaning of functions.h.
#pragma once
#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "loop/functions.h"

namespace opwright::loop {

// The low bits of v as a value of integer type t (sign- or zero-extended); bool gives v != 0.
int64_t wrap_to(DType t, int64_t v);
// Nothing where the function is not folded (pow, floats).
std::optional<int64_t> fold_int(UnaryFn f, DType t, int64_t x);
std::optional<int64_t> fold_int(BinaryFn f, DType t, int64_t x, int64_t y);
// DotFn::U8S8x4 of words: sum + a . b.
int64_t fold_dot(int64_t a, int64_t b, int64_t sum);

}  // namespace opwright::loop
