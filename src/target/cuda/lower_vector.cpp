// Element-wise groups: each thread computes VECTOR neighbouring elements, which one instruction loads or stores.
#include <algorithm>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;

bool Lowering::vector_kernel(const Group& g, const std::string& name, Stage& stage) {
    VarId lane = kNone;
    for (VarId v : g.grid)
        if (!c_.p.vars[v].extent.is(1)) lane = v;
    if (lane == kNone) return false;
    Packs packs(c_.p, c_.stored);
    for (uint32_t i : g.equations) packs.leave_out(c_.p.equations[i].lhs);  // read in the register that holds it
    for (uint32_t i : g.equations) {
        const Equation& q = c_.p.equations[i];
        if (q.update != Update::Set || q.vars.size() != g.grid.size() || c_.p.expr(q.rhs).kind == ExprKind::Scan ||
            !reduces_in(c_.p, q.rhs).empty())
            return false;
        packs.add(q.rhs, lane, false);
        if (!c_.pointers[q.lhs].empty()) {
            if (!contiguous(c_.p, q.lhs, q.at, lane)) return false;
            packs.add_store(q.lhs);
        }
    }
    const int64_t width = packs.width();
    if (width < 2) return false;

    const std::string count = product_text(c_, g.grid);
    Variant v =
        kernel(name, "__launch_bounds__(256)",
               {fmt::format(
                   "Each thread computes VECTOR neighbouring elements along {}; neighbouring threads take neighbouring "
                   "groups of them, so every access of a warp is one contiguous piece.",
                   c_.p.vars[lane].name)},
               [&] {
                   Point at(c_);
                   const std::string all = product_text(c_, g.grid);
                   grid_stride(c_, "point", all + " / VECTOR", [&] {
                       decompose(at, g.grid, "point", true);
                       const std::string base = at.variable(lane);
                       for (uint32_t i : g.equations) packs.uniform_loads(at, c_.p.equations[i].rhs, lane);
                       std::vector<std::pair<ExprId, std::string>> loaded;
                       for (uint32_t i : g.equations) packs.load(at, c_.p.equations[i].rhs, loaded);
                       for (uint32_t i : g.equations) at.keep_out(c_.p.equations[i].lhs);
                       for (uint32_t i : g.equations) at.hoist(c_.p.equations[i].rhs, lane);
                       std::vector<std::pair<const Equation*, std::string>> results;
                       for (uint32_t i : g.equations) {
                           const Equation& q = c_.p.equations[i];
                           if (c_.pointers[q.lhs].empty()) continue;
                           results.emplace_back(&q, packs.declare(at, q.lhs));
                       }
                       const Point::Scope scope = at.save();
                       const std::string lane_name = c_.names.fresh("v");
                       c_.code.raw("#pragma unroll");
                       c_.code.open("for (int {0} = 0; {0} < VECTOR; ++{0})", lane_name);
                       at.bind(lane, fmt::format("({} + {})", base, lane_name));
                       packs.take(at, loaded, lane_name);
                       size_t r = 0;
                       for (uint32_t i : g.equations) {
                           const Equation& q = c_.p.equations[i];
                           at.count_uses(q.rhs);
                           const TensorInfo& t = c_.p.tensors[q.lhs];
                           Operand value = at.eval(q.rhs);
                           const bool stores = r < results.size() && results[r].first == &q;
                           if (g.equations.size() > 1) {
                               const std::string n = c_.names.fresh(t.name + (stores ? "_value" : ""));
                               c_.code.line("const {} {} = {};", c_type(t.dtype), n, value.text);
                               value = {n};
                               at.hold(q.lhs, value);
                           }
                           if (!stores) continue;
                           c_.code.line("{}.at[{}] = {};", results[r].second, lane_name,
                                        to_memory(value, c_.stored[q.lhs], c_.helpers).text);
                           ++r;
                       }
                       c_.code.close();
                       at.restore(scope);
                       for (auto& [q, pack] : results) packs.store(at, *q, pack);
                   });
               });
    v.blocks = ceil_div(points_of(c_.p, g.grid), 256 * width);
    v.macros = {{"VECTOR", width}};
    v.when = packs.conditions(lane);
    Variant narrow = v;
    narrow.macros = {{"VECTOR", 1}};
    narrow.when.clear();
    narrow.blocks = ceil_div(points_of(c_.p, g.grid), 256);
    out_.macros["VECTOR"] = width;
    stage.about = fmt::format("element-wise: {} neighbouring elements a thread, 256 threads a block", width);
    stage.variants.push_back(std::move(v));
    stage.variants.push_back(std::move(narrow));
    return true;
}

}  // namespace opwright::target::cuda
