// Checks of an operator that need no reference: ways of running it that must agree with each other.
#pragma once
#include <string>
#include <vector>

#include "lang/library.h"
#include "target/cpu/cpu.h"
#include "verify/check.h"

namespace opwright::verify {

struct CrossLine {
    std::string name;  // "threads", "fusion", "cache", "schedules", "vector units", "target c"
    bool run = true;   // false: `text` says why not
    bool passed = true;
    std::string text;  // what was compared, and how they agree or where they do not
};
struct CrossOptions {
    target::cpu::Options cpu;
    size_t sizes = 5;  // combinations of extents
    int64_t max_work = int64_t{1} << 16;
    size_t schedules = 60;  // of the tuning space, at most
    std::vector<std::string> targets = {"c", "cuda", "ascend", "triton"};
};

// On the operator's first example with open extents. Two results agree where they are equal to the bit, or where both
// lie within the reference's bound, which the line tells apart. Errors: those of the declaration.
Result<std::vector<CrossLine>> cross_check(const lang::Library& library, const std::string& op,
                                           const CrossOptions& o = {});

// Schedules that differ from one that targets print as JSON in one field: lanes, unrolling, the index along lanes,
// tiles, panels. Some may be illegal.
std::vector<std::string> schedule_variants(const std::string& json, size_t most);

}  // namespace opwright::verify
