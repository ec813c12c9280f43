// What a schedule needs to know of a processor.
#pragma once
#include <cstdint>

namespace opwright::target {

// Registers of 16 rows of as many words of 32 bits (AMX).
inline constexpr int kTileRows = 16, kTileWords = 16;

struct Machine {
    int vector_bytes = 16;  // of one vector register
    int vector_registers = 16;
    int64_t l1_bytes = 32 << 10;  // data cache of one core
    int64_t l2_bytes = 1 << 20;
    int64_t near_bytes = 1 << 20;  // of data for which nothing is gained by asking ahead
    bool every_line = false;  // one stream is read fastest with every line asked for, not far ahead; else with every second one
    bool bf16_pairs = false;  // dot products of two bf16 added up in f32
    bool tiles = false;       // such registers, and dot products of bf16 and of 8-bit integers on them
    bool byte_fours = false;  // dot products of four u8 by i8 added up in i32
};

}  // namespace opwright::target
