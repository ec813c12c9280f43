// Compares what a kernel delivered with the reference, element by element, within the reference's own error bound.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "derive/reference.h"

namespace opwright::verify {

// In order of gravity; a comparison has the gravest of its elements'.
enum class Verdict : uint8_t {
    Equal,             // the reference rounded to the element type, to the bit (any NaN is as good as another)
    WithinTolerance,   // closer to the reference than its bound
    PolicyDifference,  // a subnormal result or factor flushed to zero: legal where the target says so
    IllConditioned,    // the reference has no bound here: the result says nothing, right or wrong
    Wrong,
};
std::string_view name(Verdict v);  // "equal", "within tolerance", "policy difference", "ill-conditioned", "wrong"

struct BadElement {
    int64_t position = 0;  // row-major
    Shape index;
    double expected = 0, got = 0, bound = 0;
    std::string expected_text, got_text;  // exact, also for 64-bit integers
};

struct Comparison {
    Verdict verdict = Verdict::Equal;
    int64_t elements = 0, equal = 0, flushed = 0, ill_conditioned = 0, wrong = 0;
    double max_abs = 0, max_rel = 0, max_ulp = 0;  // over elements with finite values and bounds
    double max_share = 0;                          // largest error / bound
    Shape where;                                   // of max_ulp
    std::optional<BadElement> first_bad;           // the first wrong element
    std::vector<int64_t> wrong_at;                 // row-major positions of the wrong ones, 65,536 at most
    std::string note;                              // set where dtype or shape differ, which no element explains

    bool passed() const { return verdict != Verdict::Wrong; }
    // "wrong: 3 of 12 elements, the first at [0, 5]: expected 1.5, got 2 (allowed 1e-7)".
    std::string str() const;
};

// `got` has the dtype that the program declares for this output. A reference with bound 0 must be met exactly, the sign
// of a zero included; NaN is met by NaN, an infinity by the same one; where the value may overflow within its bound,
// the infinity of that sign will do too. `legal` are references under other policies that a target may have: an element
// that is right by one of them alone is a policy difference.
Comparison compare(const derive::ReferenceOutput& reference, const Tensor& got, DType declared,
                   std::span<const derive::ReferenceOutput* const> legal = {});

// What one run is compared with: the reference, and the references under which factors of sums of products count as zero
// where they are subnormal (docs/numerics.md), which are made where the plain one does not explain a result. A kernel
// flushes the one factor, the other or both, according to which of them it packs.
class References {
public:
    // `p` must outlive this. Errors: those of derive::reference.
    static Result<References> make(const math::Program& p, std::vector<Tensor> inputs, math::SymValues sizes,
                                   int64_t max_operations = derive::ReferenceOptions().max_operations);
    const std::vector<derive::ReferenceOutput>& plain() const { return plain_; }
    Comparison compare(size_t output, const Tensor& got);

private:
    const math::Program* p_ = nullptr;
    std::vector<Tensor> inputs_;
    math::SymValues sizes_;
    int64_t max_operations_ = 0;
    std::vector<derive::ReferenceOutput> plain_;
    std::optional<std::vector<std::vector<derive::ReferenceOutput>>> flushed_;
};

// Row-major position as a multi-index.
Shape unravel(int64_t position, const Shape& shape);

}  // namespace opwright::verify
