// Reverse mode over graphs: saved and recomputed values, sums of several uses, views.
#include "graph/gradient.h"

#include <map>

#include "compile.h"
#include "gradient_test_util.h"
#include "runtime/thread_pool.h"

namespace opwright {
namespace {
using namespace test;

class Network {
public:
    graph::Graph g;

    graph::ValueId input(const std::string& name, Shape s) {
        const auto v = g.add_value({name, DType::F64, {s.begin(), s.end()}, {}, {}, graph::kNone});
        g.inputs.push_back(v);
        return v;
    }
    graph::ValueId op(const std::string& type, const std::string& name, const std::vector<graph::ValueId>& in,
                      const lang::Attributes& attributes = {}) {
        std::vector<lang::Argument> arguments;
        for (graph::ValueId v : in) arguments.push_back({DType::F64, g.values[v].shape});
        const lang::Library& library = lang::Library::standard();
        while (arguments.size() < library.parameters(*library.find(type)).size())
            arguments.push_back({DType::F64, {}, false});
        auto p = library.elaborate(type, arguments, attributes);
        EXPECT_TRUE(p.ok()) << render(p.error());
        graph::Node n;
        n.inputs = in;
        n.sources = {{name, type}};
        const math::TensorId y = p->outputs[0];
        n.outputs = {g.add_value({name, p->tensors[y].dtype, p->tensors[y].shape, {}, {}, graph::kNone})};
        n.program = std::move(*p);
        const graph::ValueId out = n.outputs[0];
        g.add_node(std::move(n));
        return out;
    }
    graph::ValueId view(const std::string& name, graph::ValueId of, Shape s) {
        const auto v = g.add_value({name, DType::F64, {s.begin(), s.end()}, {}, {}, graph::kNone});
        graph::Node n;
        n.kind = graph::NodeKind::View;
        n.inputs = {of};
        n.outputs = {v};
        n.sources = {{name, "Reshape"}};
        g.add_node(std::move(n));
        return v;
    }
};

using Values = std::map<std::string, Tensor>;
Values evaluate(const graph::Graph& g, const Values& values) {
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.check = true;
    o.execution.engine = runtime::Engine::Reference;
    auto c = compile(g, o, pool);
    EXPECT_TRUE(c.ok()) << render(c.error());
    std::vector<Tensor> in;
    for (graph::ValueId v : g.inputs) in.push_back(values.at(g.values[v].name));
    auto out = c->executable->run(in, pool);
    EXPECT_TRUE(out.ok()) << render(out.error());
    Values r;
    for (size_t i = 0; i < out->size(); ++i) r[g.values[g.outputs[i]].name] = (*out)[i];
    return r;
}

TEST(GraphGradient, EqualsDifferenceQuotients) {
    Network n;
    const auto x = n.input("x", {3, 4}), w = n.input("w", {5, 4}), b = n.input("b", {5}), k = n.input("k", {2, 5, 2});
    const auto h = n.op("linear", "h", {x, w, b});
    const auto a = n.op("tanh", "a", {h});
    const auto r = n.op("relu", "r", {n.op("add", "twice", {a, h})});
    const auto v = n.view("v", r, {1, 5, 3});
    const auto c = n.op("conv", "c", {v, k});
    const auto s = n.op("softmax", "s", {c}, {{"axes", std::vector<math::Sym>{2}}});
    n.g.outputs = {s, a};
    ASSERT_EQ(graph::verify(n.g), std::vector<std::string>());
    const auto d = graph::gradient(n.g);
    ASSERT_TRUE(d.ok()) << render(d.error());
    ASSERT_EQ(graph::verify(d->forward), std::vector<std::string>());
    ASSERT_EQ(graph::verify(d->backward), std::vector<std::string>()) << graph::print(d->backward);

    std::mt19937_64 random(4);
    Values values;
    for (graph::ValueId i : n.g.inputs) {
        Shape shape;
        for (const math::Sym& e : n.g.values[i].shape) shape.push_back(*e.constant());
        values[n.g.values[i].name] = random_values(DType::F64, shape, random, -1, 1);
    }
    Values forward = evaluate(d->forward, values), all = values;
    for (const char* o : {"s", "a"})
        all[std::string("d") + o] = random_values(DType::F64, forward.at(o).shape(), random, -1, 1);
    all.insert(forward.begin(), forward.end());
    const Values grads = evaluate(d->backward, all);
    for (graph::ValueId i : n.g.inputs) {
        const std::string name = n.g.values[i].name;
        const Tensor direction = random_values(DType::F64, values.at(name).shape(), random, -1, 1);
        const auto along = [&](double step) {
            Values moved = values;
            Tensor t = moved.at(name).clone();
            for (int64_t e = 0; e < t.size(); ++e) t.set(e, t.get(e) + step * direction.get(e));
            moved[name] = t;
            const Values y = evaluate(n.g, moved);
            return finite_dot(all.at("ds"), y.at("s")) + finite_dot(all.at("da"), y.at("a"));
        };
        const double step = 1e-5, quotient = (along(step) - along(-step)) / (2 * step);
        EXPECT_NEAR(finite_dot(direction, grads.at("d" + name)), quotient, 1e-7) << name;
    }
    // The reshaped view is made again, products are kept, and of a softmax what it returns in place of what it was given.
    std::map<std::string, bool> saved;
    for (const graph::Kept& e : d->kept) saved[e.value] = e.saved;
    EXPECT_EQ(saved.at("v"), false);
    EXPECT_EQ(saved.at("a"), true);
    EXPECT_EQ(saved.at("s"), true);
    EXPECT_EQ(saved.count("c"), 0u);
}

TEST(GraphGradient, RefusesWhatHasNone) {
    Network n;
    const auto x = n.input("x", {3});
    n.g.outputs = {n.op("is_nan", "y", {x})};
    EXPECT_FALSE(graph::gradient(n.g).ok());
    EXPECT_FALSE(graph::gradient(n.g, {"nothing"}).ok());
}

}  // namespace
}  // namespace opwright
