// Internal to the emitter: loop IR functions on one value as LLVM instructions at the builder's place. Bool is i1; f16
// and bf16 travel as i16 bits.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "loop/program.h"
#include "target/cpu/features.h"

namespace opwright::target::cpu {

class Arithmetic {
public:
    Arithmetic(llvm::Module& m, llvm::IRBuilder<>& b, const Features& f) : module_(m), b_(b), f_(f) {}

    llvm::Type* type(loop::Type t) const;
    // The type in memory: bool is a byte.
    llvm::Type* memory_type(loop::Type t) const;
    llvm::Constant* literal(DType t, int64_t payload) const;
    llvm::Value* broadcast(llvm::Value* scalar, int lanes) { return lanes == 1 ? scalar : b_.CreateVectorSplat(lanes, scalar); }

    // Functions that are few instructions; math functions are expanded before (math.h).
    llvm::Value* unary(loop::UnaryFn f, loop::Type t, llvm::Value* x);
    // `literal_y` tells that y is a constant, which needs no guards.
    llvm::Value* binary(loop::BinaryFn f, loop::Type t, llvm::Value* x, llvm::Value* y);
    llvm::Value* mul_add(llvm::Value* a, llvm::Value* b, llvm::Value* c, bool exact);
    llvm::Value* dot(loop::DotFn f, loop::Type t, llvm::Value* x, llvm::Value* y, llvm::Value* sum);
    llvm::Value* scale(loop::Type t, llvm::Value* x, llvm::Value* exponent);
    llvm::Value* cast(loop::Type from, DType to, llvm::Value* x);
    // Of f32 that are no subnormal numbers, which the instruction for it would flush.
    llvm::Value* normal_to_bf16(loop::Type from, llvm::Value* x);
    llvm::Value* wrap(loop::Type from, DType to, llvm::Value* x);

    llvm::Value* ramp(loop::Type t, llvm::Value* base, int64_t stride);
    llvm::Value* first_lanes(llvm::Value* count, int lanes);
    llvm::Value* lookup(loop::Type t, llvm::Value* index, const loop::LookupTable& table);
    // `numbers`: no operand is NaN, or the result does not matter.
    llvm::Value* min_max(loop::BinaryFn f, loop::Type t, llvm::Value* x, llvm::Value* y, bool numbers = false);
    llvm::Value* reduce(loop::BinaryFn f, loop::Type t, llvm::Value* x, bool numbers = false);

    // Lane by lane calls of a C function of one or two floats, out of line. With `fast` and `ok`, only lanes that are
    // not ok are computed and the others taken from `fast`.
    llvm::Value* call_lanes(const std::string& c_function, loop::Type t, llvm::ArrayRef<llvm::Value*> args,
                            llvm::Value* fast = nullptr, llvm::Value* ok = nullptr);
    llvm::Value* int_pow(loop::Type t, llvm::Value* x, llvm::Value* y);

    void set_attributes(llvm::Function* fn) const;

private:
    using Value = llvm::Value;
    template <class F>
    Value* halves(int lanes, F&& part);
    Value* int_divide(loop::BinaryFn f, loop::Type t, Value* x, Value* y);
    Value* truncated_quotient(loop::Type t, Value* x, Value* y);
    Value* shift(loop::BinaryFn f, loop::Type t, Value* x, Value* y);
    Value* int_to_float(loop::Type from, DType to, Value* x);
    Value* float_to_int(loop::Type from, DType to, Value* x);
    Value* int_to_int(loop::Type from, DType to, Value* x);
    Value* float_to_float(loop::Type from, DType to, Value* x);
    Value* half_to_float(loop::Type from, Value* x);
    Value* float_to_half(loop::Type from, DType to, Value* x);
    Value* f64_to_f32_odd(int lanes, Value* x);
    Value* constant(llvm::Type* t, int64_t v) const { return llvm::ConstantInt::get(t, static_cast<uint64_t>(v), true); }
    Value* real(llvm::Type* t, double v) const { return llvm::ConstantFP::get(t, v); }
    Value* nan_to(Value* x, Value* otherwise);

    llvm::Module& module_;
    llvm::IRBuilder<>& b_;
    const Features& f_;
};

}  // namespace opwright::target::cpu
