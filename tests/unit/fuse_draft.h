// Small graphs of f32 values for the tests of fusion, and that they mean the same fused.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "compile.h"
#include "derive_test_util.h"
#include "fuse/cleanup.h"
#include "runtime/thread_pool.h"

namespace opwright::fuse {
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using math::ExprId;
using math::Fn;
using math::Program;
using math::Sym;
using test::Build;

inline const Sym kM = Sym::symbol("m"), kN = Sym::symbol("n"), kK = Sym::symbol("k");

// A graph under construction; every value is f32.
struct Draft {
    Graph g;

    ValueId value(const std::string& n, std::vector<Sym> s) { return g.add_value({n, DType::F32, std::move(s), {}, {}, kNone}); }
    ValueId in(const std::string& n, std::vector<Sym> s) {
        g.inputs.push_back(value(n, std::move(s)));
        return g.inputs.back();
    }
    ValueId constant(const std::string& n, Tensor t) {
        const ValueId v = value(n, {t.shape().begin(), t.shape().end()});
        g.values[v].constant = std::move(t);
        return v;
    }
    ValueId node(const std::string& n, Program p, std::vector<ValueId> in, std::vector<Sym> shape) {
        const ValueId out = value(n, std::move(shape));
        Node x;
        x.inputs = std::move(in);
        x.outputs = {out};
        x.sources = {{n, p.name}};
        x.program = std::move(p);
        g.add_node(std::move(x));
        return out;
    }
    ValueId view(const std::string& n, ValueId of, std::vector<Sym> shape) {
        const ValueId out = value(n, std::move(shape));
        Node x;
        x.kind = NodeKind::View;
        x.inputs = {of};
        x.outputs = {out};
        x.sources = {{n, "Reshape"}};
        g.add_node(std::move(x));
        return out;
    }
    ValueId unary(const std::string& n, Fn f, ValueId of) {
        Build b(n);
        const auto shape = g.values[of].shape;
        const auto x = b.in("x", DType::F32, shape), y = b.out("y", DType::F32, shape);
        std::vector<ExprId> at;
        for (size_t i = 0; i < shape.size(); ++i) at.push_back(b.at(b.var("i" + std::to_string(i), shape[i])));
        b.p.add_equation(y, at, b(f, b.p.load(x, at)));
        return node(n, b.done(), {of}, shape);
    }
    ValueId binary(const std::string& n, Fn f, ValueId u, ValueId v) {
        Build b(n);
        const auto shape = g.values[u].shape;
        const auto x = b.in("x", DType::F32, shape), w = b.in("w", DType::F32, shape), y = b.out("y", DType::F32, shape);
        std::vector<ExprId> at;
        for (size_t i = 0; i < shape.size(); ++i) at.push_back(b.at(b.var("i" + std::to_string(i), shape[i])));
        b.p.add_equation(y, at, b(f, b.p.load(x, at), b.p.load(w, at)));
        return node(n, b.done(), {u, v}, shape);
    }
    ValueId matmul(const std::string& n, ValueId u, ValueId v) {
        Build b(n);
        const auto s = g.values[u].shape, t = g.values[v].shape;
        const auto x = b.in("x", DType::F32, s), w = b.in("w", DType::F32, t), y = b.out("y", DType::F32, {s[0], t[1]});
        const auto i = b.var("i", s[0]), j = b.var("j", t[1]), k = b.var("k", s[1]);
        b.set(y, {i, j}, b.sum({k}, b(Fn::Mul, b.load(x, {i, k}), b.load(w, {k, j}))));
        return node(n, b.done(), {u, v}, {s[0], t[1]});
    }
    ValueId transpose(const std::string& n, ValueId of) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[1], s[0]});
        const auto i = b.var("i", s[1]), j = b.var("j", s[0]);
        b.set(y, {i, j}, b.load(x, {j, i}));
        return node(n, b.done(), {of}, {s[1], s[0]});
    }
    ValueId row_sum(const std::string& n, ValueId of) { return row_reduce(n, math::ReduceOp::Sum, of); }
    ValueId row_reduce(const std::string& n, math::ReduceOp op, ValueId of) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[0]});
        const auto i = b.var("i", s[0]), j = b.var("j", s[1]);
        b.set(y, {i}, b.p.reduce(op, {j}, b.load(x, {i, j}), DType::F32));
        return node(n, b.done(), {of}, {s[0]});
    }
    // f(x[i, j], r[i])
    ValueId with_rows(const std::string& n, Fn f, ValueId of, ValueId rows) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), r = b.in("r", DType::F32, {s[0]}), y = b.out("y", DType::F32, s);
        const auto i = b.var("i", s[0]), j = b.var("j", s[1]);
        b.set(y, {i, j}, b(f, b.load(x, {i, j}), b.load(r, {i})));
        return node(n, b.done(), {of, rows}, s);
    }
    // x[i, j] * r[i, 0] + s[i, 0]
    ValueId with_two_columns(const std::string& n, ValueId of, ValueId factor, ValueId term) {
        Build b(n);
        const auto shape = g.values[of].shape;
        const auto x = b.in("x", DType::F32, shape), r = b.in("r", DType::F32, {shape[0], 1}), s = b.in("s", DType::F32, {shape[0], 1}),
                   y = b.out("y", DType::F32, shape);
        const auto i = b.var("i", shape[0]), j = b.var("j", shape[1]);
        const auto column = [&](auto t) { return b.p.load(t, {b.at(i), b.p.integer(0)}); };
        b.set(y, {i, j}, b(Fn::Add, b(Fn::Mul, b.load(x, {i, j}), column(r)), column(s)));
        return node(n, b.done(), {of, factor, term}, shape);
    }
    // f(x, c)
    ValueId with_number(const std::string& n, Fn f, ValueId of, double c) {
        Build b(n);
        const auto shape = g.values[of].shape;
        const auto x = b.in("x", DType::F32, shape), y = b.out("y", DType::F32, shape);
        std::vector<ExprId> at;
        for (size_t i = 0; i < shape.size(); ++i) at.push_back(b.at(b.var("i" + std::to_string(i), shape[i])));
        b.p.add_equation(y, at, b(f, b.p.load(x, at), b.f32(c)));
        return node(n, b.done(), {of}, shape);
    }
    // As exporters spell them.
    ValueId softmax_by_parts(const std::string& n, ValueId x) {
        const ValueId m = row_reduce(n + "_max", math::ReduceOp::Max, x), d = with_rows(n + "_sub", Fn::Sub, x, m), e = unary(n + "_exp", Fn::Exp, d);
        return with_rows(n + "_div", Fn::Div, e, row_sum(n + "_sum", e));
    }
    ValueId layer_norm_by_parts(const std::string& n, ValueId x, double columns) {
        const ValueId m = with_number(n + "_mean", Fn::Div, row_sum(n + "_sum", x), columns), d = with_rows(n + "_sub", Fn::Sub, x, m);
        const ValueId v = with_number(n + "_var", Fn::Div, row_sum(n + "_squares", binary(n + "_mul", Fn::Mul, d, d)), columns);
        return with_rows(n + "_div", Fn::Div, d, unary(n + "_sqrt", Fn::Sqrt, with_number(n + "_eps", Fn::Add, v, 1e-5)));
    }
    ValueId spread(const std::string& n, ValueId of, Sym columns) {
        Build b(n);
        const auto s = g.values[of].shape;
        const auto x = b.in("x", DType::F32, s), y = b.out("y", DType::F32, {s[0], columns});
        const auto i = b.var("i", s[0]), j = b.var("j", columns);
        b.set(y, {i, j}, b.load(x, {i}));
        return node(n, b.done(), {of}, {s[0], columns});
    }
};

inline Tensor counted(Shape s) {
    Tensor r(DType::F32, std::move(s));
    for (int64_t i = 0; i < r.size(); ++i) r.set(i, std::sin(static_cast<double>(i) * 1.7));
    return r;
}

// Fused and unfused graphs deliver the same, by the reference kernels and by compiled ones.
inline Fused expect_same(const Graph& g, const std::vector<Tensor>& inputs) {
    EXPECT_TRUE(graph::verify(g).empty());
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.execution.engine = runtime::Engine::Reference;
    o.check = true;
    o.fuse = false;
    auto plain = compile(g, o, pool);
    o.fuse = true;
    auto fused = compile(g, o, pool);
    o.execution.engine = runtime::Engine::Cpu;
    o.execution.cpu.cache = false;
    auto compiled = compile(g, o, pool);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_TRUE(plain.ok() && fused.ok());
    const auto a = plain->executable->run(inputs, pool);
    EXPECT_TRUE(a.ok()) << a.error().message;
    for (const auto& other : {fused->executable, compiled->executable}) {
        const auto b = other->run(inputs, pool);
        EXPECT_TRUE(b.ok()) << b.error().message;
        for (size_t i = 0; i < a->size(); ++i) {
            EXPECT_EQ((*a)[i].shape(), (*b)[i].shape());
            for (int64_t k = 0; k < (*a)[i].size(); ++k) EXPECT_NEAR((*a)[i].get(k), (*b)[i].get(k), 1e-5 * (1 + std::fabs((*a)[i].get(k)))) << i << " " << k;
        }
    }
    return {fused->executable->graph(), fused->decisions};
}

inline std::string refusal(const Fused& f, const std::string& producer) {
    for (const Decision& d : f.decisions)
        if (d.producer == producer && !d.taken) return d.reason;
    return "";
}

}  // namespace opwright::fuse
