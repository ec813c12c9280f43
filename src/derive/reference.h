// The fp64 reference: interprets L1 with floats in double and integers exactly, compensated sums in a fixed order, and
// a running bound on the rounding error of a kernel that computes in the declared types.
#pragma once
#include <vector>

#include "base/result.h"
#include "derive/bounded.h"
#include "derive/shape.h"
#include "math/program.h"

namespace opwright::derive {

struct ReferenceOutput {
    Tensor value;  // F64 for float outputs (unrounded), else the declared dtype
    // F64, same shape: absolute error that a correct kernel may show (docs/numerics.md). 0: exactly this value, the
    // sign of a zero included; infinity: anything (the case is ill-conditioned there). Integer outputs have bounds too
    // where they depend on rounded floats, as an index of the largest of near-equal values does.
    Tensor bound;
    Tensor
        terms;  // F64, same shape: sum of |terms| of the outermost sum feeding the element, |value| where there is none
};

struct ReferenceOptions {
    // Error unit of one operation in the kernel's compute type (f32 for f16/bf16), and of each store in the stored
    // type, is taken from the dtypes; this scales it.
    double scale = 1.0;
    // Which factors of the products that a sum adds up count as zero where they are subnormal, as some targets have it
    // (docs/numerics.md). Beside a finite factor the term may then be what it was or zero, which widens the bound;
    // beside an infinite one it is NaN, and not either: no bound tells an infinity or NaN from any number.
    FlushFactors flush_factors = FlushFactors::None;
    int64_t max_operations = int64_t{1} << 36;  // refuses larger work with a clear error
};

// Inputs in the order of the program, dtypes as declared. Every access is made for every value of the indices it stands
// under, whatever a `select` around it chooses. Errors: dtypes or shapes that do not bind (as bind_symbols),
// requirements, an index outside its tensor (operator, tensor, dim, index and extent named), elements that no equation
// sets, too much work.
Result<std::vector<ReferenceOutput>> reference(const math::Program& p, const std::vector<Tensor>& inputs,
                                               const math::SymValues& given = {}, const ReferenceOptions& o = {});

}  // namespace opwright::derive
