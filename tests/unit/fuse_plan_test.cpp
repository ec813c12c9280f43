// What the planner makes of small graphs: which kernels, how they came about, and why others did not.
#include <gmock/gmock.h>

#include <ctime>
#include <map>
#include <random>

#include "fuse_draft.h"
#include "plan_fusion.h"

namespace opwright::fuse {
namespace {
using testing::HasSubstr;

// A machine whose figures are round: 10 GB/s from memory, 1 us to start, 8 units.
Machine round_machine(int units = 8) {
    Machine m = typical_cpu(units, 32, 16);
    m.launch = 1e-6;
    return m;
}

struct Case {
    const char* name;
    std::function<ValueId(Draft&)> make;
    size_t kernels;
    std::map<std::string, std::string> refused;   // producer -> part of the reason
    std::map<std::string, How> taken;             // producer -> how
};

Fused planned(Draft& d, const Options& o = {}) { return fuse(normalise(remove_dead(d.g)), o); }

std::vector<Case> cases() {
    const Sym m = 64, n = 512, k = 96;
    return {
        {"softmax by parts",
         [=](Draft& d) { return d.softmax_by_parts("s", d.in("x", {m, n})); },
         1,
         {},
         {{"s_max", How::Rows}, {"s_sum", How::Rows}, {"s_sub", How::Substituted}}},
        {"layer norm by parts",
         [=](Draft& d) { return d.layer_norm_by_parts("l", d.in("x", {m, n}), 512); },
         1,
         {},
         {{"l_sqrt", How::Rows}, {"l_sub", How::Repeated}}},
        {"product, softmax, product",
         [=](Draft& d) {
             const ValueId q = d.in("q", {m, k}), t = d.in("t", {k, n}), v = d.in("v", {n, k});
             const ValueId s = d.with_number("scale", Fn::Mul, d.matmul("scores", q, t), 0.125);
             return d.matmul("context", d.softmax_by_parts("s", d.binary("mask", Fn::Add, s, d.in("bias", {m, n}))), v);
         },
         3,
         {{"mask", "a product is computed in tiles"}, {"s_div", "it is a product's factor, and only what moves elements is computed while those are packed"}},
         {{"scores", How::Epilogue}, {"scale", How::Substituted}}},
        {"a residual that a norm reads too",
         [=](Draft& d) {
             const ValueId x = d.in("x", {m, n}), h = d.binary("h", Fn::Add, x, d.in("a", {m, n}));
             return d.binary("out", Fn::Add, h, d.layer_norm_by_parts("l", h, 512));
         },
         1,
         {},
         {{"h", How::Rows}}},
        {"a number for all rows",
         // One sum over everything runs on one unit; the map before it on all of them.
         [=](Draft& d) {
             const ValueId x = d.in("x", {1, 1 << 20}), e = d.unary("e", Fn::Tanh, x);
             return d.row_sum("s", e);
         },
         2,
         {{"e", "predicted slower: as one 1 of 8 units have work, and 8 for the producer alone"}},
         {}},
        {"a cheap map for two products",
         [=](Draft& d) {
             const ValueId x = d.in("x", {k, m}), t = d.transpose("t", x);
             const ValueId a = d.matmul("a", t, d.in("u", {k, n})), b = d.matmul("b", t, d.in("w", {k, n}));
             return d.binary("sum", Fn::Add, a, b);
         },
         2,
         {{"a", "sum reduces already"}},
         {{"t", How::Repeated}, {"b", How::Epilogue}}},
    };
}

TEST(FusePlan, ATableOfGraphs) {
    for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        Draft d;
        d.g.outputs = {c.make(d)};
        Options o;
        o.machine = round_machine();
        const Fused f = planned(d, o);
        ASSERT_TRUE(graph::verify(f.graph).empty()) << graph::verify(f.graph).front();
        std::string decisions;
        for (const Decision& q : f.decisions) decisions += q.producer + " -> " + q.consumer + ": " + q.reason + "\n";
        EXPECT_EQ(f.graph.nodes.size(), c.kernels) << graph::print(f.graph) << decisions;
        for (const auto& [producer, reason] : c.refused) EXPECT_THAT(refusal(f, producer), HasSubstr(reason)) << producer << "\n" << decisions;
        for (const auto& [producer, how] : c.taken) {
            bool found = false;
            for (const Decision& q : f.decisions)
                if (q.producer == producer && q.taken) {
                    found = true;
                    EXPECT_EQ(name(q.how), name(how)) << producer;
                }
            EXPECT_TRUE(found) << producer << "\n" << decisions;
        }
    }
}

// Each result is weighed with the reader alone; once the first has joined, the second must meet what the reader has become.
TEST(FusePlan, TwoResultsBehindViewsForOneReader) {
    Draft d;
    const ValueId x = d.in("x", {4, 96}), p = d.in("p", {4, 96}), q = d.in("q", {4, 96});
    const ValueId a = d.view("av", d.row_sum("a", p), {4, 1});
    const ValueId b = d.view("bv", d.row_reduce("b", math::ReduceOp::Max, q), {4, 1});
    d.g.outputs = {d.with_two_columns("out", x, a, b)};
    const Fused f = expect_same(d.g, {counted({4, 96}), counted({4, 96}), counted({4, 96})});
    EXPECT_LT(f.graph.nodes.size(), 5u) << graph::print(f.graph);
}

TEST(FusePlan, NothingIsTakenThatIsPredictedSlower) {
    for (const Case& c : cases())
        for (int units : {1, 64}) {
            Draft d;
            d.g.outputs = {c.make(d)};
            Options o;
            o.machine = round_machine(units);
            for (const Decision& q : planned(d, o).decisions) {
                if (!q.taken) continue;
                EXPECT_LE(q.predicted_after, 1.02 * q.predicted_before) << c.name << ": " << q.producer << " -> " << q.consumer << "\n" << q.account;
                EXPECT_GT(q.predicted_before, 0) << c.name << ": " << q.producer;
                EXPECT_THAT(q.account, HasSubstr("as one: ")) << q.producer;
            }
        }
}

TEST(FusePlan, SizesThatNobodyGaveAreStated) {
    Draft d;
    d.g.outputs = {d.softmax_by_parts("s", d.in("x", {kM, kN}))};
    Options o;
    o.sizes = {{"n", 1000}};
    const Fused f = planned(d, o);
    EXPECT_EQ(f.sizes.at("m"), 1);
    EXPECT_EQ(f.sizes.at("n"), 1000);
    EXPECT_EQ(f.assumed, std::vector<std::string>{"m"});
    EXPECT_THAT(f.machine.origin, HasSubstr("typical figures"));
}

TEST(FusePlan, ATargetMayRefuseWhatThePlannerWants) {
    Draft d;
    d.g.outputs = {d.softmax_by_parts("s", d.in("x", {64, 512}))};
    Options o;
    o.refuses = [](const Program& p) { return p.equations.size() > 1 ? std::string("no memory for rows") : std::string(); };
    const Fused f = planned(d, o);
    EXPECT_GT(f.graph.nodes.size(), 1u);
    for (const graph::Node& n : f.graph.nodes) EXPECT_EQ(n.program.equations.size(), 1u) << n.program.print();
    EXPECT_EQ(refusal(f, "s_max"), "the target has no kernel for both: no memory for rows");
}

TEST(FusePlan, ACloseCallIsMeasuredWithinItsBudget) {
    Draft d;
    const ValueId x = d.in("x", {64, 1 << 16}), e = d.unary("e", Fn::Exp, x);
    d.g.outputs = {e, d.unary("a", Fn::Abs, e)};
    Options o;
    o.machine = round_machine();
    o.machine->special = 1e9;   // so that the exponential is nearly all
    int measured = 0;
    o.measure = [&](const Program& p, const math::SymValues&) {
        ++measured;
        return std::optional<double>(p.outputs.size() == 2 ? 3e-3 : 1e-3);   // slower as one
    };
    o.measure_seconds = 10;
    const Fused f = planned(d, o);
    EXPECT_EQ(measured, 3);
    EXPECT_EQ(f.graph.nodes.size(), 2u);
    EXPECT_EQ(refusal(f, "e"), "measured slower");
    EXPECT_DOUBLE_EQ(f.decisions[0].measured_before, 2e-3);
    EXPECT_DOUBLE_EQ(f.decisions[0].measured_after, 3e-3);
    o.measure_seconds = 0;
    EXPECT_EQ(planned(d, o).graph.nodes.size(), 1u);
    EXPECT_EQ(measured, 3);
}

// Graphs that nobody thought of, by seed: chains, diamonds, reductions and what is spread again, products, transposes,
// several outputs.
Draft random_graph(uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Draft d;
    std::vector<ValueId> wide{d.in("x", {kM, kN}), d.in("y", {kM, kN})}, rows;
    for (int i = 0; i < 14; ++i) {
        const std::string n = "n" + std::to_string(i);
        const ValueId u = wide[pick(wide.size())], v = wide[wide.size() - 1 - pick(std::min<size_t>(wide.size(), 3))];
        switch (pick(9)) {
            case 0: wide.push_back(d.unary(n, Fn::Tanh, v)); break;
            case 1: wide.push_back(d.unary(n, Fn::Abs, v)); break;
            case 2: wide.push_back(d.binary(n, Fn::Add, u, v)); break;
            case 3: wide.push_back(d.binary(n, Fn::Mul, v, u)); break;
            case 4: rows.push_back(d.row_reduce(n, math::ReduceOp::Max, v)); break;
            case 5: rows.push_back(d.row_sum(n, v)); break;
            case 6: if (!rows.empty()) wide.push_back(d.with_rows(n, Fn::Sub, v, rows[pick(rows.size())])); break;
            case 7: if (!rows.empty()) wide.push_back(d.with_rows(n, Fn::Mul, u, rows.back())); break;
            case 8: {
                const ValueId t = d.transpose(n + "t", u);
                wide.push_back(d.matmul(n, d.matmul(n + "p", v, t), u));
                break;
            }
        }
    }
    d.g.outputs = {wide.back()};
    if (wide[wide.size() / 2] > 1 && wide[wide.size() / 2] != wide.back()) d.g.outputs.push_back(wide[wide.size() / 2]);
    if (!rows.empty()) d.g.outputs.push_back(rows.back());
    return d;
}

TEST(FusePlan, RandomGraphsDeliverTheSame) {
    size_t before = 0, after = 0;
    for (uint32_t seed = 1; seed <= 25; ++seed) {
        SCOPED_TRACE(seed);
        const Draft d = random_graph(seed);
        runtime::ThreadPool pool(1);
        CompileOptions o;
        o.execution.engine = runtime::Engine::Reference;
        o.check = true;
        o.execution.cpu.cache = false;
        std::vector<std::vector<Tensor>> results;
        const std::vector<Tensor> inputs{counted({3, 5}), counted({3, 5})};
        for (int way = 0; way < 3; ++way) {  // the reference apart and fused, machine code fused
            o.fuse = way > 0;
            if (way == 2) o.execution.engine = runtime::Engine::Cpu;
            const auto c = compile(d.g, o, pool);
            ASSERT_TRUE(c.ok()) << c.error().message;
            if (way < 2) (way ? after : before) += c->executable->graph().nodes.size();
            const auto r = c->executable->run(inputs, pool);
            ASSERT_TRUE(r.ok()) << r.error().message;
            results.push_back(*r);
        }
        for (size_t i = 0; i < results[0].size(); ++i)
            for (int64_t k = 0; k < results[0][i].size(); ++k) {
                const double want = results[0][i].get(k), bound = 1e-4 * (1 + std::fabs(want));
                ASSERT_NEAR(results[1][i].get(k), want, bound) << i << " " << k;
                ASSERT_NEAR(results[2][i].get(k), want, bound) << i << " " << k;
            }
    }
    EXPECT_LT(after, 0.7 * static_cast<double>(before));
}

// Transformer blocks as exporters spell them, 27 operators each.
double planning_seconds(int blocks) {
    Draft d;
    ValueId x = d.in("x", {128, 256});
    for (int i = 0; i < blocks; ++i) {
        const std::string n = "b" + std::to_string(i) + "_";
        const ValueId a = d.layer_norm_by_parts(n + "l", x, 256);
        const ValueId scores = d.with_number(n + "scale", Fn::Mul, d.matmul(n + "qk", a, d.transpose(n + "t", a)), 0.0625);
        x = d.binary(n + "r", Fn::Add, x, d.matmul(n + "v", d.softmax_by_parts(n + "s", scores), a));
        const ValueId h = d.matmul(n + "up", x, d.in(n + "w", {256, 256}));
        const ValueId e = d.with_number(n + "one", Fn::Add, d.unary(n + "erf", Fn::Erf, d.with_number(n + "root", Fn::Div, h, 1.414)), 1);
        x = d.binary(n + "r2", Fn::Add, x, d.with_number(n + "half", Fn::Mul, d.binary(n + "g", Fn::Mul, h, e), 0.5));
    }
    d.g.outputs = {x};
    const Graph g = normalise(remove_dead(d.g));
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
        const std::clock_t begin = std::clock();
        const Fused f = fuse(g);
        best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
        EXPECT_LE(f.graph.nodes.size(), static_cast<size_t>(7 * blocks));
    }
    return best;
}
TEST(FusePlan, PlanningGrowsWithTheGraph) {
    const double small = planning_seconds(18), large = planning_seconds(72);  // 500 and 2,000 operators
    RecordProperty("milliseconds_of_2000", static_cast<int>(large * 1e3));
    EXPECT_LT(large, 4 * 1.7 * small) << small << " s and " << large << " s";
    EXPECT_LT(large, 5);
}

// Where the model sees a clear gain, the clock sees one too.
TEST(FusePlan, PredictedGainsAreMeasuredGains) {
    runtime::ThreadPool pool(1);
    const std::vector<std::pair<const char*, std::function<ValueId(Draft&)>>> graphs{
        {"softmax", [](Draft& d) { return d.softmax_by_parts("s", d.in("x", {256, 1024})); }},
        {"norm", [](Draft& d) { return d.layer_norm_by_parts("l", d.in("x", {256, 1024}), 1024); }},
        {"chain", [](Draft& d) {
             ValueId v = d.in("x", {256, 1024});
             for (int i = 0; i < 4; ++i) v = d.with_number("n" + std::to_string(i), i % 2 ? Fn::Add : Fn::Mul, v, 1.5);
             return v;
         }}};
    for (const auto& [what, make] : graphs) {
        Draft d;
        d.g.outputs = {make(d)};
        CompileOptions o;
        std::vector<std::shared_ptr<const runtime::Executable>> ways;
        double predicted = 0;
        for (bool fuse : {false, true}) {
            o.fuse = fuse;
            const auto c = compile(d.g, o, pool);
            ASSERT_TRUE(c.ok());
            ways.push_back(c->executable);
            for (const Decision& q : c->decisions)
                if (q.taken) predicted += q.predicted_before - q.predicted_after;
        }
        EXPECT_GT(predicted, 0) << what;
        double best[2] = {1e9, 1e9};
        const std::vector<Tensor> inputs{counted({256, 1024})};
        for (int round = 0; round < 8; ++round)
            for (int w = 0; w < 2; ++w) {
                const auto t = ways[w]->measure(inputs, pool, 1, 3);
                ASSERT_TRUE(t.ok());
                best[w] = std::min(best[w], t->min);
            }
        EXPECT_LT(best[1], best[0]) << what << ": predicted to gain " << predicted * 1e6 << " us";
    }
}

}  // namespace
}  // namespace opwright::fuse
