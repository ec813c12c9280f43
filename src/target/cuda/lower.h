// Lowering of nests to kernels. Internal to target/cuda.
#pragma once
#include <functional>
#include <optional>

#include "schedule/kernel.h"
#include "target/cuda/pinned.h"
#include "target/cuda/point.h"
#include "target/cuda/program.h"
#include "target/cuda/split.h"
#include "target/cuda/tiles.h"

namespace opwright::target::cuda {

class Packs;

// A group of equations that run at each point of a grid, one after the other.
struct Group {
    std::vector<uint32_t> equations;
    std::vector<math::VarId> grid;
    const schedule::Contraction* contraction = nullptr;
    std::vector<Condition> when = {};   // all of them, else another group does the work
    size_t nest = SIZE_MAX;             // whose plan it follows
    std::optional<Slices> slices = {};  // then it has no equations
    enum class Partials : uint8_t { None, Rows, Columns } partials = Partials::None;  // what its reductions fold
};

// Writes kernels into one file.
class Lowering {
public:
    Lowering(Context& c, CudaProgram& out, const LowerOptions& options) : c_(c), out_(out), tiles_(options.tiles) {}
    // `plan`: of a person for this group, or null; `made`, where not null, gets the one that is used by default.
    Status group(const Group& g, const schedule::NestPlan* plan, schedule::NestPlan* made);

    // A kernel whose body the function writes; `bounds`: text of __launch_bounds__, or "".
    Variant kernel(const std::string& name, const std::string& bounds, const std::vector<std::string>& about,
                   const std::function<void()>& body);

private:
    // One thread a point; reductions and other variables are loops of that thread.
    Variant point_kernel(const Group& g, const std::string& name);
    // Element-wise groups: VECTOR neighbouring elements a thread, moved together.
    bool vector_kernel(const Group& g, const std::string& name, Stage& stage);
    // Element-wise groups that read along another variable than they write along. True: for large extents alone, what
    // is small needs another kernel.
    bool transpose_kernel(const Group& g, const std::string& name, Stage& stage);
    // THREADS threads share a grid point and fold their parts of its reductions.
    bool row_kernel(const Group& g, const std::string& name, Stage& stage);
    // Partial results of reductions with few results.
    void slices_kernel(const Slices& s, const std::string& name, Stage& stage);
    // Matrix multiplication in tiles.
    bool contraction_kernel(const Group& g, const std::string& name, Stage& stage);

    Context& c_;
    CudaProgram& out_;
    Subject subject(const Group& g) const;
    // Takes note of the plan in use; its grid has no tiles.
    void record(schedule::NestPlan plan);
    // The value, or the default where the plan does not fit, which refusal_ tells.
    template <class T>
    T pinned(Result<T> r, T otherwise) {
        if (r.ok()) return std::move(r).value();
        refusal_ = r.error();
        return otherwise;
    }

    const TileShape* tiles_;
    TileShape pinned_tiles_{};
    const schedule::NestPlan* plan_ = nullptr;
    schedule::NestPlan* made_ = nullptr;
    bool named_ = false;  // a kernel has the operator's name
    std::optional<Diagnostic> refusal_;
};

// Of an element-wise group the variable along which threads take packs; kNone: the group is none.
math::VarId elementwise_lane(const math::Program& p, const Group& g);
// What a thread of an element-wise group does with one pack of VECTOR elements along `lane`, which is bound to the
// first; `loaded`: packs that are there already, by the load.
void vector_body(Point& at, const Group& g, const Packs& packs, math::VarId lane,
                 std::vector<std::pair<math::ExprId, std::string>> loaded);
// The variable of a reduction that threads side by side share: the innermost with contiguous loads; kNone: there is
// none.
math::VarId row_lane(const math::Program& p, math::ExprId reduce);
// Folds what the `threads` threads (text) of a row have in their accumulators, and sets the value of the reduction.
// Needs shared memory of the name `partial`.
void fold_threads(Point& at, math::ExprId reduce, const Point::Accumulator& a, const std::string& threads);
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
