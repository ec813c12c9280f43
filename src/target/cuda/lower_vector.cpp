// Element-wise groups: each thread computes VECTOR neighbouring elements, which one instruction loads or stores.
#include <algorithm>

#include "target/cuda/lower.h"
#include "target/cuda/packs.h"

namespace opwright::target::cuda {
using namespace math;

VarId elementwise_lane(const Program& p, const Group& g) {
    VarId lane = kNone;
    for (VarId v : g.grid)
        if (!p.vars[v].extent.is(1)) lane = v;
    for (uint32_t i : g.equations) {
        const Equation& q = p.equations[i];
        if (q.update != Update::Set || q.vars.size() != g.grid.size() || p.expr(q.rhs).kind == ExprKind::Scan ||
            !reduces_in(p, q.rhs).empty())
            return kNone;
    }
    return g.contraction ? kNone : lane;
}

void vector_body(Point& at, const Group& g, const Packs& packs, VarId lane,
                 std::vector<std::pair<ExprId, std::string>> loaded) {
    Context& c = at.context();
    const std::string base = at.variable(lane);
    for (uint32_t i : g.equations) packs.uniform_loads(at, c.p.equations[i].rhs, lane);
    for (uint32_t i : g.equations) packs.load(at, c.p.equations[i].rhs, loaded);
    for (uint32_t i : g.equations) at.keep_out(c.p.equations[i].lhs);
    for (uint32_t i : g.equations) at.hoist(c.p.equations[i].rhs, lane);
    if (g.equations.size() == 1) {  // a copy: the pack itself
        const Equation& q = c.p.equations[g.equations[0]];
        const auto pack = std::find_if(loaded.begin(), loaded.end(), [&](auto& l) { return l.first == q.rhs; });
        if (pack != loaded.end() && !c.pointers[q.lhs].empty() && c.stored[q.lhs] == c.stored[c.p.expr(q.rhs).ref])
            return packs.store(at, q, pack->second);
    }
    std::vector<std::pair<const Equation*, std::string>> results;
    for (uint32_t i : g.equations) {
        const Equation& q = c.p.equations[i];
        if (c.pointers[q.lhs].empty()) continue;
        results.emplace_back(&q, packs.declare(at, q.lhs));
    }
    const Point::Scope scope = at.save();
    const std::string lane_name = c.names.fresh("v");
    c.code.raw("#pragma unroll");
    c.code.open("for (int {0} = 0; {0} < VECTOR; ++{0})", lane_name);
    at.bind(lane, fmt::format("({} + {})", base, lane_name));
    packs.take(at, loaded, lane_name);
    size_t r = 0;
    for (uint32_t i : g.equations) {
        const Equation& q = c.p.equations[i];
        at.count_uses(q.rhs);
        const TensorInfo& t = c.p.tensors[q.lhs];
        Operand value = at.eval(q.rhs);
        const bool stores = r < results.size() && results[r].first == &q;
        if (g.equations.size() > 1) {
            const std::string n = c.names.fresh(t.name + (stores ? "_value" : ""));
            c.code.line("const {} {} = {};", c_type(t.dtype), n, value.text);
            value = {n};
            at.hold(q.lhs, value);
        }
        if (!stores) continue;
        c.code.line("{}.at[{}] = {};", results[r].second, lane_name, to_memory(value, c.stored[q.lhs], c.helpers).text);
        ++r;
    }
    c.code.close();
    at.restore(scope);
    for (auto& [q, pack] : results) packs.store(at, *q, pack);
}

namespace {
// Tensors in memory of which a group reads one element at each point, in the order of its grid.
std::vector<TensorId> read_in_order(const Context& c, const Group& g) {
    std::vector<TensorId> r;
    const auto is_new = [&](TensorId t) {
        return c.p.tensors[t].role != Role::Constant && std::find(r.begin(), r.end(), t) == r.end() &&
               std::none_of(g.equations.begin(), g.equations.end(),
                            [&](uint32_t i) { return c.p.equations[i].lhs == t; });
    };
    const auto in_order = [&](const Expr& load) {
        const TensorInfo& t = c.p.tensors[load.ref];
        size_t next = 0;
        for (size_t d = 0; d < t.shape.size(); ++d) {
            if (t.shape[d].is(1)) continue;
            while (next < g.grid.size() && c.p.vars[g.grid[next]].extent.is(1)) ++next;
            const auto at = affine(c.p, load.args[d]);
            if (next == g.grid.size() || !at || !at->is_plain_var() || at->terms[0].first != g.grid[next]) return false;
            if (!(t.shape[d] == c.p.vars[g.grid[next++]].extent)) return false;
        }
        return points_of(c.p, g.grid) == product(t.shape);
    };
    for (uint32_t i : g.equations)
        for (ExprId l : loads_in(c.p, c.p.equations[i].rhs, false)) {
            const Expr& x = c.p.expr(l);
            if (is_new(x.ref) && in_order(x)) r.push_back(x.ref);
        }
    return r;
}
}  // namespace

bool Lowering::vector_kernel(const Group& g, const std::string& name, Stage& stage) {
    const VarId lane = elementwise_lane(c_.p, g);
    if (lane == kNone) return false;
    Packs packs(c_.p, c_.stored);
    for (uint32_t i : g.equations) packs.leave_out(c_.p.equations[i].lhs);  // read in the register that holds it
    for (uint32_t i : g.equations) {
        const Equation& q = c_.p.equations[i];
        packs.add(q.rhs, lane, false);
        if (!c_.pointers[q.lhs].empty()) {
            if (!contiguous(c_.p, q.lhs, q.at, lane)) return false;
            packs.add_store(q.lhs);
        }
    }
    const int64_t width = packs.width();
    if (width < 2) return false;
    VectorShape shape{512, width};  // by measurement on an H200
    if (plan_) shape = pinned(pinned_vector(*plan_, subject(g), lane, width), shape);
    record(plan_of(shape, lane));

    Variant v =
        kernel(name, fmt::format("__launch_bounds__({})", shape.threads),
               {fmt::format(
                   "Each thread computes VECTOR neighbouring elements along {}; neighbouring threads take neighbouring "
                   "groups of them, so every access of a warp is one contiguous piece.",
                   c_.p.vars[lane].name)},
               [&] {
                   c_.awaits = true;
                   Point at(c_);
                   const std::string all = product_text(c_, g.grid);
                   std::string inputs;
                   for (TensorId t : read_in_order(c_, g)) inputs += ", " + c_.pointers[t];
                   c_.code.line("{}<VECTOR>({}{});", c_.helpers.use("await_earlier"), all, inputs);
                   grid_stride(c_, "point", all + " / VECTOR", [&] {
                       decompose(at, g.grid, "point", true);
                       vector_body(at, g, packs, lane, {});
                   });
               });
    v.threads = shape.threads;
    v.blocks = ceil_div(points_of(c_.p, g.grid), shape.threads * shape.vector);
    v.macros = {{"VECTOR", shape.vector}};
    if (shape.vector > 1) v.when = packs.conditions(lane);
    Variant narrow = v;
    narrow.macros = {{"VECTOR", 1}};
    narrow.when.clear();
    narrow.blocks = ceil_div(points_of(c_.p, g.grid), shape.threads);
    out_.macros["VECTOR"] = shape.vector;
    stage.lane = lane;
    stage.pack = shape.vector;
    stage.about =
        fmt::format("element-wise: {} neighbouring elements a thread, {} threads a block", shape.vector, shape.threads);
    stage.variants.push_back(std::move(v));
    stage.variants.push_back(std::move(narrow));
    return true;
}

}  // namespace opwright::target::cuda
