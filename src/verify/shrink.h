// The smallest case that still fails: extents, layouts and values made smaller and simpler one at a time.
#pragma once
#include "verify/check.h"

namespace opwright::verify {

struct ShrinkOptions {
    int runs = 800;  // of the subject and the reference
    double seconds = 20;
};

struct Shrunk {
    Failure failure;
    int runs = 0;
    bool finished = false;  // false: the budget ended first, and smaller cases may fail too
};

// A case fails as `f` does where it has the same outcome. Each extent becomes the smallest one that fails with the
// others as they are; dense inputs are preferred; values become 0 or 1 where they may, few-digit numbers where not.
// Ranges of values hold.
Shrunk shrink(const Failure& f, const ShrinkOptions& o = {});

}  // namespace opwright::verify
