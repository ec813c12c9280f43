// Compilation grows with the size of a model, not with its square or worse: measures that are the same on every
// machine, at two sizes. Seconds are in docs/performance.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compile.h"
#include "graph_model_builder.h"
#include "lang/library.h"
#include "runtime/thread_pool.h"

namespace opwright {
namespace {
using graph::onnx::ModelBuilder;

// What compilation leaves: kernels, expressions of their Programs, and lines of the levels below.
struct Extent {
    double kernels = 0, expressions = 0, tile = 0, loop = 0, llvm = 0;
};

double lines(const std::string& text) { return static_cast<double>(std::count(text.begin(), text.end(), '\n')); }

Extent extent_of(graph::Graph g) {
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.execution.keep_text = true;
    o.execution.cpu.cache = false;
    const auto c = compile(std::move(g), o, pool);
    EXPECT_TRUE(c.ok()) << c.error().message;
    Extent e;
    const graph::Graph& compiled = c->executable->graph();
    for (graph::NodeId n = 0; n < compiled.nodes.size(); ++n) {
        const target::cpu::Kernel* k = c->executable->kernel(n);
        if (!k) continue;
        e.kernels += 1;
        e.expressions += static_cast<double>(compiled.nodes[n].program.expr_count());
        e.tile += lines(k->text("tile"));
        e.loop += lines(k->text("loop"));
        e.llvm += lines(k->text("llvm"));
    }
    EXPECT_GT(e.llvm, e.loop);
    EXPECT_GT(e.loop, 0);
    return e;
}

// Four times as much gives about four times as much; square growth would give sixteen.
void expect_linear(const std::function<graph::Graph(int)>& make, int size) {
    const Extent small = extent_of(make(size / 4)), large = extent_of(make(size));
    const auto expect = [](const char* what, double a, double b) {
        EXPECT_LE(b, 5 * a) << what << ": " << a << " grow to " << b;
    };
    expect("kernels", small.kernels, large.kernels);
    expect("expressions", small.expressions, large.expressions);
    expect("lines of tile programs", small.tile, large.tile);
    expect("lines of loops", small.loop, large.loop);
    expect("lines of LLVM", small.llvm, large.llvm);
}

graph::Graph imported(const ModelBuilder& b) {
    auto r = b.import_with({.max_nodes = 100'000});
    EXPECT_TRUE(std::holds_alternative<graph::Graph>(r));
    return std::get<graph::Graph>(std::move(r));
}

// n operators, each on the one before; no two stretches of it are alike.
graph::Graph chain(int n) {
    ModelBuilder b;
    b.input("x", DType::F32, {"n"}).output("v" + std::to_string(n - 1));
    const char* ops[] = {"Relu", "Neg", "Abs", "Sqrt", "Floor", "Sign", "Ceil"};
    for (int i = 0; i < n; ++i)
        b.node(ops[(i * i / 3 + i / 5) % 7], {i ? "v" + std::to_string(i - 1) : "x"}, {"v" + std::to_string(i)});
    return imported(b);
}
TEST(CompileGrowth, AChainOfAThousandOperators) { expect_linear(chain, 1000); }

// y[i+1] = y[i] + y[i-1]: as a tree it has more nodes than any memory holds. `latest_first` is the order of the
// operands.
graph::Graph fibonacci(int n, bool latest_first) {
    ModelBuilder b;
    b.input("a", DType::F32, {"n"}).input("b", DType::F32, {"n"}).output("v" + std::to_string(n - 1));
    std::string older = "a", latest = "b";
    for (int i = 0; i < n; ++i) {
        const std::string next = "v" + std::to_string(i);
        latest_first ? b.node("Add", {latest, older}, {next}) : b.node("Add", {older, latest}, {next});
        older = std::exchange(latest, next);
    }
    return imported(b);
}
TEST(CompileGrowth, FibonaccisGraph) {
    expect_linear([](int n) { return fibonacci(n, true); }, 800);
    expect_linear([](int n) { return fibonacci(n, false); }, 800);
}

// The same within one declaration, where substitution of temporaries could double at every step.
graph::Graph declared(const std::function<std::string(int)>& equation, int n) {
    std::string text = "op long(a[i], b[i]) -> y[i]:\n";
    for (int i = 0; i < n; ++i)
        text += "    " + (i + 1 < n ? "v" + std::to_string(i) : "y") + "[i] = " + equation(i) + "\n";
    lang::Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"long.op", text})).ok());
    const auto p = library.elaborate_symbolic("long");
    EXPECT_TRUE(p.ok()) << p.error().message;
    return graph_of(*p);
}
std::string name(int i) { return i == -2 ? "a[i]" : i == -1 ? "b[i]" : "v" + std::to_string(i) + "[i]"; }

TEST(CompileGrowth, ADeclarationOfManyEquations) {
    const auto equation = [](int i) {
        const char* before[] = {"max(", "-(", "abs(", "sqrt(", "floor("};
        return before[(i * i / 3 + i / 4) % 5] + name(i - 1) + ((i * i / 3 + i / 4) % 5 ? ")" : ", 0)");
    };
    expect_linear([&](int n) { return declared(equation, n); }, 1000);
}
TEST(CompileGrowth, ADeclarationOfFibonacci) {
    expect_linear([](int n) { return declared([](int i) { return name(i - 1) + " + " + name(i - 2); }, n); }, 200);
    expect_linear([](int n) { return declared([](int i) { return name(i - 2) + " + " + name(i - 1); }, n); }, 200);
}

}  // namespace
}  // namespace opwright
