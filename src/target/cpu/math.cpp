#include "target/cpu/math.h"

namespace opwright::target::cpu {

using loop::BinaryFn;
using loop::Expr;
using loop::UnaryFn;

MathPlan plan_math(UnaryFn f, Expr x, const Features&) {
    const DType t = x.type().dtype;
    if (f < UnaryFn::Exp || f > UnaryFn::Erf || !is_float(t)) return {};
    return {{}, {}, std::string(name(f)) + (t == DType::F32 ? "f" : "")};
}

MathPlan plan_math(BinaryFn f, Expr x, Expr y, const Features&) {
    const DType t = x.type().dtype;
    if (!is_float(t)) return {};
    if (f == BinaryFn::FloorDiv) return {unary(UnaryFn::Floor, div(x, y)), {}, {}};
    if (f == BinaryFn::Mod) {
        // fmod is exact; the divisor is added where the signs differ, and a zero takes the divisor's sign.
        Expr r = binary(BinaryFn::FMod, x, y), zero = like(r, 0);
        Expr differ = ne(lt(r, zero), lt(y, zero));
        Expr signed_zero = select(lt(y, zero), like(r, -0.0), zero);
        return {select(eq(r, zero), signed_zero, select(differ, r + y, r)), {}, {}};
    }
    if (f == BinaryFn::Pow || f == BinaryFn::FMod || f == BinaryFn::Atan2)
        return {{}, {}, std::string(name(f)) + (t == DType::F32 ? "f" : "")};
    return {};
}

}  // namespace opwright::target::cpu
