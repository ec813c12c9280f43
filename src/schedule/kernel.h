// L3: a Program as a sequence of nests. A nest is a group of equations that share outer loops (its grid); the points of
// the grid are independent and run in parallel, the equations at one point run in order.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "math/program.h"

namespace opwright::schedule {

// y = epilogue(sum[k](A(batch,m,k) * B(batch,n,k))): the shape of matrix multiplications and convolutions.
struct Contraction {
    math::ExprId reduce;                      // the Reduce node in the equation's right-hand side
    math::ExprId a, b;                        // the two factors; b owns the innermost index of the output
    std::vector<math::VarId> batch, m, n, k;  // m: in a only, n: in b only, batch: in both (or in b, apart from the
                                              // innermost flat run n), k: reduced; outermost first
    bool lanewise = false;                    // both have the innermost index, n: each lane has factors of its own
};
// The factors are any expressions, indices may be affine. nullopt where the equation is none.
std::optional<Contraction> match_contraction(const math::Program& p, const math::Equation& q);

struct Nest {
    std::vector<uint32_t> equations;         // into Kernel::program
    std::vector<math::VarId> grid;           // outermost first; every equation of the nest has them among its variables
    std::vector<math::TensorId> local;       // temporaries that live within one point of the grid
    std::optional<Contraction> contraction;  // then the nest has that one equation
};

struct Kernel {
    math::Program program;                  // hoisted; equations of one nest share their grid variables
    std::vector<Nest> nests;                // in order
    std::vector<math::TensorId> workspace;  // temporaries that pass from nest to nest
    std::vector<bool> constant;             // by tensor: contents never change (weights, tables)
};

// `constant_inputs` marks inputs of p in order; empty: none. Tensors in `apart` are never read in the nest that writes
// them.
Kernel form_kernel(const math::Program& p, const std::vector<bool>& constant_inputs = {},
                   const std::set<math::TensorId>& apart = {});

// Whether a nest makes one tensor by several overwrites that meet no element twice and read none of it.
bool made_of_pieces(const math::Program& p, const Nest& nest);

// Variables of an update whose iterations may run in any order and side by side: those that place alone in one dim.
std::vector<math::VarId> independent_vars(const math::Program& p, const math::Equation& q);

}  // namespace opwright::schedule
