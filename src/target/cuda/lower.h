// Lowering of nests to kernels. Internal to target/cuda.
#pragma once
#include <functional>

#include "schedule/kernel.h"
#include "target/cuda/point.h"
#include "target/cuda/program.h"
#include "target/cuda/tiles.h"

namespace opwright::target::cuda {

// A group of equations that run at each point of a grid, one after the other.
struct Group {
    std::vector<uint32_t> equations;
    std::vector<math::VarId> grid;
    const schedule::Contraction* contraction = nullptr;
};

// Writes kernels into one file.
class Lowering {
public:
    // `tiles`: for contractions on tensor cores; null: chosen by the size of the result.
    Lowering(Context& c, CudaProgram& out, const TileShape* tiles) : c_(c), out_(out), tiles_(tiles) {}
    void group(const Group& g);

    // A kernel whose body the function writes; `bounds`: text of __launch_bounds__, or "".
    Variant kernel(const std::string& name, const std::string& bounds, const std::vector<std::string>& about,
                   const std::function<void()>& body);

private:
    // One thread a point; reductions and other variables are loops of that thread.
    Variant point_kernel(const Group& g, const std::string& name);
    // Element-wise groups: VECTOR neighbouring elements a thread, moved together.
    bool vector_kernel(const Group& g, const std::string& name, Stage& stage);
    // THREADS threads share a grid point and fold their parts of its reductions.
    bool row_kernel(const Group& g, const std::string& name, Stage& stage);
    // Matrix multiplication in tiles.
    bool contraction_kernel(const Group& g, const std::string& name, Stage& stage);

    Context& c_;
    CudaProgram& out_;
    const TileShape* tiles_;
};

// What kernels call their own variables: no parameter has these names.
const std::vector<std::string>& local_names();
// Opens the grid-stride loop over `count` (text) and calls `body` with the name of the position.
void grid_stride(Context& c, const std::string& name, const std::string& count, const std::function<void()>& body);
// Takes a flat position apart: binds all of `vars`, outermost first; the last may be counted in packs of VECTOR.
void decompose(Point& at, const std::vector<math::VarId>& vars, const std::string& position, bool packs);
math::Sym points_of(const math::Program& p, const std::vector<math::VarId>& vars);
std::string product_text(Context& c, const std::vector<math::VarId>& vars);

// A load or store whose elements along `v` lie side by side: v alone indexes the last dim and no other.
bool contiguous(const math::Program& p, math::TensorId t, const std::vector<math::ExprId>& at, math::VarId v);
bool mentions(const math::Program& p, math::ExprId e, math::VarId v);
// Whether later equations of the group may find the equation's value in a register: it has one a point of the grid.
bool keeps(const Group& g, const math::Equation& q);
// Emits the equation's value (all its reductions are known or serial) and stores it; with `keep`, also holds it.
void finish(Point& at, const math::Equation& q, bool keep, bool atomic);

}  // namespace opwright::target::cuda
