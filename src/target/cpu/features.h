// What the processor offers to generated code, bounded by a level that the user may lower.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace opwright::target::cpu {

// The x86-64 levels, or Baseline with 128-bit vectors on any other architecture.
enum class Level : uint8_t {
    Baseline,  // x86-64 as it was first: SSE2, no FMA, no gather, no masks
    Avx2,      // with FMA and F16C
    Avx512,    // F, BW, DQ, VL
};
inline constexpr Level kLevels[] = {Level::Baseline, Level::Avx2, Level::Avx512};

std::string_view name(Level l);  // "baseline", "avx2", "avx512"
std::optional<Level> level_from_name(std::string_view s);

struct Features {
    Level level = Level::Baseline;
    std::string cpu;         // LLVM's name of the processor to generate for
    std::string tune;        // LLVM's name of the processor to schedule for
    std::string attributes;  // LLVM's feature list beyond `cpu`, "+a,+b"
    int vector_bytes = 16;   // preferred width
    int registers = 16;      // vector registers
    bool fma = false;        // MulAdd is one instruction
    bool masked = false;     // masked loads and stores of every element type are one instruction
    bool vnni = false;       // u8 x i8 dot products of four
    bool bf16 = false;       // bf16 dot products of two, added up in f32, as fast as multiply-adds of f32
    bool rounds_bf16 = false;  // f32 to bf16 is one instruction
    bool slow_divide = false;  // a vector's division takes as long as eight multiply-adds or more
    int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;  // data caches of one core
    int64_t near_bytes = 1 << 20;  // data that the caches bring as fast as anyone can ask for it ahead
    bool every_line = false;       // one stream is read fastest with every line asked for, not far ahead; else with every second one
    bool amx = false;        // bf16 and int8 tiles

    // Elements of one register; bool counts as its byte.
    int lanes(DType t) const { return vector_bytes / static_cast<int>(size_of(t)); }
    // Identifies the generated code: part of the key of cached objects.
    std::string key() const { return cpu + ";" + tune + ";" + attributes; }
};

// Of this machine, at the highest level that it has and that OPWRIGHT_CPU=baseline|avx2|avx512 allows.
const Features& host_features();
// At a lower level; nothing where the machine lacks it.
std::optional<Features> features_at(Level l);

}  // namespace opwright::target::cpu
