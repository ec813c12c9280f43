// Facts about expressions and accesses that fusion decides by.
#pragma once
#include "math/program.h"

namespace opwright::math {

// Scalar operations of one evaluation of an expression, by class; index arithmetic, loads and casts count nothing.
struct Work {
    int simple = 0, divide = 0, special = 0, loads = 0;
    bool reduces = false, scans = false;
    bool all_affine = true;      // every load's indices are affine in the index variables
    bool free() const { return simple + divide + special == 0 && !reduces && !scans; }
    bool cheap() const { return simple <= 4 && divide + special == 0 && !reduces && !scans; }
};
Work work(const Program& p, ExprId e);

bool is_unit(const Program& p, VarId v);                        // extent known to be 1

// Whether an access at these indices, evaluated over all of `domain`, meets one element more than once: because a variable
// of the domain is missing, or because indices overlap (x[p + i]). Conservative: true where that is not provable.
bool repeats(const Program& p, const std::vector<ExprId>& at, const std::vector<VarId>& domain);

// Whether `at` reads a tensor of this shape whole and in the order of `domain`: its non-unit dims are indexed by the
// non-unit variables of the domain, in order and each over the dim's whole extent.
bool identity(const Program& p, const std::vector<ExprId>& at, const std::vector<Sym>& shape,
              const std::vector<VarId>& domain);

// One read of a tensor: a Load or an Inside, with the reduction variables around it.
struct Read {
    ExprId expr = kNone;
    std::vector<VarId> reduced;
};
// By tensor: whether an equation reads an element of it or asks whether one exists.
std::vector<bool> mentioned(const Program& p);
// Every read of a tensor in e, index expressions included; one that occurs under different reductions is listed for each.
std::vector<Read> reads_with_context(const Program& p, ExprId e);

}  // namespace opwright::math
