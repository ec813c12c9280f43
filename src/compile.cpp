#include "compile.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "fuse/cleanup.h"
#include "plan_fusion.h"
#include "runtime/thread_pool.h"
#include "target/target.h"
#include "tune/source.h"

namespace opwright {
namespace {

using graph::Graph;

void check_level(const Graph& g, const char* after) {
    std::vector<std::string> problems = graph::verify(g);
    for (const graph::Node& n : g.nodes)
        if (n.kind == graph::NodeKind::Compute)
            for (std::string& s : math::verify(n.program)) problems.push_back(std::move(s));
    if (problems.empty()) return;
    for (const std::string& s : problems) std::fprintf(stderr, "after %s: %s\n", after, s.c_str());
    std::abort();
}

// Runs a pass under its name.
template <class Pass>
Graph stage(const char* name, Graph g, bool check, Pass&& pass) {
    {
        Stage s(name);
        const size_t before = g.nodes.size();
        g = pass(std::move(g));
        s.detail(before == g.nodes.size() ? fmt::format("{} nodes", before) : fmt::format("{} -> {} nodes", before, g.nodes.size()));
    }
    if (check) check_level(g, name);
    return g;
}
}  // namespace

Result<Compiled> compile(Graph g, const CompileOptions& o, runtime::ThreadPool& pool) {
    if (o.winograd.use && (o.execution.engine != runtime::Engine::Cpu || o.execution.target))
        return Diagnostic(fmt::format("Winograd's form of convolutions is for kernels on the cpu, and {} was asked for.",
                                      o.execution.target ? fmt::format("target {}", o.execution.target->name()) : "the reference"),
                          {}, "Leave --winograd (or the option winograd) out: convolutions are then computed as they are declared.");
    if (o.check) check_level(g, "import");
    Compiled r;

    // What no result depends on goes first, so that nothing is worked out for it.
    g = stage("remove dead nodes", std::move(g), o.check, fuse::remove_dead);
    // What depends on constants alone is known now.
    g = stage("fold constants", std::move(g), o.check, fuse::fold_constants);
    g = stage("fold views", std::move(g), o.check, fuse::fold_views);
    g = stage("remove duplicates", std::move(g), o.check, fuse::remove_duplicates);
    g = stage("remove dead nodes", std::move(g), o.check, fuse::remove_dead);
    // Each program by itself, without temporaries and dimensions that need not be there.
    g = stage("normalise", std::move(g), o.check, fuse::normalise);
    // Nodes join the node that reads them.
    if (o.fuse) {
        g = stage("merge rows", std::move(g), o.check, fuse::merge_rows);
        g = stage("fuse", std::move(g), o.check, [&](Graph whole) {
            r.planned = fuse::fuse(std::move(whole), plan_fusion(o, pool));
            r.decisions = std::move(r.planned.decisions);
            return std::move(r.planned.graph);
        });
    } else {  // what it would have done is told all the same
        CompileOptions unmeasured = o;
        unmeasured.fusion.measure_seconds = 0;
        r.planned = fuse::fuse(fuse::merge_rows(g), plan_fusion(unmeasured, pool));
        r.planned.graph = {};
        r.decisions = std::move(r.planned.decisions);
        for (fuse::Decision& d : r.decisions)
            if (d.taken) d.reason = "fusion is switched off", d.taken = false, d.how = fuse::How::Apart;
    }

    // Values between the kernels that are left in the layout that suits them.
    if (o.fuse && o.layouts && o.execution.engine == runtime::Engine::Cpu && !o.execution.target)
        g = stage("choose layouts", std::move(g), o.check, [&](Graph whole) {
            fuse::Laid laid = fuse::choose_layouts(std::move(whole), r.planned.machine, r.planned.sizes);
            r.layouts = std::move(laid.regions);
            return std::move(laid.graph);
        });

    // Convolutions in Winograd's form, where that was asked for and pays.
    if (o.winograd.use) {
        g = stage("choose Winograd", std::move(g), o.check, [&](Graph whole) {
            fuse::Winograd w = fuse::use_winograd(std::move(whole), o.winograd, r.planned.machine, r.planned.sizes);
            r.winograd = std::move(w.choices);
            return std::move(w.graph);
        });
        g = stage("remove duplicates", std::move(g), o.check, fuse::remove_duplicates);  // tiles of one picture
    }

    // Schedules that won when they were measured.
    runtime::ExecutableOptions execution = o.execution;
    if (o.tuned && execution.engine == runtime::Engine::Cpu && execution.cpu.schedule.empty() && !execution.cpu.tuned)
        execution.cpu.tuned = tune::tuned_schedules(pool.size(), r.tuning_problem);
    // Schedule, tile, loop and machine code, kernel by kernel (target/cpu), then what is constant in their inputs.
    auto built = runtime::Executable::build(std::move(g), execution, pool);
    if (!built.ok()) return built.error();
    r.executable = std::move(built).value();
    return r;
}

Graph graph_of(math::Program p) {
    Graph g;
    g.name = p.name;
    graph::Node n;
    const auto value = [&](math::TensorId t) { return g.add_value({p.tensors[t].name, p.tensors[t].dtype, p.tensors[t].shape, {}, {}, graph::kNone}); };
    for (math::TensorId t : p.inputs) n.inputs.push_back(value(t));
    for (math::TensorId t : p.outputs) n.outputs.push_back(value(t));
    g.inputs = n.inputs;
    g.outputs = n.outputs;
    n.sources = {{p.name, p.name}};
    n.program = std::move(p);
    g.add_node(std::move(n));
    return g;
}

}  // namespace opwright
