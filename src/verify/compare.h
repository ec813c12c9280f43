// Compares what a kernel delivered with the reference, element by element, within the reference's own error bound.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

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
    std::string note;                              // set where dtype or shape differ, which no element explains

    bool passed() const { return verdict != Verdict::Wrong; }
    // "wrong: 3 of 12 elements, the first at [0, 5]: expected 1.5, got 2 (allowed 1e-7)".
    std::string str() const;
};

// `got` has the dtype that the program declares for this output. A reference with bound 0 must be met exactly, the sign
// of a zero included; NaN is met by NaN, an infinity by the same one; where the value may overflow within its bound,
// the infinity of that sign will do too. `flushed`, where given, is the reference that lets subnormal factors be
// flushed: an element that is right by it alone is a policy difference.
Comparison compare(const derive::ReferenceOutput& reference, const Tensor& got, DType declared,
                   const derive::ReferenceOutput* flushed = nullptr);

// Row-major position as a multi-index.
Shape unravel(int64_t position, const Shape& shape);

}  // namespace opwright::verify
