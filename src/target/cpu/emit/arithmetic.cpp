#include "target/cpu/emit/arithmetic.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <bit>
#include <cmath>
#include <stdexcept>

namespace opwright::target::cpu {

using llvm::Intrinsic::ID;
using loop::BinaryFn;
using loop::UnaryFn;
namespace Intrinsic = llvm::Intrinsic;

namespace {

[[noreturn]] void unexpected(const char* what) { throw std::logic_error(std::string("CPU emitter: ") + what); }

bool is_literal(llvm::Value* v) { return llvm::isa<llvm::Constant>(v); }

// The value of an integer constant or splat.
std::optional<int64_t> int_literal(llvm::Value* v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    if (auto* i = llvm::dyn_cast_or_null<llvm::ConstantInt>(c)) return i->getSExtValue();
    return std::nullopt;
}

std::optional<double> float_literal(llvm::Value* v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    if (!f) return std::nullopt;
    return f->getType()->isFloatTy() ? f->getValueAPF().convertToFloat() : f->getValueAPF().convertToDouble();
}

}  // namespace

llvm::Type* Arithmetic::type(loop::Type t) const {
    llvm::LLVMContext& c = module_.getContext();
    llvm::Type* e = nullptr;
    switch (t.dtype) {
        case DType::Bool: e = llvm::Type::getInt1Ty(c); break;
        case DType::I8:
        case DType::U8: e = llvm::Type::getInt8Ty(c); break;
        case DType::I16:
        case DType::U16:
        case DType::F16:
        case DType::BF16: e = llvm::Type::getInt16Ty(c); break;
        case DType::I32:
        case DType::U32: e = llvm::Type::getInt32Ty(c); break;
        case DType::I64:
        case DType::U64: e = llvm::Type::getInt64Ty(c); break;
        case DType::F32: e = llvm::Type::getFloatTy(c); break;
        case DType::F64: e = llvm::Type::getDoubleTy(c); break;
    }
    return t.lanes == 1 ? e : llvm::FixedVectorType::get(e, t.lanes);
}

llvm::Type* Arithmetic::memory_type(loop::Type t) const { return type(t.dtype == DType::Bool ? t.with(DType::U8) : t); }

llvm::Constant* Arithmetic::literal(DType t, int64_t payload) const {
    llvm::Type* e = type({t, 1});
    const double v = std::bit_cast<double>(payload);
    switch (t) {
        case DType::F16: return llvm::ConstantInt::get(e, f64_to_f16(v));
        case DType::BF16: return llvm::ConstantInt::get(e, f64_to_bf16(v));
        case DType::F32: return llvm::ConstantFP::get(module_.getContext(), llvm::APFloat(static_cast<float>(v)));
        case DType::F64: return llvm::ConstantFP::get(module_.getContext(), llvm::APFloat(v));
        default: return llvm::ConstantInt::get(e, static_cast<uint64_t>(payload));
    }
}

void Arithmetic::set_attributes(llvm::Function* fn) const {
    fn->addFnAttr("target-cpu", f_.cpu);
    fn->addFnAttr("tune-cpu", f_.tune);
    if (!f_.attributes.empty()) fn->addFnAttr("target-features", f_.attributes);
    fn->addFnAttr("prefer-vector-width", std::to_string(f_.vector_bytes * 8));
    fn->addFnAttr("min-legal-vector-width", std::to_string(f_.vector_bytes * 8));
    fn->addFnAttr("no-trapping-math", "true");
    fn->setDoesNotThrow();
}

llvm::Value* Arithmetic::nan_to(Value* x, Value* otherwise) { return b_.CreateSelect(b_.CreateFCmpUNO(x, x), otherwise, x); }

// ---- functions of one and two arguments ------------------------------------------------------------------------------

llvm::Value* Arithmetic::unary(UnaryFn f, loop::Type t, Value* x) {
    llvm::Type* type = x->getType();
    const bool floating = is_float(t.dtype);
    switch (f) {
        case UnaryFn::Neg: return floating ? b_.CreateFNeg(x) : b_.CreateNeg(x);
        case UnaryFn::Abs:
            if (floating) return b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
            if (is_unsigned_int(t.dtype)) return x;
            return b_.CreateBinaryIntrinsic(Intrinsic::abs, x, b_.getFalse());
        case UnaryFn::Sign: {
            if (floating) {
                Value* one = b_.CreateBinaryIntrinsic(Intrinsic::copysign, real(type, 1), x);
                return b_.CreateSelect(b_.CreateFCmpUEQ(x, real(type, 0)), x, one);
            }
            Value* nonzero = b_.CreateZExt(b_.CreateICmpNE(x, constant(type, 0)), type);
            if (is_unsigned_int(t.dtype)) return nonzero;
            return b_.CreateOr(b_.CreateAShr(x, type->getScalarSizeInBits() - 1), nonzero);
        }
        case UnaryFn::Floor: return b_.CreateUnaryIntrinsic(Intrinsic::floor, x);
        case UnaryFn::Ceil: return b_.CreateUnaryIntrinsic(Intrinsic::ceil, x);
        case UnaryFn::Round: return b_.CreateUnaryIntrinsic(Intrinsic::roundeven, x);
        case UnaryFn::Trunc: return b_.CreateUnaryIntrinsic(Intrinsic::trunc, x);
        case UnaryFn::Sqrt: return b_.CreateUnaryIntrinsic(Intrinsic::sqrt, x);
        case UnaryFn::Rsqrt: return b_.CreateFDiv(real(type, 1), b_.CreateUnaryIntrinsic(Intrinsic::sqrt, x));
        case UnaryFn::Not: return b_.CreateNot(x);
        case UnaryFn::IsNan: return b_.CreateFCmpUNO(x, x);
        case UnaryFn::IsInf:
            return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(Intrinsic::fabs, x), real(type, INFINITY));
        case UnaryFn::Exp:
        case UnaryFn::Exp2:
        case UnaryFn::Expm1:
        case UnaryFn::Log:
        case UnaryFn::Log2:
        case UnaryFn::Log1p:
        case UnaryFn::Sin:
        case UnaryFn::Cos:
        case UnaryFn::Tan:
        case UnaryFn::Asin:
        case UnaryFn::Acos:
        case UnaryFn::Atan:
        case UnaryFn::Sinh:
        case UnaryFn::Cosh:
        case UnaryFn::Tanh:
        case UnaryFn::Asinh:
        case UnaryFn::Acosh:
        case UnaryFn::Atanh:
        case UnaryFn::Erf: break;
    }
    unexpected("a math function that was not expanded");
}

llvm::Value* Arithmetic::binary(BinaryFn f, loop::Type t, Value* x, Value* y) {
    const bool floating = is_float(t.dtype), is_signed = is_signed_int(t.dtype);
    switch (f) {
        case BinaryFn::Add: return floating ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
        case BinaryFn::Sub: return floating ? b_.CreateFSub(x, y) : b_.CreateSub(x, y);
        case BinaryFn::Mul: return floating ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
        case BinaryFn::Div: return floating ? b_.CreateFDiv(x, y) : int_divide(f, t, x, y);
        case BinaryFn::FloorDiv:
        case BinaryFn::Mod:
        case BinaryFn::FMod:
            if (floating) break;
            return int_divide(f, t, x, y);
        case BinaryFn::Min:
        case BinaryFn::Max: return min_max(f, t, x, y);
        case BinaryFn::Pow:
            if (floating) break;
            return int_pow(t, x, y);
        case BinaryFn::Atan2: break;
        case BinaryFn::And: return b_.CreateAnd(x, y);
        case BinaryFn::Or: return b_.CreateOr(x, y);
        case BinaryFn::Xor: return b_.CreateXor(x, y);
        case BinaryFn::Shl:
        case BinaryFn::Shr: return shift(f, t, x, y);
        case BinaryFn::Lt:
            return floating ? b_.CreateFCmpOLT(x, y) : is_signed ? b_.CreateICmpSLT(x, y) : b_.CreateICmpULT(x, y);
        case BinaryFn::Le:
            return floating ? b_.CreateFCmpOLE(x, y) : is_signed ? b_.CreateICmpSLE(x, y) : b_.CreateICmpULE(x, y);
        case BinaryFn::Gt:
            return floating ? b_.CreateFCmpOGT(x, y) : is_signed ? b_.CreateICmpSGT(x, y) : b_.CreateICmpUGT(x, y);
        case BinaryFn::Ge:
            return floating ? b_.CreateFCmpOGE(x, y) : is_signed ? b_.CreateICmpSGE(x, y) : b_.CreateICmpUGE(x, y);
        case BinaryFn::Eq: return floating ? b_.CreateFCmpOEQ(x, y) : b_.CreateICmpEQ(x, y);
        case BinaryFn::Ne: return floating ? b_.CreateFCmpUNE(x, y) : b_.CreateICmpNE(x, y);
    }
    unexpected("a math function that was not expanded");
}

// A vector of `lanes` made of what `part` gives for the lower and for the upper lanes.
template <class F>
llvm::Value* Arithmetic::halves(int lanes, F&& part) {
    std::vector<int> low, high, all;
    for (int i = 0; i < lanes; ++i) all.push_back(i), (i < lanes / 2 ? low : high).push_back(i);
    Value* a = part(low);
    return b_.CreateShuffleVector(a, part(high), all);
}

// IEEE 754-2019 minimum and maximum. "a > b ? a : b" is one x86 instruction that gives b for NaN and for equal zeros.
llvm::Value* Arithmetic::min_max(BinaryFn f, loop::Type t, Value* x, Value* y, bool numbers) {
    const bool is_max = f == BinaryFn::Max;
    if (!is_float(t.dtype)) {
        const bool is_signed = is_signed_int(t.dtype);
        const ID id = is_max ? (is_signed ? Intrinsic::smax : Intrinsic::umax) : (is_signed ? Intrinsic::smin : Intrinsic::umin);
        return b_.CreateBinaryIntrinsic(id, x, y);
    }
    auto pick = [&](Value* a, Value* b) {
        return b_.CreateSelect(is_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b), a, b);
    };
    if (is_literal(x)) std::swap(x, y);
    if (auto c = float_literal(y); c && !std::isnan(*c)) {
        Value* r = pick(y, x);  // x where it is NaN or an equal zero
        // Of the zeros, the literal must win where it is the greater (max) or the lesser (min).
        if (*c == 0 && is_max && !std::signbit(*c)) r = b_.CreateFAdd(r, y);
        if (*c == 0 && !is_max && std::signbit(*c)) r = b_.CreateSelect(b_.CreateFCmpOEQ(r, y), y, r);
        return r;
    }
#if defined(__x86_64__)
    const int bytes = t.lanes * static_cast<int>(size_of(t.dtype));
    if (f_.level == Level::Avx512 && bytes > 64) {
        const loop::Type half = t.with_lanes(t.lanes / 2);
        return halves(t.lanes, [&](const std::vector<int>& part) {
            return min_max(f, half, b_.CreateShuffleVector(x, part), b_.CreateShuffleVector(y, part), numbers);
        });
    }
    if (f_.level == Level::Avx512 && bytes == 64) {
        // The range instruction orders the zeros, and takes a number before a NaN.
        const bool f32 = t.dtype == DType::F32;
        const ID id = f32 ? Intrinsic::x86_avx512_mask_range_ps_512 : Intrinsic::x86_avx512_mask_range_pd_512;
        Value* all = constant(f32 ? b_.getInt16Ty() : b_.getInt8Ty(), -1);
        Value* r = b_.CreateIntrinsic(id, {}, {x, y, b_.getInt32(is_max ? 5 : 4), x, all, b_.getInt32(4)});
        if (numbers) return r;
        return b_.CreateSelect(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), r);
    }
#endif
    // Both orders differ only for zeros of unlike sign (joined by their sign bits) and NaN.
    llvm::Type* bits = type(t.with(t.dtype == DType::F32 ? DType::I32 : DType::I64));
    Value *a = b_.CreateBitCast(pick(x, y), bits), *b = b_.CreateBitCast(pick(y, x), bits);
    Value* joined = b_.CreateBitCast(is_max ? b_.CreateAnd(a, b) : b_.CreateOr(a, b), x->getType());
    if (numbers) return joined;
    return b_.CreateSelect(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), joined);
}

llvm::Value* Arithmetic::shift(BinaryFn f, loop::Type t, Value* x, Value* y) {
    llvm::Type* type = x->getType();
    const int bits = static_cast<int>(type->getScalarSizeInBits());
    Value* last = constant(type, bits - 1);
    if (f == BinaryFn::Shr && is_signed_int(t.dtype))
        return b_.CreateAShr(x, b_.CreateBinaryIntrinsic(Intrinsic::umin, y, last));
    Value* count = b_.CreateAnd(y, last);
    Value* shifted = f == BinaryFn::Shl ? b_.CreateShl(x, count) : b_.CreateLShr(x, count);
    return b_.CreateSelect(b_.CreateICmpULE(y, last), shifted, constant(type, 0));
}

// The quotient toward zero, 0 for y = 0; MIN / -1 wraps.
llvm::Value* Arithmetic::truncated_quotient(loop::Type t, Value* x, Value* y) {
    llvm::Type* type = x->getType();
    const bool is_signed = is_signed_int(t.dtype);
    Value* zero = constant(type, 0);
    if (auto c = int_literal(y)) {
        if (*c == 0) return zero;
        if (*c == -1 && is_signed) return b_.CreateNeg(x);
        return is_signed ? b_.CreateSDiv(x, y) : b_.CreateUDiv(x, y);
    }
    Value* by_zero = b_.CreateICmpEQ(y, zero);
    if (t.is_vector() && size_of(t.dtype) <= 4) {
        // Exact in floats: a quotient of n-bit integers that is no integer differs from any by more than 2^-2n, relatively.
        llvm::Type* real_type = this->type(t.with(size_of(t.dtype) <= 2 ? DType::F32 : DType::F64));
        Value* a = is_signed ? b_.CreateSIToFP(x, real_type) : b_.CreateUIToFP(x, real_type);
        Value* b = is_signed ? b_.CreateSIToFP(y, real_type) : b_.CreateUIToFP(y, real_type);
        Value* q = b_.CreateFDiv(a, b_.CreateSelect(by_zero, real(real_type, 1), b));
        // MIN / -1 is out of range by one: through the wider signed integer it wraps.
        llvm::Type* wide = this->type(t.with(size_of(t.dtype) <= 2 ? DType::I32 : DType::I64));
        if (size_of(t.dtype) == 4 && is_signed) {
            Value* is_min = b_.CreateFCmpOEQ(q, real(real_type, 2147483648.0));
            Value* narrow = b_.CreateFPToSI(b_.CreateSelect(is_min, real(real_type, -2147483648.0), q), type);
            return b_.CreateSelect(by_zero, zero, narrow);
        }
        if (size_of(t.dtype) == 4) return b_.CreateSelect(by_zero, zero, b_.CreateFPToUI(q, type));
        return b_.CreateSelect(by_zero, zero, b_.CreateTrunc(b_.CreateFPToSI(q, wide), type));
    }
    Value* special = by_zero;
    if (is_signed) special = b_.CreateOr(by_zero, b_.CreateICmpEQ(y, constant(type, -1)));
    Value* divisor = b_.CreateSelect(special, constant(type, 1), y);
    Value* q = is_signed ? b_.CreateSDiv(x, divisor) : b_.CreateUDiv(x, divisor);
    if (!is_signed) return b_.CreateSelect(by_zero, zero, q);
    return b_.CreateSelect(special, b_.CreateSelect(by_zero, zero, b_.CreateNeg(x)), q);
}

llvm::Value* Arithmetic::int_divide(BinaryFn f, loop::Type t, Value* x, Value* y) {
    llvm::Type* type = x->getType();
    const bool is_signed = is_signed_int(t.dtype);
    const auto c = int_literal(y);
    if (c && *c == 0) return constant(type, 0);
    if (c && *c > 0 && (*c & (*c - 1)) == 0 && (f == BinaryFn::FloorDiv || f == BinaryFn::Mod)) {
        const int log = std::countr_zero(static_cast<uint64_t>(*c));
        if (f == BinaryFn::Mod) return b_.CreateAnd(x, constant(type, *c - 1));
        return is_signed ? b_.CreateAShr(x, log) : b_.CreateLShr(x, log);
    }
    Value* q = truncated_quotient(t, x, y);
    if (f == BinaryFn::Div || (f == BinaryFn::FloorDiv && !is_signed)) return q;
    Value* zero = constant(type, 0);
    Value* r = b_.CreateSub(x, b_.CreateMul(q, y));
    if (!c) r = b_.CreateSelect(b_.CreateICmpEQ(y, zero), zero, r);
    if (f == BinaryFn::FMod || !is_signed) return r;
    // Toward minus infinity where the remainder and the divisor have unlike signs.
    Value* below = c ? (*c > 0 ? b_.CreateICmpSLT(r, zero) : b_.CreateICmpSGT(r, zero))
                     : b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, y), zero));
    if (f == BinaryFn::FloorDiv) return b_.CreateAdd(q, b_.CreateSExt(below, type));
    return b_.CreateAdd(r, b_.CreateSelect(below, y, zero));
}

llvm::Value* Arithmetic::mul_add(Value* a, Value* b, Value* c, bool exact) {
    if (exact || f_.fma) return b_.CreateIntrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
    return b_.CreateFAdd(b_.CreateFMul(a, b), c);
}

// One instruction where the processor has it, on as many lanes as a register holds; else the parts one after another.
llvm::Value* Arithmetic::dot(loop::DotFn f, loop::Type t, Value* x, Value* y, Value* sum) {
    const bool bf16 = f == loop::DotFn::Bf16x2;
#if defined(__x86_64__)
    if (bf16 ? f_.bf16 : f_.vnni) {
        if (t.lanes * 4 > f_.vector_bytes)
            return halves(t.lanes, [&](const std::vector<int>& part) {
                return dot(f, t.with_lanes(t.lanes / 2), b_.CreateShuffleVector(x, part), b_.CreateShuffleVector(y, part),
                           b_.CreateShuffleVector(sum, part));
            });
        const int which = t.lanes == 16 ? 2 : t.lanes == 8 ? 1 : t.lanes == 4 ? 0 : -1;
        if (which >= 0 && bf16) {
            constexpr ID ids[] = {Intrinsic::x86_avx512bf16_dpbf16ps_128, Intrinsic::x86_avx512bf16_dpbf16ps_256,
                                  Intrinsic::x86_avx512bf16_dpbf16ps_512};
            llvm::Type* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * static_cast<unsigned>(t.lanes));
            return b_.CreateIntrinsic(ids[which], {}, {sum, b_.CreateBitCast(x, pairs), b_.CreateBitCast(y, pairs)});
        }
        if (which >= 0) {
            constexpr ID ids[] = {Intrinsic::x86_avx512_vpdpbusd_128, Intrinsic::x86_avx512_vpdpbusd_256,
                                  Intrinsic::x86_avx512_vpdpbusd_512};
            return b_.CreateIntrinsic(ids[which], {}, {sum, x, y});
        }
    }
#endif
    const auto shifted = [&](Value* v, int left) { return left ? b_.CreateShl(v, left) : v; };
    for (int i = 0; i < parts(f); ++i) {
        if (bf16) {
            llvm::Type *bits = x->getType(), *f32 = sum->getType();
            const auto half = [&](Value* v) {
                return b_.CreateBitCast(i ? b_.CreateAnd(v, constant(bits, 0xffff0000)) : b_.CreateShl(v, 16), f32);
            };
            sum = mul_add(half(x), half(y), sum, false);
        } else {
            Value* a = b_.CreateLShr(shifted(x, 24 - 8 * i), 24);
            Value* b = b_.CreateAShr(shifted(y, 24 - 8 * i), 24);
            sum = b_.CreateAdd(sum, b_.CreateMul(a, b));
        }
    }
    return sum;
}

llvm::Value* Arithmetic::scale(loop::Type t, Value* x, Value* exponent) {
    const bool f32 = t.dtype == DType::F32;
#if defined(__x86_64__)
    const int bytes = t.lanes * static_cast<int>(size_of(t.dtype));
    if (f_.level == Level::Avx512 && bytes > 64) {
        const loop::Type half = t.with_lanes(t.lanes / 2);
        return halves(t.lanes, [&](const std::vector<int>& part) {
            return scale(half, b_.CreateShuffleVector(x, part), b_.CreateShuffleVector(exponent, part));
        });
    }
    if (f_.level == Level::Avx512 && bytes < 64) {  // the first lanes of a whole vector
        const int lanes = f_.lanes(t.dtype);
        std::vector<int> first(static_cast<size_t>(t.lanes)), widened(static_cast<size_t>(lanes), llvm::PoisonMaskElem);
        for (int i = 0; i < t.lanes; ++i) first[static_cast<size_t>(i)] = widened[static_cast<size_t>(i)] = i;
        const auto whole = [&](Value* v) {
            if (t.is_vector()) return b_.CreateShuffleVector(v, widened);
            return b_.CreateInsertElement(llvm::PoisonValue::get(type(t.with_lanes(lanes))), v, uint64_t{0});
        };
        Value* r = scale(t.with_lanes(lanes), whole(x), whole(exponent));
        return t.is_vector() ? b_.CreateShuffleVector(r, first) : b_.CreateExtractElement(r, uint64_t{0});
    }
    if (f_.level == Level::Avx512) {
        const ID id = f32 ? Intrinsic::x86_avx512_mask_scalef_ps_512 : Intrinsic::x86_avx512_mask_scalef_pd_512;
        llvm::Type* mask = f32 ? b_.getInt16Ty() : b_.getInt8Ty();
        return b_.CreateIntrinsic(id, {}, {x, exponent, x, constant(mask, -1), b_.getInt32(4)});
    }
#endif
    // Two factors 2^h and 2^(n-h), each in range, made in the exponent field: adding 1.5 * 2^23 (or 2^52) to an integral
    // float leaves the integer in its low bits.
    llvm::Type *type = x->getType(), *bits = this->type(t.with(f32 ? DType::I32 : DType::I64));
    Value* magic = real(type, f32 ? 12582912.0 : 6755399441055744.0);
    const int mantissa = f32 ? 23 : 52, bias = f32 ? 127 : 1023;
    Value* half = b_.CreateFAdd(b_.CreateFMul(exponent, real(type, 0.5)), magic);  // rounded to an integer
    Value* first = half;
    Value* second = b_.CreateFAdd(b_.CreateFSub(exponent, b_.CreateFSub(half, magic)), magic);
    auto power = [&](Value* n) {
        Value* biased = b_.CreateAdd(b_.CreateBitCast(n, bits), constant(bits, bias));
        return b_.CreateBitCast(b_.CreateShl(biased, mantissa), type);
    };
    return b_.CreateFMul(b_.CreateFMul(x, power(first)), power(second));
}

// ---- lanes -----------------------------------------------------------------------------------------------------------

llvm::Value* Arithmetic::ramp(loop::Type t, Value* base, int64_t stride) {
    llvm::Type* type = base->getType();
    std::vector<llvm::Constant*> steps;
    for (int i = 0; i < t.lanes; ++i)
        steps.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(i) * static_cast<uint64_t>(stride)));
    return b_.CreateAdd(broadcast(base, t.lanes), llvm::ConstantVector::get(steps));
}

llvm::Value* Arithmetic::first_lanes(Value* count, int lanes) {
    llvm::Type* i64 = b_.getInt64Ty();
    Value* n = b_.CreateBinaryIntrinsic(Intrinsic::smax, count, constant(i64, 0));
    n = b_.CreateBinaryIntrinsic(Intrinsic::smin, n, constant(i64, lanes));
    if (f_.masked && lanes <= 64) {
        Value* bits = lanes < 64 ? b_.CreateSub(b_.CreateShl(constant(i64, 1), n), constant(i64, 1))
                                 : b_.CreateSelect(b_.CreateICmpEQ(n, constant(i64, 0)), constant(i64, 0),
                                                   b_.CreateLShr(constant(i64, -1), b_.CreateSub(constant(i64, 64), n)));
        llvm::Type* mask = b_.getIntNTy(static_cast<unsigned>(lanes));
        return b_.CreateBitCast(b_.CreateTrunc(bits, mask), llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
    }
    // Compared in lanes as wide as makes the vector one register, up to 32 bits: `lanes` fits any of them.
    const int width = std::min(32, std::max(lanes > 127 ? 16 : 8, static_cast<int>(std::bit_floor(
                                                                     static_cast<unsigned>(f_.vector_bytes * 8 / lanes)))));
    llvm::Type* lane = b_.getIntNTy(static_cast<unsigned>(width));
    std::vector<llvm::Constant*> steps;
    for (int i = 0; i < lanes; ++i) steps.push_back(llvm::ConstantInt::get(lane, static_cast<uint64_t>(i)));
    return b_.CreateICmpSLT(llvm::ConstantVector::get(steps), broadcast(b_.CreateTrunc(n, lane), lanes));
}

llvm::Value* Arithmetic::lookup(loop::Type t, Value* index, const loop::LookupTable& table) {
    std::vector<llvm::Constant*> entries;
    for (float x : table) entries.push_back(llvm::ConstantFP::get(module_.getContext(), llvm::APFloat(x)));
    Value* all = llvm::ConstantVector::get(entries);
    constexpr int kEntries = 16;
#if defined(__x86_64__)
    if (f_.level == Level::Avx512 && t.lanes > kEntries) {
        const loop::Type half = t.with_lanes(t.lanes / 2);
        return halves(t.lanes, [&](const std::vector<int>& part) {
            return lookup(half, b_.CreateShuffleVector(index, part), table);
        });
    }
    if (f_.level == Level::Avx512) {  // one permutation of the table; fewer lanes are the first of a vector
        std::vector<int> widened(kEntries, llvm::PoisonMaskElem), first;
        for (int i = 0; i < t.lanes; ++i) widened[static_cast<size_t>(i)] = i, first.push_back(i);
        llvm::Type* vector = llvm::FixedVectorType::get(b_.getInt32Ty(), kEntries);
        if (!t.is_vector()) index = b_.CreateInsertElement(llvm::PoisonValue::get(vector), index, uint64_t{0});
        else if (t.lanes < kEntries) index = b_.CreateShuffleVector(index, widened);
        Value* r = b_.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {}, {all, index});
        if (!t.is_vector()) return b_.CreateExtractElement(r, uint64_t{0});
        return t.lanes < kEntries ? b_.CreateShuffleVector(r, first) : r;
    }
#endif
    const auto entry = [&](Value* i) { return b_.CreateExtractElement(all, b_.CreateAnd(i, constant(i->getType(), kEntries - 1))); };
    if (!t.is_vector()) return entry(index);
    Value* r = llvm::PoisonValue::get(type(t));
    for (int i = 0; i < t.lanes; ++i)
        r = b_.CreateInsertElement(r, entry(b_.CreateExtractElement(index, static_cast<uint64_t>(i))), static_cast<uint64_t>(i));
    return r;
}

llvm::Value* Arithmetic::reduce(BinaryFn f, loop::Type t, Value* x, bool numbers) {
    if (t.dtype == DType::Bool) {
        llvm::Type* mask = b_.getIntNTy(t.lanes);
        Value* bits = b_.CreateBitCast(x, mask);
        return f == BinaryFn::And ? b_.CreateICmpEQ(bits, constant(mask, -1)) : b_.CreateICmpNE(bits, constant(mask, 0));
    }
    for (int lanes = t.lanes / 2; lanes >= 1; lanes /= 2) {
        std::vector<int> low, high;
        for (int i = 0; i < lanes; ++i) low.push_back(i), high.push_back(lanes + i);
        Value *a = b_.CreateShuffleVector(x, low), *b = b_.CreateShuffleVector(x, high);
        if (lanes == 1) {
            a = b_.CreateExtractElement(x, uint64_t{0});
            b = b_.CreateExtractElement(x, uint64_t{1});
        }
        x = numbers ? min_max(f, t.with_lanes(lanes), a, b, true) : binary(f, t.with_lanes(lanes), a, b);
    }
    return x;
}

// ---- conversions -----------------------------------------------------------------------------------------------------

llvm::Value* Arithmetic::wrap(loop::Type from, DType to, Value* x) {
    if (to == DType::Bool) return b_.CreateTrunc(x, type(from.with(to)));
    return is_signed_int(from.dtype) ? b_.CreateSExtOrTrunc(x, type(from.with(to)))
                                     : b_.CreateZExtOrTrunc(x, type(from.with(to)));
}

llvm::Value* Arithmetic::cast(loop::Type from, DType to, Value* x) {
    const DType t = from.dtype;
    if (t == to) return x;
    llvm::Type* target = type(from.with(to));
    if (t == DType::Bool) {
        if (!is_float(to)) return b_.CreateZExt(x, target);
        Value* one = broadcast(literal(to, std::bit_cast<int64_t>(1.0)), from.lanes);
        return b_.CreateSelect(x, one, llvm::Constant::getNullValue(target));
    }
    if (to == DType::Bool) {
        if (t == DType::F16 || t == DType::BF16)
            return b_.CreateICmpNE(b_.CreateAnd(x, constant(x->getType(), 0x7fff)), constant(x->getType(), 0));
        return is_float(t) ? b_.CreateFCmpUNE(x, real(x->getType(), 0)) : b_.CreateICmpNE(x, constant(x->getType(), 0));
    }
    if (is_int(t) && is_int(to)) return int_to_int(from, to, x);
    if (is_int(t)) return int_to_float(from, to, x);
    if (is_int(to)) return float_to_int(from, to, x);
    return float_to_float(from, to, x);
}

llvm::Value* Arithmetic::int_to_int(loop::Type from, DType to, Value* x) {
    const DType t = from.dtype;
    llvm::Type* type = x->getType();
    const int to_bits = static_cast<int>(size_of(to)) * 8, from_bits = static_cast<int>(size_of(t)) * 8;
    const bool s = is_signed_int(t), to_s = is_signed_int(to);
    if (s && !to_s) x = b_.CreateBinaryIntrinsic(Intrinsic::smax, x, constant(type, 0));
    const int value_bits = to_s ? to_bits - 1 : to_bits;  // of the largest value of `to`
    if (from_bits - (s ? 1 : 0) > value_bits) {
        Value* highest = constant(type, static_cast<int64_t>((uint64_t{1} << value_bits) - 1));
        x = b_.CreateBinaryIntrinsic(s ? Intrinsic::smin : Intrinsic::umin, x, highest);
        if (s && to_s) x = b_.CreateBinaryIntrinsic(Intrinsic::smax, x, constant(type, -(int64_t{1} << value_bits)));
    }
    return wrap(from, to, x);
}

// One rounding, to nearest even.
llvm::Value* Arithmetic::int_to_float(loop::Type from, DType to, Value* x) {
    const bool s = is_signed_int(from.dtype);
    auto convert = [&](Value* v, DType t) {
        llvm::Type* r = type(from.with(t));
        return s ? b_.CreateSIToFP(v, r) : b_.CreateUIToFP(v, r);
    };
    if (to == DType::F32 || to == DType::F64) return convert(x, to);
    // Every integer that is finite as f16 is exact as f32. bf16 reaches further: through f64, and in 64-bit integers
    // too large for that the low 24 bits are joined into one first, which rounds alike and is exact.
    if (to == DType::F16 || size_of(from.dtype) <= 2) return float_to_half(from.with(DType::F32), to, convert(x, DType::F32));
    if (size_of(from.dtype) == 8) {
        llvm::Type* type = x->getType();
        constexpr int64_t low_bits = (int64_t{1} << 24) - 1;
        Value* low = b_.CreateICmpNE(b_.CreateAnd(x, constant(type, low_bits)), constant(type, 0));
        Value* sticky = b_.CreateShl(b_.CreateZExt(low, type), 23);
        Value* joined = b_.CreateOr(b_.CreateAnd(x, constant(type, ~low_bits)), sticky);
        Value* magnitude = s ? b_.CreateXor(x, b_.CreateAShr(x, 63)) : x;
        x = b_.CreateSelect(b_.CreateICmpUGE(magnitude, constant(type, int64_t{1} << 52)), joined, x);
    }
    return float_to_half(from.with(DType::F64), to, convert(x, DType::F64));
}

// Saturates; NaN becomes 0.
llvm::Value* Arithmetic::float_to_int(loop::Type from, DType to, Value* x) {
    if (from.dtype == DType::F16 || from.dtype == DType::BF16) {
        x = half_to_float(from, x);
        from = from.with(DType::F32);
    }
    llvm::Type *target = type(from.with(to)), *type = x->getType();
    if (size_of(to) > 2) {
        const ID id = is_signed_int(to) ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat;
        return b_.CreateIntrinsic(id, {target, type}, {x});
    }
    Value *lo = real(type, lowest(to)), *hi = real(type, highest(to));
    x = b_.CreateSelect(b_.CreateFCmpOGT(x, hi), hi, x);
    x = b_.CreateSelect(b_.CreateFCmpOLT(x, lo), lo, x);
    x = nan_to(x, real(type, 0));
    return b_.CreateTrunc(b_.CreateFPToSI(x, this->type(from.with(DType::I32))), target);
}

llvm::Value* Arithmetic::float_to_float(loop::Type from, DType to, Value* x) {
    const DType t = from.dtype;
    if (t == DType::F16 || t == DType::BF16) {
        x = half_to_float(from, x);
        return to == DType::F32 ? x : float_to_float(from.with(DType::F32), to, x);
    }
    if (to == DType::F64) return b_.CreateFPExt(x, type(from.with(to)));
    if (to == DType::F32) return b_.CreateFPTrunc(x, type(from.with(to)));
    return float_to_half(from, to, x);
}

llvm::Value* Arithmetic::half_to_float(loop::Type from, Value* x) {
    llvm::Type *bits = type(from.with(DType::I32)), *f32 = type(from.with(DType::F32));
    if (from.dtype == DType::BF16) return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, bits), 16), f32);
    if (f_.level != Level::Baseline) {
        llvm::Type* half = b_.getHalfTy();
        if (from.is_vector()) half = llvm::FixedVectorType::get(half, from.lanes);
        return b_.CreateFPExt(b_.CreateBitCast(x, half), f32);
    }
    // Exponent and mantissa moved into place are the value times 2^-112, subnormals included; infinity and NaN keep their
    // full exponent.
    Value* wide = b_.CreateZExt(x, bits);
    Value* magnitude = b_.CreateShl(b_.CreateAnd(wide, constant(bits, 0x7fff)), 13);
    Value* scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, f32), real(f32, 0x1p112));
    Value* special = b_.CreateICmpUGE(magnitude, constant(bits, 0x7c00 << 13));
    Value* finite = b_.CreateBitCast(scaled, bits);
    Value* r = b_.CreateSelect(special, b_.CreateOr(magnitude, constant(bits, 0x7f800000)), finite);
    Value* quiet = b_.CreateICmpUGT(magnitude, constant(bits, 0x7c00 << 13));
    r = b_.CreateOr(r, b_.CreateSelect(quiet, constant(bits, 0x400000), constant(bits, 0)));
    r = b_.CreateOr(r, b_.CreateShl(b_.CreateAnd(wide, constant(bits, 0x8000)), 16));
    return b_.CreateBitCast(r, f32);
}

llvm::Value* Arithmetic::normal_to_bf16(loop::Type from, Value* x) {
#if defined(__x86_64__)
    if (f_.rounds_bf16 && from.lanes == 16)
        return b_.CreateBitCast(b_.CreateIntrinsic(Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x}), type(from.with(DType::BF16)));
    if (f_.rounds_bf16 && from.lanes > 16)
        return halves(from.lanes, [&](const std::vector<int>& part) {
            return normal_to_bf16(from.with_lanes(from.lanes / 2), b_.CreateShuffleVector(x, part));
        });
#endif
    return float_to_half(from, DType::BF16, x);
}

// Rounded to odd: an inexact result has its last bit set, so that a second, shorter rounding is the only one.
llvm::Value* Arithmetic::f64_to_f32_odd(int lanes, Value* x) {
    const loop::Type t{DType::F32, static_cast<uint16_t>(lanes)};
    llvm::Type *f32 = type(t), *f64 = type(t.with(DType::F64)), *bits = type(t.with(DType::I32));
    Value* nearest = b_.CreateFPTrunc(x, f32);
    Value* back = b_.CreateFPExt(nearest, f64);
    Value* inexact = b_.CreateFCmpONE(back, x);
    Value* above = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(Intrinsic::fabs, back), b_.CreateUnaryIntrinsic(Intrinsic::fabs, x));
    Value* r = b_.CreateAdd(b_.CreateBitCast(nearest, bits), b_.CreateSExt(above, bits));
    return b_.CreateBitCast(b_.CreateOr(r, b_.CreateZExt(inexact, bits)), f32);
}

// f32 or f64 to the 16 bits of f16 or bf16, one rounding to nearest even.
llvm::Value* Arithmetic::float_to_half(loop::Type from, DType to, Value* x) {
    if (from.dtype == DType::F64) {
        x = f64_to_f32_odd(from.lanes, x);
        from = from.with(DType::F32);
    }
    llvm::Type *bits = type(from.with(DType::I32)), *f32 = x->getType(), *target = type(from.with(to));
    if (to == DType::BF16) {
        Value* u = b_.CreateBitCast(x, bits);
        Value* odd = b_.CreateAnd(b_.CreateLShr(u, 16), constant(bits, 1));
        Value* rounded = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(u, constant(bits, 0x7fff)), odd), 16);
        Value* quiet = b_.CreateOr(b_.CreateLShr(u, 16), constant(bits, 0x40));
        return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(x, x), quiet, rounded), target);
    }
    if (f_.level != Level::Baseline) {
        llvm::Type* half = b_.getHalfTy();
        if (from.is_vector()) half = llvm::FixedVectorType::get(half, from.lanes);
        return b_.CreateBitCast(b_.CreateFPTrunc(x, half), target);
    }
    // Normal results: round the 13 bits that go by integer addition. Subnormal results: adding 0.5 leaves the integer
    // multiple of 2^-24, rounded, in the low mantissa bits.
    Value* u = b_.CreateBitCast(x, bits);
    Value* magnitude = b_.CreateAnd(u, constant(bits, 0x7fffffff));
    Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, 13), constant(bits, 1));
    Value* rebased = b_.CreateAdd(magnitude, constant(bits, static_cast<int64_t>(0xc8000000u) + 0xfff));  // exponent - 112
    Value* normal = b_.CreateLShr(b_.CreateAdd(rebased, odd), 13);
    Value* shifted = b_.CreateFAdd(b_.CreateBitCast(magnitude, f32), real(f32, 0.5));
    Value* subnormal = b_.CreateSub(b_.CreateBitCast(shifted, bits), constant(bits, 0x3f000000));
    Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, constant(bits, 0x38800000)), subnormal, normal);  // 2^-14
    r = b_.CreateSelect(b_.CreateICmpUGE(magnitude, constant(bits, 0x477ff000)), constant(bits, 0x7c00), r);  // 65520
    Value* payload = b_.CreateOr(b_.CreateAnd(b_.CreateLShr(magnitude, 13), constant(bits, 0x3ff)), constant(bits, 0x7e00));
    r = b_.CreateSelect(b_.CreateICmpUGT(magnitude, constant(bits, 0x7f800000)), payload, r);
    r = b_.CreateOr(r, b_.CreateAnd(b_.CreateLShr(u, 16), constant(bits, 0x8000)));
    return b_.CreateTrunc(r, target);
}

// ---- out-of-line functions -------------------------------------------------------------------------------------------

llvm::Value* Arithmetic::call_lanes(const std::string& c_function, loop::Type t, llvm::ArrayRef<Value*> args, Value* fast,
                                    Value* ok) {
    llvm::Type *scalar = type(t.with_lanes(1)), *vector = type(t);
    llvm::FunctionType* c_type = llvm::FunctionType::get(scalar, std::vector<llvm::Type*>(args.size(), scalar), false);
    llvm::FunctionCallee callee = module_.getOrInsertFunction(c_function, c_type);
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
    if (!t.is_vector()) {
        Value* exact = b_.CreateCall(callee, args);
        return exact;
    }
    const std::string name = c_function + "." + loop::to_string(t) + (ok ? ".where_not" : "");
    llvm::Function* fn = module_.getFunction(name);
    if (!fn) {
        std::vector<llvm::Type*> types(args.size(), vector);
        if (ok) types.insert(types.end(), {vector, ok->getType()});
        fn = llvm::Function::Create(llvm::FunctionType::get(vector, types, false), llvm::Function::InternalLinkage, name, module_);
        set_attributes(fn);
        fn->addFnAttr(llvm::Attribute::NoInline);
        if (ok) fn->addFnAttr(llvm::Attribute::Cold);
        llvm::IRBuilder<>::InsertPointGuard guard(b_);
        llvm::LLVMContext& c = module_.getContext();
        auto* entry = llvm::BasicBlock::Create(c, "entry", fn);
        auto* head = llvm::BasicBlock::Create(c, "lane", fn);
        auto* compute = llvm::BasicBlock::Create(c, "compute", fn);
        auto* next = llvm::BasicBlock::Create(c, "next", fn);
        auto* done = llvm::BasicBlock::Create(c, "done", fn);
        b_.SetInsertPoint(entry);
        std::vector<Value*> slots;
        for (size_t i = 0; i < args.size(); ++i) {
            slots.push_back(b_.CreateAlloca(vector));
            b_.CreateStore(fn->getArg(static_cast<unsigned>(i)), slots.back());
        }
        Value* result = b_.CreateAlloca(vector);
        Value* mask = nullptr;
        llvm::Type* mask_bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), t.lanes);
        if (ok) {
            b_.CreateStore(fn->getArg(static_cast<unsigned>(args.size())), result);
            mask = b_.CreateAlloca(mask_bytes);
            b_.CreateStore(b_.CreateZExt(fn->getArg(static_cast<unsigned>(args.size()) + 1), mask_bytes), mask);
        }
        b_.CreateBr(head);
        b_.SetInsertPoint(head);
        llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
        i->addIncoming(b_.getInt64(0), entry);
        if (ok) {
            Value* is_ok = b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), mask, i));
            b_.CreateCondBr(b_.CreateICmpNE(is_ok, b_.getInt8(0)), next, compute);
        } else {
            b_.CreateBr(compute);
        }
        b_.SetInsertPoint(compute);
        std::vector<Value*> lane_args;
        for (Value* s : slots) lane_args.push_back(b_.CreateLoad(scalar, b_.CreateGEP(scalar, s, i)));
        b_.CreateStore(b_.CreateCall(callee, lane_args), b_.CreateGEP(scalar, result, i));
        b_.CreateBr(next);
        b_.SetInsertPoint(next);
        Value* after = b_.CreateAdd(i, b_.getInt64(1));
        i->addIncoming(after, next);
        b_.CreateCondBr(b_.CreateICmpULT(after, b_.getInt64(t.lanes)), head, done);
        b_.SetInsertPoint(done);
        b_.CreateRet(b_.CreateLoad(vector, result));
    }
    std::vector<Value*> all(args.begin(), args.end());
    if (ok) all.insert(all.end(), {fast, ok});
    return b_.CreateCall(fn, all);
}

// Square and multiply, wrapping. A negative exponent is 1/x truncated: 0, but for x = 1 and -1, and 0 for x = 0.
llvm::Value* Arithmetic::int_pow(loop::Type t, Value* x, Value* y) {
    llvm::Type* type = x->getType();
    Value *zero = constant(type, 0), *one = constant(type, 1);
    if (auto c = int_literal(y); c && *c >= 0 && *c <= 64) {
        Value *r = one, *square = x;
        for (int64_t n = *c; n > 0; n >>= 1) {
            if (n & 1) r = b_.CreateMul(r, square);
            if (n > 1) square = b_.CreateMul(square, square);
        }
        return r;
    }
    const std::string name = std::string("pow.") + loop::to_string(t);
    llvm::Function* fn = module_.getFunction(name);
    if (!fn) {
        fn = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false), llvm::Function::InternalLinkage, name,
                                    module_);
        set_attributes(fn);
        fn->addFnAttr(llvm::Attribute::NoInline);
        llvm::IRBuilder<>::InsertPointGuard guard(b_);
        llvm::LLVMContext& c = module_.getContext();
        auto* entry = llvm::BasicBlock::Create(c, "entry", fn);
        auto* step = llvm::BasicBlock::Create(c, "step", fn);
        auto* done = llvm::BasicBlock::Create(c, "done", fn);
        b_.SetInsertPoint(entry);
        Value *base = fn->getArg(0), *exponent = fn->getArg(1);
        b_.CreateBr(step);
        b_.SetInsertPoint(step);
        llvm::PHINode *r = b_.CreatePHI(type, 2), *square = b_.CreatePHI(type, 2), *n = b_.CreatePHI(type, 2);
        r->addIncoming(one, entry), square->addIncoming(base, entry), n->addIncoming(exponent, entry);
        Value* odd = b_.CreateICmpNE(b_.CreateAnd(n, one), zero);
        Value* product = b_.CreateSelect(odd, b_.CreateMul(r, square), r);
        Value* rest = b_.CreateLShr(n, 1);
        r->addIncoming(product, step), square->addIncoming(b_.CreateMul(square, square), step), n->addIncoming(rest, step);
        Value* more = b_.CreateICmpNE(rest, zero);
        if (t.is_vector()) more = reduce(BinaryFn::Or, t.with(DType::Bool), more);
        b_.CreateCondBr(more, step, done);
        b_.SetInsertPoint(done);
        Value* result = product;
        if (is_signed_int(t.dtype)) {
            Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(exponent, one), zero);
            Value* minus_one = constant(type, -1);
            Value* inverse = b_.CreateSelect(b_.CreateICmpEQ(base, one), one, zero);
            inverse = b_.CreateSelect(b_.CreateICmpEQ(base, minus_one), b_.CreateSelect(is_odd, minus_one, one), inverse);
            result = b_.CreateSelect(b_.CreateICmpSLT(exponent, zero), inverse, product);
        }
        b_.CreateRet(result);
    }
    return b_.CreateCall(fn, {x, y});
}

}  // namespace opwright::target::cpu
