// Small networks of convolutions, for the tests of layouts and of what is told of them.
#pragma once
#include "fuse/layout.h"
#include "fuse_draft.h"

namespace opwright::fuse {

// y[n, m, p, q] = sum of taps x taps windows at `stride`, zeros around; depthwise where there are no weights for channels.
struct Net : Draft {
    ValueId conv(const std::string& name, ValueId of, int64_t channels, int64_t taps, int64_t stride, bool depthwise = false) {
        Build b(name);
        const auto s = g.values[of].shape;
        const Sym m = depthwise ? s[1] : Sym(channels), k = taps, pad = taps / 2;
        const auto over = [&](const Sym& n) { return math::floor_div(n - Sym(1), Sym(stride)) + Sym(1); };
        const std::vector<Sym> out = {s[0], m, over(s[2]), over(s[3])}, shape = depthwise ? std::vector{m, k, k} : std::vector{m, s[1], k, k};
        const auto x = b.in("x", DType::F32, s), w = b.in("w", DType::F32, shape), y = b.out("y", DType::F32, out);
        const auto n = b.var("n", s[0]), o = b.var("o", m), p = b.var("p", out[2]), q = b.var("q", out[3]), c = b.var("c", s[1]),
                   i = b.var("i", k), j = b.var("j", k);
        const auto place = [&](auto at, auto tap) {
            return b(Fn::Sub, b(Fn::Add, b(Fn::Mul, b.at(at), b.p.integer(stride)), b.at(tap)), b.p.integer(taps / 2));
        };
        const ExprId window = b.p.load(x, {b.at(n), b.at(depthwise ? o : c), place(p, i), place(q, j)}, math::Outside::Value, b.f32(0));
        const ExprId weight = depthwise ? b.load(w, {o, i, j}) : b.load(w, {o, c, i, j});
        const std::vector<math::VarId> taps_of = {i, j}, all = {c, i, j};
        b.set(y, {n, o, p, q}, b.sum(depthwise ? taps_of : all, b(Fn::Mul, window, weight)));
        Shape dims;
        for (const Sym& d : shape) dims.push_back(*d.constant());
        return node(name, b.done(), {of, constant(name + "_w", counted(dims))}, out);
    }
    Laid laid() {
        Fused f = fuse(normalise(remove_dead(g)), {});
        return choose_layouts(std::move(f.graph), f.machine, f.sizes);
    }
    // With and without layouts, by the reference and compiled.
    void expect_right(const std::vector<Tensor>& inputs) {
        runtime::ThreadPool pool(2);
        CompileOptions o;
        o.check = true;
        o.execution.engine = runtime::Engine::Reference;
        const auto plain = compile(g, o, pool);
        o.execution.engine = runtime::Engine::Cpu;
        o.execution.cpu.cache = false;
        const auto compiled = compile(g, o, pool);
        ASSERT_TRUE(plain.ok() && compiled.ok());
        const auto a = plain->executable->run(inputs, pool), b = compiled->executable->run(inputs, pool);
        ASSERT_TRUE(a.ok() && b.ok());
        for (size_t i = 0; i < a->size(); ++i) {
            ASSERT_EQ((*a)[i].shape(), (*b)[i].shape());
            for (int64_t k = 0; k < (*a)[i].size(); ++k)
                ASSERT_NEAR((*a)[i].get(k), (*b)[i].get(k), 1e-4 * (1 + std::fabs((*a)[i].get(k)))) << i << " " << k;
        }
    }
};

// What mobile networks are made of: a picture's first convolution, a block with a depthwise one and a residual.
inline Net small_net(Sym batch) {
    Net d;
    const ValueId x = d.in("x", {batch, 3, 30, 30}), first = d.unary("first", Fn::Abs, d.conv("stem", x, 16, 3, 2));
    const ValueId wide = d.unary("wide", Fn::Abs, d.conv("expand", first, 64, 1, 1));
    const ValueId deep = d.unary("deep", Fn::Tanh, d.conv("depthwise", wide, 0, 3, 1, true));
    const ValueId sum = d.binary("sum", Fn::Add, d.conv("project", deep, 16, 1, 1), first);
    d.g.outputs = {d.conv("last", sum, 24, 3, 2)};
    return d;
}

}  // namespace opwright::fuse
