// Substitutes the equations of temporaries into their readers, where that saves memory and repeats no work worth naming.
#pragma once
#include "math/program.h"

namespace opwright::math {

struct InlineOptions {
    int max_sites = 8;        // places into which a temporary that costs nothing to evaluate may go
    int max_nodes = 6000;     // expressions that substitution may add
};

// What became of one temporary.
struct InlineRecord {
    std::string tensor;
    bool taken = false;
    std::string reason;       // "read once, by y", "holds a reduction", ...
};

struct Inlined {
    Program program;          // holds only the tensors and variables that are still used
    std::vector<InlineRecord> records;
};

// Candidates are temporaries set by one equation that holds no reduction and no scan; one is substituted when it is
// evaluated at most once an element, or costs nothing (moves elements along affine accesses), or is cheap and read at
// few places. A temporary that nothing reads goes with its equation. Values are unchanged, but that a temporary of a
// 16-bit float type is no longer rounded to it.
Inlined inline_temporaries(const Program& p, const InlineOptions& o = {});

}  // namespace opwright::math
