// Online reductions: two folds along the same variables, of which each term of the second needs the result of the
// first, recognised by their form, so that one walk along a row takes both:
//
//     m = max[k] f,  s = sum[k] exp(a * (f - m))   softmax, log-softmax, logsumexp; a > 0, exp or exp2
//     t = sum[k] f,  v = sum[k] (f - c)^2          variances; c = t / n, or any value made of t that k does not enter
//
// A walk that sees a part of the row keeps a pair for it, and pairs of disjoint parts combine to that of both:
//
//     (m1, s1), (m2, s2):         m = max(m1, m2), h = max(m, lowest)
//                                 s = s1 * exp(a * (m1 - h)) + s2 * exp(a * (m2 - h))
//     (n1, t1, v1), (n2, t2, v2): n = n1 + n2, t = t1 + t2
//                                 v = v1 + v2 + n1 * (t1/n1 - t/n)^2 + n2 * (t2/n2 - t/n)^2
//
// where (-inf, 0) is the pair of no elements, (f, 1) that of one, n, t and v are the count, the sum and the squared
// deviations from the part's own mean (Youngs and Cramer 1971; Chan, Golub and LeVeque 1979), and `lowest` is the lowest
// finite number: a part of which all elements are -inf then keeps s = 0, which rescaling leaves alone. The results are
// those of two walks, special values included, with these last steps:
//
//     s + (m - m)   for a row with elements (NaN where m is +inf or -inf, as f - m is); 0 for one without
//     v + n * (t/n - c)^2 of every part that has elements, but v itself where it is +inf: the part's sum may have
//                   overflowed with it, and its distance from c, which then is infinite too, would be NaN
//
// A pair of one element each makes no rounding beyond those of two walks.
#pragma once
#include <vector>

#include "math/program.h"

namespace opwright::math {

struct Rescale {
    enum class Kind : uint8_t { Exponentials, Deviations } kind = Kind::Exponentials;
    ExprId first = kNone, second = kNone;  // the Reduce nodes: m or t, and s or v
    uint32_t first_equation = 0, second_equation = 0;
    ExprId value = kNone;        // f, as the term of `first`
    ExprId shift = kNone;        // m or c, as the terms of `second` have it
    Fn function = Fn::Exp;       // Exponentials: Exp or Exp2
    double scale = 1;            // Exponentials: a
    ExprId exponential = kNone;  // Exponentials: exp(a * (f - m)), as its equation has it
};

// The pairs among these equations (positions in p.equations, in order), by their second folds; a first may serve
// several. Equations as a nest of a kernel has them (schedule/kernel.h): no fold inside another, outer variables shared.
// Folded variables may differ from equation to equation; temporaries between the two are looked through, and so are
// conversions that lose nothing. Folds with a condition are left out.
std::vector<Rescale> rescales(const Program& p, const std::vector<uint32_t>& equations);

}  // namespace opwright::math
