// Random programs: affine accesses of any coefficients, quotients and remainders, every way of going outside, reads at
// data, reductions, scans and updates. Forward mode evaluates accesses as they are; reverse mode turns them round.
#include "derive_test_util.h"
#include "gradient_test_util.h"

namespace opwright::derive {
namespace {
using namespace math;
using namespace test;

class Generator {
public:
    explicit Generator(uint64_t seed) : random(seed), b("random") {}

    Program make() {
        x = b.in("x", DType::F64, shape(1 + pick(3)));
        w = b.in("w", DType::F64, shape(1 + pick(2)));
        at = b.in("at", DType::I64, shape(1));
        source = {x, w};
        if (pick(3) == 0) {
            const TensorId t = b.temp("t", DType::F64, shape(pick(3)));
            define(t);
            source.push_back(t);
        }
        const TensorId y = b.out("y", DType::F64, shape(pick(3)));
        define(y);
        if (pick(3) == 0) update(y);
        if (pick(4) == 0) update(y);
        return b.done();
    }
    uint64_t pick(uint64_t n) { return random() % n; }
    std::mt19937_64 random;

private:
    std::vector<Sym> shape(uint64_t rank) {
        std::vector<Sym> r;
        for (uint64_t i = 0; i < rank; ++i) r.emplace_back(static_cast<int64_t>(pick(8) == 0 ? pick(2) : 2 + pick(6)));
        return r;
    }
    std::vector<ExprId> plain(TensorId t) {
        std::vector<ExprId> r;
        vars.clear();
        for (const Sym& s : std::vector<Sym>(b.p.tensors[t].shape)) {
            vars.push_back(b.var("v", s));
            r.push_back(b.at(vars.back()));
        }
        return r;
    }
    void define(TensorId t) {
        const std::vector<ExprId> lhs = plain(t);
        const uint64_t kind = pick(6);
        if (kind == 0 && !vars.empty()) {
            constexpr ReduceOp ops[] = {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min};
            b.p.add_equation(t, lhs, b.p.scan(ops[pick(4)], vars[pick(vars.size())], expression(2), pick(2), pick(2)));
        } else {
            b.p.add_equation(t, lhs, kind < 4 ? reduction() : expression(3));
        }
    }
    void update(TensorId t) {
        const std::vector<Sym> dims = b.p.tensors[t].shape;
        vars.clear();
        for (uint64_t i = 0; i <= pick(2); ++i) vars.push_back(b.var("u", static_cast<int64_t>(1 + pick(5))));
        std::vector<ExprId> lhs;
        for (size_t d = 0; d < dims.size(); ++d) lhs.push_back(index());
        constexpr Update ops[] = {Update::Add, Update::Overwrite, Update::Mul, Update::Max, Update::Min};
        b.p.add_equation(t, lhs, expression(2), ops[pick(5)], Outside::Value);
    }
    ExprId affine_index() {
        ExprId r = b.p.integer(static_cast<int64_t>(pick(7)) - 3);
        for (VarId v : vars) {
            if (pick(3) == 0) continue;
            constexpr int64_t steps[] = {1, 1, 1, 2, 3, 4, -1, -2};
            r = b(Fn::Add, r, b(Fn::Mul, b.p.integer(steps[pick(8)]), b.at(v)));
        }
        return r;
    }
    ExprId index() {
        if (vars.empty()) return b.p.integer(static_cast<int64_t>(pick(3)));
        const ExprId v = b.at(vars[pick(vars.size())]);
        const ExprId by = b.p.integer(static_cast<int64_t>(1 + pick(4)));
        switch (pick(9)) {
            case 0: return b(Fn::FloorDiv, v, by);
            case 1: return b(Fn::Mod, v, by);
            case 2: return b(Fn::Mod, b(Fn::FloorDiv, v, by), b.p.integer(2));
            case 3: return b(Fn::FloorDiv, b(Fn::Add, v, b.p.integer(static_cast<int64_t>(pick(5)))), by);
            case 4: return v;
            case 5: return pick(2) ? v : b.p.load(at, {v}, Outside::Clamp);
            default: return affine_index();
        }
    }
    ExprId load() {
        const TensorId t = source[pick(source.size())];
        std::vector<ExprId> i;
        const size_t rank = b.p.tensors[t].shape.size();
        for (size_t d = 0; d < rank; ++d) i.push_back(index());
        bool empty = false;  // folding into an empty dim means nothing
        for (const Sym& s : b.p.tensors[t].shape) empty = empty || s.is(0);
        constexpr Outside modes[] = {Outside::Value, Outside::Clamp, Outside::Wrap, Outside::Reflect, Outside::Mirror};
        const Outside mode = empty ? Outside::Value : modes[pick(5)];
        ExprId fill = kNone;
        if (mode == Outside::Value)
            fill = pick(4) || depth > 1 ? b.p.literal(pick(2) ? 0 : 0.5, DType::F64) : (++depth, expression(1));
        return b.p.load(t, std::move(i), mode, fill);
    }
    ExprId condition() {
        if (!vars.empty() && pick(2)) return b(Fn::Le, b.at(vars[pick(vars.size())]), index());
        return b(Fn::Lt, expression(1), expression(1));
    }
    ExprId expression(int levels) {
        if (levels <= 0) return pick(6) ? load() : b.p.literal(0.75, DType::F64);
        const auto next = [&] { return expression(levels - 1); };
        switch (pick(9)) {
            case 0:
            case 1: return b(Fn::Mul, next(), next());
            case 2: return b(Fn::Add, next(), next());
            case 3: return b(Fn::Sub, next(), next());
            case 4: return b(Fn::Sin, next());
            case 5: return b.p.select(condition(), next(), next());
            case 6: return b(pick(2) ? Fn::Max : Fn::Min, next(), next());
            case 7:
                return b(Fn::Div, next(),
                         b(Fn::Add, b.p.literal(1.5, DType::F64), b(Fn::Mul, load(), b.p.literal(0.25, DType::F64))));
            default: return load();
        }
    }
    ExprId reduction() {
        std::vector<VarId> over;
        for (uint64_t i = 0; i <= pick(2); ++i)
            over.push_back(b.var("k", static_cast<int64_t>(pick(9) == 0 ? 0 : 1 + pick(5))));
        const std::vector<VarId> outer = vars;
        vars.insert(vars.end(), over.begin(), over.end());
        constexpr ReduceOp ops[] = {ReduceOp::Sum,  ReduceOp::Sum, ReduceOp::Sum,
                                    ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min};
        const ExprId body = expression(2), c = pick(3) ? kNone : condition();
        const ReduceOp op = ops[pick(6)];
        ExprId r = b.p.reduce(op, over, body, DType::F64, c);
        vars = outer;
        // The extreme of nothing is infinite.
        if (op == ReduceOp::Max) r = b(Fn::Max, r, b.p.literal(-9, DType::F64));
        if (op == ReduceOp::Min) r = b(Fn::Min, r, b.p.literal(9, DType::F64));
        return pick(3) ? r : b(Fn::Mul, r, expression(1));
    }

    Build b;
    TensorId x = kNone, w = kNone, at = kNone;
    std::vector<TensorId> source;
    std::vector<VarId> vars;
    int depth = 0;
};

TEST(DeriveGradientRandom, ForwardAndReverseModeAgree) {
    const char* asked = std::getenv("OPWRIGHT_RANDOM_GRADIENTS");
    const uint64_t count = asked ? std::strtoull(asked, nullptr, 10) : 1500;
    int finite = 0, gathers = 0;
    for (uint64_t seed = 1; seed <= count; ++seed) {
        Generator generator(seed);
        const Program p = generator.make();
        std::vector<Tensor> in;
        for (TensorId t : p.inputs) {
            Shape s;
            for (const Sym& d : p.tensors[t].shape) s.push_back(*d.constant());
            in.push_back(random_values(p.tensors[t].dtype, s, generator.random, is_float(p.tensors[t].dtype) ? -1 : -2,
                                       is_float(p.tensors[t].dtype) ? 1 : 6));
        }
        if (in[2].size() == 0) continue;
        const auto g = gradient(p);
        const auto t = tangent(p);
        ASSERT_TRUE(g.ok() && t.ok());
        ASSERT_EQ(verify(g->program), std::vector<std::string>()) << "seed " << seed << "\n"
                                                                  << p.print() << "\n"
                                                                  << g->program.print();
        ASSERT_EQ(verify(t->program), std::vector<std::string>()) << "seed " << seed << "\n"
                                                                  << p.print() << "\n"
                                                                  << t->program.print();
        const Checked c = dot_identity(p, *g, *t, in, generator.random);
        if (std::isnan(c.error)) continue;  // an extreme of nothing
        ++finite;
        ASSERT_LT(c.error, 1e-9) << "seed " << seed << ": " << c.what << "\n"
                                 << p.print() << "\n"
                                 << g->program.print() << "\n"
                                 << t->program.print();
        bool only_set = true;
        for (const Equation& q : g->program.equations) only_set = only_set && q.update == Update::Set;
        gathers += only_set;
    }
    EXPECT_GT(finite, static_cast<int>(count * 8 / 10));
    EXPECT_GT(gathers, static_cast<int>(count / 4));
}

}  // namespace
}  // namespace opwright::derive
