// Contractions whose factors are narrow enough for a processor's dot products: words of 32 bits that hold two bf16 or four
// 8-bit integers, neighbours along the depth.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "schedule/kernel.h"
#include "target/machine.h"

namespace opwright::schedule {

// A factor in i32 that is an 8-bit integer, plus or less something that is the same all along the depth (a zero point).
struct ByteFactor {
    math::ExprId value = math::kNone;   // of type i8 or u8
    math::ExprId zero = math::kNone;    // i32; kNone: there is none
    bool less = true;                   // value - zero; else value + zero
};
std::optional<ByteFactor> byte_factor(const math::Program& p, math::ExprId factor, const std::vector<math::VarId>& depth);

// What one word may hold: 2 bf16 factors added up in f32, 4 of 8 bits added up in i32; 1 where the factors are others.
int parts_of(const math::Program& p, const Contraction& c);
// The same for what the processor has an instruction for.
int parts_on(const math::Program& p, const Contraction& c, const target::Machine& m);
// Whether the processor's tiles can do it: bf16, or 8-bit integers whose columns' factor has no zero point (the rows' sums that
// one asks for cannot be had from their tiles at little cost).
bool tiles_on(const math::Program& p, const Contraction& c, const target::Machine& m);
// How many of these products take as long as one multiply-add of f32, at the rates of the instructions.
int speed_of(int parts, bool tiles);
// ", products in pairs (bf16)", for a list of what a schedule does; empty for 1.
std::string_view parts_text(int parts, bool tiles);

}  // namespace opwright::schedule
