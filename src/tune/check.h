// Whether a candidate computes what the untuned kernel computes: before it may win.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "math/program.h"
#include "verify/compare.h"

namespace opwright::tune {

// The program with `points` elements of each output in place of all, at the first, the last and random positions: its
// outputs have one dim, `positions[o]` tells which elements of the output o they are (row-major; empty: all of it, as
// it is). Values are those of `p`. Only outputs that one equation sets at plain indices can be sampled.
struct Sampled {
    math::Program program;
    std::vector<std::vector<int64_t>> positions;
};
Sampled sample(const math::Program& p, const math::SymValues& sizes, int64_t points, uint64_t seed);

class Checker {
public:
    // `untuned` are the outputs of the untuned kernel on `inputs`. All must outlive the checker.
    Checker(const math::Program& p, const math::SymValues& sizes, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& untuned)
        : p_(p), sizes_(sizes), inputs_(inputs), untuned_(untuned) {}

    // Empty where `outputs` equal the untuned ones to the bit; or where sampled elements lie within the reference's bound
    // and no element is further from the untuned one than twice what that allows. Otherwise why not.
    std::string check(const std::vector<Tensor>& outputs);

private:
    Status make_reference();
    const math::Program& p_;
    const math::SymValues& sizes_;
    const std::vector<Tensor>&inputs_, &untuned_;
    std::optional<Status> made_;
    Sampled sampled_;
    std::vector<derive::ReferenceOutput> reference_;
};

}  // namespace opwright::tune
