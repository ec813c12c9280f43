// What the CPU emitter's code reaches: the register tile against the peak of fused multiply-adds measured beside it, math
// functions in nanoseconds an element, and the cost of compiling and loading. `emitter [--json]`; minima of interleaved runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>

#include "bench/register_tile.h"
#include "target/cpu/jit.h"

using namespace opwright;
using namespace opwright::target::cpu;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Timed {
    std::string name;
    std::function<void()> run;
    double work;  // units done by a run
    double best = std::numeric_limits<double>::infinity();
};

// Takes turns, so that a slow moment of the machine meets all of them.
void interleave(std::vector<Timed>& all, double seconds) {
    for (const double end = now() + seconds; now() < end;)
        for (Timed& t : all) {
            const double start = now();
            t.run();
            t.best = std::min(t.best, now() - start);
        }
}

ModuleRef load(const loop::Program& p, const Features& f) { return *load_object(compile_object(p, f)->code); }

loop::Program peak(const Features& f, int chains) {
    using namespace loop;
    Program p;
    Builder b(p);
    const int lanes = f.lanes(DType::F32);
    const auto x = b.param("x", DType::F32, 0);
    b.function("peak", [&] {
        Expr u = b.let("u", b.load(x, b.i64(0), lanes)), v = b.let("v", b.load(x, b.i64(lanes), lanes));
        std::vector<LocalRef> sums;
        for (int i = 0; i < chains; ++i) sums.push_back(b.local("s", b.load(x, b.i64(i), lanes)));
        b.loop("k", b.task_begin(), b.task_end(), 1, [&](Expr) {
            for (LocalRef s : sums) b.set(s, mul_add(b.get(s), u, v));
        });
        for (int i = 0; i < chains; ++i) b.store(x, b.i64(i * lanes), b.get(sums[static_cast<size_t>(i)]));
    });
    return p;
}

loop::Program map(const Features& f, loop::UnaryFn fn) {
    using namespace loop;
    Program p;
    Builder b(p);
    const int lanes = f.lanes(DType::F32);
    const auto x = b.param("x", DType::F32, 0, Access::Read), y = b.param("y", DType::F32, 1, Access::Write);
    b.function("map", [&] {
        b.loop("i", 0, b.symbol("n"), lanes, [&](Expr i) { b.store(y, i, unary(fn, b.load(x, i, lanes))); });
    });
    return p;
}

// Moves of vectors to or from the stack in the assembly of the loop.
int stack_moves(const loop::Program& p, const Features& f) {
    const std::string text = compile_object(p, f, {.want_assembly = true})->assembly;
    int moves = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line(text.data() + at, end - at);
        if (line.find("mov") != line.npos && line.find("(%rsp") != line.npos && line.find("mm") != line.npos) ++moves;
        at = end + 1;
    }
    return moves;
}

}  // namespace

int main(int argc, char** argv) {
    const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
    std::vector<std::string> rows;
    auto report = [&](const std::string& text, const std::string& row) {
        if (!json) fmt::print("{}\n", text);
        rows.push_back(row);
    };
    for (Level level : kLevels) {
        const auto f = features_at(level);
        if (!f) continue;
        const int lanes = f->lanes(DType::F32);
        // ---- register tiles ----
        constexpr int64_t kDepth = 256, kRepeat = 200;
        struct Shape { int mr, nv; };
        std::vector<Shape> shapes{{4, 2}, {6, 2}};
        if (f->registers == 32) shapes = {{14, 2}, {9, 3}, {6, 4}};
        std::vector<float> a(kDepth * 16, 0.5f), b(kDepth * 4 * 16, 0.25f), c(16 * 4 * 16), x(4096, 0.5f);
        int64_t status = 0;
        std::vector<ModuleRef> modules;
        std::vector<Timed> timed;
        const int chains = f->registers == 32 ? 24 : 12;
        modules.push_back(load(peak(*f, chains), *f));
        const Entry top = modules.back()->entry("peak");
        void* px[] = {x.data()};
        timed.push_back({"peak", [&, top] { top.run(px, nullptr, 0, 20000, nullptr, &status); }, 2.0 * 20000 * chains * lanes});
        void* tile_buffers[] = {a.data(), b.data(), c.data()};
        for (const Shape& s : shapes) {
            modules.push_back(load(bench::register_tile(*f, s.mr, s.nv, 4), *f));
            const Entry e = modules.back()->entry("tile");
            timed.push_back({fmt::format("{}x{}", s.mr, s.nv * lanes), [&, e] {
                                 const int64_t depth = kDepth;
                                 e.run(tile_buffers, &depth, 0, kRepeat, nullptr, &status);
                             },
                             2.0 * kDepth * kRepeat * s.mr * s.nv * lanes});
        }
        interleave(timed, 1.0);
        const double ceiling = timed[0].work / timed[0].best * 1e-9;
        report(fmt::format("{}: peak of multiply-adds {:.1f} GFLOP/s, one thread", name(level), ceiling),
               fmt::format(R"({{"level": "{}", "what": "peak", "gflops": {:.2f}}})", name(level), ceiling));
        for (size_t i = 1; i < timed.size(); ++i) {
            const double rate = timed[i].work / timed[i].best * 1e-9;
            const int moves = stack_moves(bench::register_tile(*f, shapes[i - 1].mr, shapes[i - 1].nv, 4), *f);
            report(fmt::format("  register tile {:6}  {:6.1f} GFLOP/s  {:3.0f} % of peak  {} stack moves", timed[i].name, rate,
                               100 * rate / ceiling, moves),
                   fmt::format(R"({{"level": "{}", "what": "tile {}", "gflops": {:.2f}, "of_peak": {:.3f}, "stack_moves": {}}})",
                               name(level), timed[i].name, rate, rate / ceiling, moves));
        }
        // ---- math functions, 4096 elements in the first cache ----
        constexpr int64_t kCount = 4096;
        std::vector<float> in(kCount), out(kCount);
        for (int64_t i = 0; i < kCount; ++i) in[static_cast<size_t>(i)] = 0.001f + 0.9f * static_cast<float>(i) / kCount;
        std::vector<Timed> functions;
        void* map_buffers[] = {in.data(), out.data()};
        for (int k = 0; k < loop::kUnaryFnCount; ++k) {
            const auto fn = static_cast<loop::UnaryFn>(k);
            if (fn == loop::UnaryFn::Not || fn == loop::UnaryFn::IsNan || fn == loop::UnaryFn::IsInf) continue;
            modules.push_back(load(map(*f, fn), *f));
            const Entry e = modules.back()->entry("map");
            functions.push_back({std::string(loop::name(fn)), [&, e] {
                                     const int64_t n = kCount;
                                     e.run(map_buffers, &n, 0, 1, nullptr, &status);
                                 },
                                 kCount});
        }
        interleave(functions, 1.0);
        std::string line = "  ns an element:";
        for (const Timed& t : functions) {
            const double ns = t.best / t.work * 1e9;
            if (line.size() > 88) report(line, ""), line = "   ";
            line += fmt::format(" {} {:.2f}", t.name, ns);
            rows.push_back(fmt::format(R"({{"level": "{}", "what": "{}", "ns": {:.3f}}})", name(level), t.name, ns));
        }
        report(line, "");
    }
    // ---- compiling and loading ----
    const Features& f = host_features();
    std::vector<Timed> costs;
    std::string object;
    costs.push_back({"compile a map of exp", [&] { object = compile_object(map(f, loop::UnaryFn::Exp), f)->code; }, 1});
    costs.push_back({"load it", [&] { (void)(*load_object(object))->entry("map"); }, 1});
    costs.push_back({"compile a register tile", [&] { (void)compile_object(bench::register_tile(f, 6, 2, 4), f); }, 1});
    interleave(costs, 1.0);
    for (const Timed& t : costs)
        report(fmt::format("{}: {:.2f} ms", t.name, t.best * 1e3), fmt::format(R"({{"what": "{}", "ms": {:.3f}}})", t.name, t.best * 1e3));
    if (json) {
        rows.erase(std::remove(rows.begin(), rows.end(), ""), rows.end());
        fmt::print("[{}]\n", fmt::join(rows, ",\n "));
    }
}
