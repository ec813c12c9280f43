// The claim that tolerances rest on: whatever a legal kernel delivers lies within the reference's bound. Thousands of
// random programs, each evaluated in f32 in several random orders; and the bounds must not be uselessly wide.
#include <cmath>

#include "derive/reference.h"
#include "derive_test_util.h"
#include "f32_evaluator.h"
#include "verify/compare.h"

namespace opwright::derive {
namespace {
using namespace math;
using namespace test;

class Generator {
public:
    explicit Generator(uint64_t seed) : random(seed), b("random") {}

    Program make() {
        m = sym("m"), k = sym("k");
        x = b.in("x", DType::F32, {m, k});
        w = b.in("w", DType::F32, {k});
        s = b.in("s", DType::F32, {m});
        vm = b.var("m", m);
        const auto y = b.out("y", DType::F32, {m});
        if (pick(3) == 0) {  // through an intermediate
            const auto t = b.temp("t", DType::F32, {m});
            const auto vt = vm;
            b.set(t, {vt}, expression(3, false));
            temp = t;
            vm = b.var("m", m);
        }
        b.set(y, {vm}, expression(4, false));
        if (pick(3) == 0) {
            const auto z = b.out("z", DType::I32, {m});
            vm = b.var("m", m);
            b.set(z, {vm}, b.p.cast(expression(3, false), DType::I32));
        }
        return b.done();
    }
    uint64_t pick(uint64_t n) { return random() % n; }
    std::mt19937_64 random;

private:
    ExprId leaf(bool inner) {
        switch (pick(inner ? 6 : 4)) {
            case 0: return b.load(s, {vm});
            case 1: return b.f32(std::normal_distribution<double>()(random));
            case 2: return temp == kNone ? b.load(s, {vm}) : b.load(temp, {vm});
            case 3: return b.p.cast(inner ? b.at(vk) : b.at(vm), DType::F32);
            case 4: return b.load(w, {vk});
            default: return b.load(x, {vm, vk});
        }
    }
    ExprId condition(int depth, bool inner) {
        constexpr Fn tests[] = {Fn::Lt, Fn::Le, Fn::Gt, Fn::Ge, Fn::Eq, Fn::Ne};
        return b(tests[pick(6)], expression(depth - 1, inner), expression(depth - 1, inner));
    }
    ExprId expression(int depth, bool inner) {
        if (depth <= 0) return leaf(inner);
        switch (pick(inner ? 12 : 14)) {
            case 0:
            case 1: return b(Fn::Add, expression(depth - 1, inner), expression(depth - 1, inner));
            case 2: return b(Fn::Sub, expression(depth - 1, inner), expression(depth - 1, inner));
            case 3:
            case 4: return b(Fn::Mul, expression(depth - 1, inner), expression(depth - 1, inner));
            case 5: return b(Fn::Div, expression(depth - 1, inner), expression(depth - 1, inner));
            case 6: return b(pick(2) ? Fn::Max : Fn::Min, expression(depth - 1, inner), expression(depth - 1, inner));
            case 7:
                return b.p.select(condition(depth, inner), expression(depth - 1, inner), expression(depth - 1, inner));
            case 8: {
                constexpr Fn smooth[] = {Fn::Exp,  Fn::Tanh, Fn::Sin,   Fn::Cos,   Fn::Erf,
                                         Fn::Atan, Fn::Sinh, Fn::Asinh, Fn::Expm1, Fn::Exp2};
                return b(smooth[pick(10)], expression(depth - 1, inner));
            }
            case 9: {
                constexpr Fn partial[] = {Fn::Sqrt, Fn::Rsqrt, Fn::Log,  Fn::Log1p,
                                          Fn::Log2, Fn::Acosh, Fn::Asin, Fn::Atanh};
                return b(partial[pick(8)], b(Fn::Abs, expression(depth - 1, inner)));
            }
            case 10: {
                constexpr Fn steps[] = {Fn::Floor, Fn::Ceil, Fn::Round, Fn::Trunc, Fn::Sign, Fn::Neg, Fn::Abs};
                return b(steps[pick(7)], expression(depth - 1, inner));
            }
            case 11: return leaf(inner);
            default: {  // a reduction over k
                vk = b.var("k", k);
                constexpr ReduceOp ops[] = {ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Sum,
                                            ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod};
                const ReduceOp op = ops[pick(6)];
                return b.p.reduce(op, {vk}, expression(depth - 1, true), DType::F32);
            }
        }
    }

    Build b;
    Sym m, k;
    TensorId x, w, s, temp = kNone;
    VarId vm = 0, vk = 0;
};

TEST(DeriveRandom, BoundsCoverEveryLegalKernelAndAreNotUseless) {
    std::vector<double> shares;
    int64_t elements = 0, open = 0;
    for (uint64_t seed = 1; seed <= (std::getenv("OPWRIGHT_RANDOM_PROGRAMS")
                                         ? std::strtoull(std::getenv("OPWRIGHT_RANDOM_PROGRAMS"), nullptr, 10)
                                         : 4000);
         ++seed) {
        Generator g(seed);
        const Program p = g.make();
        const int64_t M = 1 + static_cast<int64_t>(g.pick(5)), K = static_cast<int64_t>(g.pick(40));
        std::vector<Tensor> in{Tensor(DType::F32, {M, K}), Tensor(DType::F32, {K}), Tensor(DType::F32, {M})};
        const bool wild = seed % 5 == 0;
        for (Tensor& t : in)
            for (int64_t i = 0; i < t.size(); ++i) {
                double v = std::normal_distribution<double>()(g.random);
                if (g.pick(8) == 0) v = std::round(v);
                if (wild && g.pick(6) == 0) {
                    constexpr double special[] = {INFINITY, -INFINITY, NAN, -0.0, 0.0, 3e38, -3e38, 1e-40, 1e20, -1e20};
                    v = special[g.pick(10)];
                }
                t.set(i, v);
            }
        const auto reference = derive::reference(p, in);
        ASSERT_TRUE(reference.ok()) << render(reference.error());
        const SymValues values{{"m", M}, {"k", K}};
        for (uint64_t order = 0; order < 3; ++order) {
            const auto got = F32Evaluator(p, values, seed * 16 + order).run(in);
            for (size_t o = 0; o < got.size(); ++o) {
                const auto c = verify::compare((*reference)[o], got[o], p.tensors[p.outputs[o]].dtype);
                ASSERT_TRUE(c.passed()) << "seed " << seed << ": " << c.str() << "\n"
                                        << p.print() << "\nm=" << M << " k=" << K;
                elements += c.elements;
                open += c.ill_conditioned;
                if (!wild && c.max_share > 0) shares.push_back(c.max_share);
            }
        }
    }
    std::sort(shares.begin(), shares.end());
    ASSERT_GT(shares.size(), 1000u);
    // How much of the allowance the worst element of a tensor uses.
    // The bound of a sum is the worst case of all orders, which random rounding does not come near.
    EXPECT_GT(shares[shares.size() / 2], 0.05);
    EXPECT_GT(shares[shares.size() / 10], 0.005);
    EXPECT_LE(shares.back(), 1.0);
    EXPECT_LT(static_cast<double>(open), 0.1 * static_cast<double>(elements));
    RecordProperty("median_share_percent", static_cast<int>(100 * shares[shares.size() / 2]));
    if (std::getenv("OPWRIGHT_PRINT_SHARES"))
        std::printf("shares: 10%% %.4f, 25%% %.4f, median %.4f, 75%% %.4f, max %.4f; open %.4f\n",
                    shares[shares.size() / 10], shares[shares.size() / 4], shares[shares.size() / 2],
                    shares[shares.size() * 3 / 4], shares.back(),
                    static_cast<double>(open) / static_cast<double>(elements));
}

}  // namespace
}  // namespace opwright::derive
