// Lowering of one nest's statements. Internal to target/cpu.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "target/cpu/lower/lower.h"

namespace opwright::target::cpu {

// What the lowering of all nests shares.
struct Context {
    const tile::Program& tile;
    const math::Program& math;
    const Machine& machine;
    loop::Builder& b;
    std::vector<Storage> storage;  // by tensor
    Faults faults;
    Lowered& out;
    std::vector<int64_t> together;  // by nest: rows at a time with others (tile/schedule), or 0
};

// A range of a grid variable that one task covers.
struct Range {
    loop::Expr begin, end;
};

// Where the accesses below `roots` surely stay inside their tensors, while `inner` variables take all their values and
// all others have the point's.
struct Interior {
    std::optional<Range> lanes;  // values of the lane variable for which all that are linear in it do; none: not known,
                                 // or no access can leave
    loop::Expr whole;            // whether those that do not depend on it do; none: not known, or none can leave
};
Interior interior(Context& c, Point& point, math::VarId lane, const std::vector<math::VarId>& inner,
                  std::vector<math::ExprId> roots);

// Whether nothing is read or written at a sum, a quotient or an element of another tensor; of products other code tells.
bool plain_indices(const schedule::Kernel& k);

math::Sym task_count(const tile::Nest& nest, const math::Program& p);
// Calls body once for each task of `tasks`, with the grid decoded: variables of tile 1 are bound in `point`, others have
// their range in `ranges`.
void for_each_task(Context& c, const tile::Nest& nest, Point& point, std::map<math::VarId, Range>& ranges, Range tasks,
                   const std::function<void()>& body);
// The same for a grid whose innermost variable has the tile 1: calls body with the rows that follow each other along it.
void for_each_row(Context& c, const tile::Nest& nest, Point& point, std::map<math::VarId, Range>& ranges,
                  const std::function<void(const Range& rows)>& body);

// Appends the nest's functions, and `stage` behind those that it needs.
void lower_nest(Context& c, size_t nest, Stage stage);
void lower_contraction(Context& c, size_t nest, Stage stage);

// Row-major strides of a shape in elements.
std::vector<math::Sym> dense_strides(const std::vector<math::Sym>& shape);

}  // namespace opwright::target::cpu
