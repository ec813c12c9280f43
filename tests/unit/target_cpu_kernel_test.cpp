// Programs built by hand, compiled for every processor level of this machine and compared with plain loops: sizes
// around the vector and tile edges, guard bytes behind every output.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "math/program.h"
#include "runtime/thread_pool.h"
#include "target/cpu/cpu.h"
#include "target/cpu/features.h"

namespace opwright::target::cpu {
namespace {
using namespace math;

struct Runner {
    Program p;
    std::map<std::string, int64_t> sizes;
    std::vector<bool> constant;

    // Runs on inputs of f32 (or i64) data in order; returns the outputs. Every output is guarded.
    std::vector<Tensor> run(const std::vector<Tensor>& inputs, const std::string& level, Status* status = nullptr) {
        Request r{.program = &p, .constant_inputs = constant};
        if (constant.empty()) r.constant_inputs.assign(p.inputs.size(), false);
        auto k = compile(std::span(&r, 1), {.level = level, .cache = false});
        if (!k[0].ok()) {
            ADD_FAILURE() << render(k[0].error());
            return {};
        }
        std::vector<int64_t> symbols;
        for (const std::string& s : p.symbols()) symbols.push_back(sizes.at(s));
        std::vector<const void*> in;
        for (const Tensor& t : inputs) in.push_back(t.data());
        SymValues named(sizes.begin(), sizes.end());
        constexpr int64_t kGuard = 256;
        std::vector<std::vector<char>> memory;
        std::vector<void*> out;
        std::vector<Shape> shapes;
        for (TensorId t : p.outputs) {
            Shape shape;
            for (const Sym& s : p.tensors[t].shape) shape.push_back(*evaluate(s, named));
            const int64_t bytes = element_count(shape) * static_cast<int64_t>(size_of(p.tensors[t].dtype));
            memory.emplace_back(static_cast<size_t>(bytes + 2 * kGuard + 64), char(0x5a));
            const auto address = reinterpret_cast<uintptr_t>(memory.back().data()) + kGuard;
            out.push_back(reinterpret_cast<char*>((address + 63) / 64 * 64));
            shapes.push_back(shape);
        }
        const int64_t bytes = (*k[0])->workspace_bytes(symbols);
        std::unique_ptr<char, decltype(&std::free)> workspace(
            static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(bytes + 64) / 64 * 64)), std::free);
        static runtime::ThreadPool pool(2);
        Status st = (*k[0])->run({in, out, symbols, workspace.get()}, pool);
        if (status)
            *status = st;
        else
            EXPECT_TRUE(st.ok());
        std::vector<Tensor> result;
        for (size_t i = 0; i < out.size(); ++i) {
            Tensor t(p.tensors[p.outputs[i]].dtype, shapes[i]);
            if (t.bytes()) std::memcpy(t.data(), out[i], t.bytes());
            for (int64_t g = 0; g < kGuard; ++g) {
                EXPECT_EQ(memory[i][static_cast<size_t>(g)], 0x5a) << "written in front of output " << i;
                EXPECT_EQ(memory[i][memory[i].size() - 1 - static_cast<size_t>(g)], 0x5a)
                    << "written behind output " << i;
            }
            result.push_back(t);
        }
        return result;
    }
};

std::vector<std::string> levels() {
    std::vector<std::string> r;
    for (Level l : kLevels)
        if (features_at(l)) r.emplace_back(name(l));
    return r;
}
Tensor random(Shape s, uint64_t seed) {
    Tensor t(DType::F32, std::move(s));
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> d;
    for (int64_t i = 0; i < t.size(); ++i) t.as<float>()[i] = d(rng);
    return t;
}
constexpr int64_t kSizes[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 131};

Sym S(const char* n) { return Sym::symbol(n); }

TEST(CpuKernel, MapWithRowBroadcast) {
    Runner r;
    Program& p = r.p;
    p.name = "bias_relu";
    const TensorId x = p.add_tensor("x", DType::F32, {S("m"), S("n")}, Role::Input),
                   b = p.add_tensor("b", DType::F32, {S("n")}, Role::Input);
    const TensorId y = p.add_tensor("y", DType::F32, {S("m"), S("n")}, Role::Output);
    const VarId i = p.add_var("i", S("m")), j = p.add_var("j", S("n"));
    const ExprId sum = p.call(Fn::Add, {p.load(x, {p.index(i), p.index(j)}), p.load(b, {p.index(j)})});
    p.add_equation(y, {p.index(i), p.index(j)}, p.call(Fn::Max, {sum, p.literal(0, DType::F32)}));
    ASSERT_TRUE(verify(p).empty());
    for (const std::string& level : levels())
        for (int64_t n : kSizes) {
            r.sizes = {{"m", 5}, {"n", n}};
            const Tensor X = random({5, n}, 1), B = random({n}, 2);
            const auto Y = r.run({X, B}, level);
            for (int64_t k = 0; k < 5 * n; ++k)
                ASSERT_EQ(Y[0].as<float>()[k], std::max(0.f, X.as<float>()[k] + B.as<float>()[k % n]))
                    << level << " n " << n << " at " << k;
        }
}

TEST(CpuKernel, SoftmaxRowsFuse) {
    Runner r;
    Program& p = r.p;
    p.name = "softmax";
    const TensorId x = p.add_tensor("x", DType::F32, {S("m"), S("n")}, Role::Input);
    const TensorId y = p.add_tensor("y", DType::F32, {S("m"), S("n")}, Role::Output);
    const TensorId mx = p.add_tensor("mx", DType::F32, {S("m")}, Role::Temp),
                   e = p.add_tensor("e", DType::F32, {S("m"), S("n")}, Role::Temp);
    const auto var = [&](const char* n) { return p.add_var(n, S(n)); };
    {
        const VarId i = var("m"), j = var("n");
        p.add_equation(mx, {p.index(i)}, p.reduce(ReduceOp::Max, {j}, p.load(x, {p.index(i), p.index(j)}), DType::F32));
    }
    {
        const VarId i = var("m"), j = var("n");
        p.add_equation(
            e, {p.index(i), p.index(j)},
            p.call(Fn::Exp, {p.call(Fn::Sub, {p.load(x, {p.index(i), p.index(j)}), p.load(mx, {p.index(i)})})}));
    }
    {
        const VarId i = var("m"), j = var("n"), k = var("n");
        const ExprId s = p.reduce(ReduceOp::Sum, {k}, p.load(e, {p.index(i), p.index(k)}), DType::F32);
        p.add_equation(y, {p.index(i), p.index(j)}, p.call(Fn::Div, {p.load(e, {p.index(i), p.index(j)}), s}));
    }
    ASSERT_TRUE(verify(p).empty());
    for (const std::string& level : levels())
        for (int64_t n : kSizes) {
            r.sizes = {{"m", 7}, {"n", n}};
            const Tensor X = random({7, n}, 3);
            const auto Y = r.run({X}, level);
            for (int64_t i = 0; i < 7; ++i) {
                double m = -INFINITY, s = 0;
                for (int64_t j = 0; j < n; ++j) m = std::max<double>(m, X.as<float>()[i * n + j]);
                for (int64_t j = 0; j < n; ++j) s += std::exp(X.as<float>()[i * n + j] - m);
                for (int64_t j = 0; j < n; ++j)
                    ASSERT_NEAR(Y[0].as<float>()[i * n + j], std::exp(X.as<float>()[i * n + j] - m) / s, 2e-6)
                        << level << " n " << n;
            }
        }
}

void matmul_prelu(bool constant_weights) {
    Runner r;
    Program& p = r.p;
    p.name = "matmul_prelu";
    const TensorId x = p.add_tensor("x", DType::F32, {S("m"), 37}, Role::Input),
                   w = p.add_tensor("w", DType::F32, {45, 37}, Role::Input);
    const TensorId a = p.add_tensor("a", DType::F32, {45}, Role::Input),
                   y = p.add_tensor("y", DType::F32, {S("m"), 45}, Role::Output);
    const VarId m = p.add_var("m", S("m")), n = p.add_var("n", 45), k = p.add_var("k", 37);
    const ExprId z = p.reduce(
        ReduceOp::Sum, {k}, p.call(Fn::Mul, {p.load(x, {p.index(m), p.index(k)}), p.load(w, {p.index(n), p.index(k)})}),
        DType::F32);
    p.add_equation(
        y, {p.index(m), p.index(n)},
        p.select(p.call(Fn::Ge, {z, p.literal(0, DType::F32)}), z, p.call(Fn::Mul, {p.load(a, {p.index(n)}), z})));
    r.constant = {false, constant_weights, false};
    for (const std::string& level : levels())
        for (int64_t rows : {0, 1, 2, 5, 13, 14, 15, 29, 250}) {
            r.sizes = {{"m", rows}};
            const Tensor X = random({rows, 37}, 4), W = random({45, 37}, 5), A = random({45}, 6);
            const auto Y = r.run({X, W, A}, level);
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < 45; ++j) {
                    double s = 0;
                    for (int64_t q = 0; q < 37; ++q) s += double(X.as<float>()[i * 37 + q]) * W.as<float>()[j * 37 + q];
                    const double want = s >= 0 ? s : s * A.as<float>()[j];
                    ASSERT_NEAR(Y[0].as<float>()[i * 45 + j], want, 2e-5)
                        << level << " rows " << rows << " at " << i << "," << j;
                }
        }
}
TEST(CpuKernel, MatmulWithEpilogue) { matmul_prelu(false); }
TEST(CpuKernel, MatmulWithPackedWeights) { matmul_prelu(true); }

// y[m,n] = sum[k](x[m,k] * w[k,n]), or w[n,k] where `turned`, with open extents.
void open_product(bool turned, const std::vector<std::tuple<int64_t, int64_t, int64_t>>& sizes) {
    Runner r;
    Program& p = r.p;
    p.name = "matmul";
    const TensorId x = p.add_tensor("x", DType::F32, {S("m"), S("k")}, Role::Input),
                   w = p.add_tensor("w", DType::F32, turned ? std::vector<Sym>{S("n"), S("k")} : std::vector<Sym>{S("k"), S("n")}, Role::Input);
    const TensorId y = p.add_tensor("y", DType::F32, {S("m"), S("n")}, Role::Output);
    const VarId m = p.add_var("m", S("m")), n = p.add_var("n", S("n")), k = p.add_var("k", S("k"));
    const ExprId z = p.reduce(
        ReduceOp::Sum, {k}, p.call(Fn::Mul, {p.load(x, {p.index(m), p.index(k)}), p.load(w, turned ? std::vector<ExprId>{p.index(n), p.index(k)} : std::vector<ExprId>{p.index(k), p.index(n)})}),
        DType::F32);
    p.add_equation(y, {p.index(m), p.index(n)}, z);
    for (const std::string& level : levels())
        for (const auto& [M, N, K] : sizes) {
            r.sizes = {{"m", M}, {"n", N}, {"k", K}};
            const Tensor X = random({M, K}, 4), W = turned ? random({N, K}, 5) : random({K, N}, 5);
            const auto Y = r.run({X, W}, level);
            for (int64_t i = 0; i < M; ++i)
                for (int64_t j = 0; j < N; ++j) {
                    double s = 0;
                    for (int64_t q = 0; q < K; ++q) s += double(X.as<float>()[i * K + q]) * W.as<float>()[turned ? j * K + q : q * N + j];
                    ASSERT_NEAR(Y[0].as<float>()[i * N + j], s, 2e-4)
                        << level << " " << M << "," << N << "," << K << " at " << i << "," << j;
                }
        }
}

TEST(CpuKernel, MatmulAcrossCacheTiles) {
    open_product(false, {{261, 270, 300}, {3, 5, 0}, {14, 32, 256}, {1, 300, 7}, {40, 1, 9}});
}
// Columns from memory: of few rows, in blocks of few positions of depth; of one task's rows, packed by each task.
TEST(CpuKernel, MatmulWithColumnsFromMemory) {
    open_product(false, {{3, 700, 400}, {4, 1031, 300}, {16, 600, 500}, {23, 1030, 261}, {30, 600, 500}, {64, 520, 1100}, {240, 515, 512}, {241, 515, 512}});
    open_product(true, {{16, 600, 500}, {64, 520, 1100}, {240, 515, 512}, {241, 515, 512}});
}
// Rows that are copied in blocks of depth while the next ones are asked for; results of which each line is asked for.
TEST(CpuKernel, MatmulOfFewColumnsAndOfShortSums) { open_product(false, {{301, 9, 1030}, {1030, 40, 600}, {600, 515, 16}, {513, 530, 70}}); }

TEST(CpuKernel, TransposeInBlocks) {
    Runner r;
    Program& p = r.p;
    p.name = "transpose";
    const TensorId x = p.add_tensor("x", DType::F32, {S("m"), S("n")}, Role::Input),
                   y = p.add_tensor("y", DType::F32, {S("n"), S("m")}, Role::Output);
    const VarId i = p.add_var("i", S("n")), j = p.add_var("j", S("m"));
    p.add_equation(y, {p.index(i), p.index(j)}, p.load(x, {p.index(j), p.index(i)}));
    for (const std::string& level : levels())
        for (int64_t m : {1, 15, 16, 17, 1025})
            for (int64_t n : {0, 1, 16, 33}) {
                r.sizes = {{"m", m}, {"n", n}};
                const Tensor X = random({m, n}, 1);
                const auto Y = r.run({X}, level);
                for (int64_t k = 0; k < m * n; ++k)
                    ASSERT_EQ(Y[0].as<float>()[k], X.as<float>()[k % m * n + k / m])
                        << level << " " << m << "x" << n << " at " << k;
            }
}

// Results of 16 MB and more bypass the caches, in code of their own.
TEST(CpuKernel, LargeResultsStream) {
    Runner r;
    Program& p = r.p;
    p.name = "twice";
    const TensorId x = p.add_tensor("x", DType::F32, {S("n")}, Role::Input),
                   y = p.add_tensor("y", DType::F32, {S("n")}, Role::Output);
    const VarId i = p.add_var("i", S("n"));
    p.add_equation(y, {p.index(i)}, p.call(Fn::Mul, {p.load(x, {p.index(i)}), p.literal(2, DType::F32)}));
    const int64_t n = (4 << 20) + 77;
    r.sizes = {{"n", n}};
    const Tensor X = random({n}, 1);
    for (const std::string& level : levels()) {
        const auto Y = r.run({X}, level);
        for (int64_t k = 0; k < n; ++k) ASSERT_EQ(Y[0].as<float>()[k], 2 * X.as<float>()[k]) << level << " at " << k;
    }
}

// A short dot product runs on folded lanes, point by point; two readers keep it a temporary, and neither may then run
// on lanes along the point's index.
TEST(CpuKernel, FoldedReductionWithReadersInItsNest) {
    Runner r;
    Program& p = r.p;
    p.name = "dot";
    const TensorId x = p.add_tensor("x", DType::F32, {S("n"), 8}, Role::Input),
                   w = p.add_tensor("w", DType::F32, {2, 8}, Role::Input);
    const TensorId z = p.add_tensor("z", DType::F32, {S("n"), 2}, Role::Temp);
    const TensorId y = p.add_tensor("y", DType::F32, {S("n"), 2}, Role::Output),
                   u = p.add_tensor("u", DType::F32, {S("n"), 2}, Role::Output);
    const auto point = [&] { return std::pair{p.add_var("n", S("n")), p.add_var("m", 2)}; };
    {
        const auto [n, m] = point();
        const VarId k = p.add_var("k", 8);
        p.add_equation(
            z, {p.index(n), p.index(m)},
            p.reduce(ReduceOp::Sum, {k},
                     p.call(Fn::Mul, {p.load(x, {p.index(n), p.index(k)}), p.load(w, {p.index(m), p.index(k)})}),
                     DType::F32));
    }
    for (const TensorId out : {y, u}) {
        const auto [n, m] = point();
        const ExprId v = p.load(z, {p.index(n), p.index(m)});
        p.add_equation(out, {p.index(n), p.index(m)}, out == y ? v : p.call(Fn::Neg, {v}));
    }
    for (const std::string& level : levels())
        for (int64_t n : {1, 3, 40}) {
            r.sizes = {{"n", n}};
            const Tensor X = random({n, 8}, 4), W = random({2, 8}, 5);
            const auto Y = r.run({X, W}, level);
            for (int64_t i = 0; i < 2 * n; ++i) {
                double s = 0;
                for (int64_t k = 0; k < 8; ++k)
                    s += double(X.as<float>()[i / 2 * 8 + k]) * W.as<float>()[i % 2 * 8 + k];
                ASSERT_NEAR(Y[0].as<float>()[i], s, 1e-5) << level << " n " << n << " at " << i;
                ASSERT_EQ(Y[1].as<float>()[i], -Y[0].as<float>()[i]);
            }
        }
}

TEST(CpuKernel, ConvolutionPadded) {
    Runner r;
    Program& p = r.p;
    p.name = "conv";
    constexpr int64_t C = 3, O = 6;
    const Sym h = S("h"), wd = S("w");
    const TensorId x = p.add_tensor("x", DType::F32, {S("n"), C, h, wd}, Role::Input),
                   w = p.add_tensor("w", DType::F32, {O, C, 3, 3}, Role::Input);
    const TensorId b = p.add_tensor("b", DType::F32, {O}, Role::Input);
    const TensorId y = p.add_tensor("y", DType::F32, {S("n"), O, S("p"), S("q")}, Role::Output);
    const VarId n = p.add_var("n", S("n")), o = p.add_var("o", O), pp = p.add_var("p", S("p")),
                q = p.add_var("q", S("q"));
    const VarId c = p.add_var("c", C), i = p.add_var("i", 3), j = p.add_var("j", 3);
    const auto at = [&](VarId out, VarId tap) {
        return p.call(Fn::Sub,
                      {p.call(Fn::Add, {p.call(Fn::Mul, {p.index(out), p.integer(2)}), p.index(tap)}), p.integer(1)});
    };
    const ExprId X = p.load(x, {p.index(n), p.index(c), at(pp, i), at(q, j)}, Outside::Value, p.literal(0, DType::F32));
    const ExprId W = p.load(w, {p.index(o), p.index(c), p.index(i), p.index(j)});
    const ExprId s = p.reduce(ReduceOp::Sum, {c, i, j}, p.call(Fn::Mul, {X, W}), DType::F32);
    p.add_equation(y, {p.index(n), p.index(o), p.index(pp), p.index(q)}, p.call(Fn::Add, {s, p.load(b, {p.index(o)})}));
    for (bool constant : {false, true}) {
        r.constant = {false, constant, constant};
        for (const std::string& level : levels())
            for (auto [N, H, V] :
                 {std::tuple<int64_t, int64_t, int64_t>{2, 9, 41}, {1, 1, 1}, {3, 5, 4}, {1, 40, 33}}) {
                const int64_t P = (H + 2 - 3) / 2 + 1, Q = (V + 2 - 3) / 2 + 1;
                r.sizes = {{"n", N}, {"h", H}, {"w", V}, {"p", P}, {"q", Q}};
                const Tensor TX = random({N, C, H, V}, 7), TW = random({O, C, 3, 3}, 8), TB = random({O}, 9);
                const auto Y = r.run({TX, TW, TB}, level);
                for (int64_t f = 0; f < N * O * P * Q; ++f) {
                    const int64_t qq = f % Q, pq = f / Q % P, oo = f / Q / P % O, nn = f / Q / P / O;
                    double sum = TB.as<float>()[oo];
                    for (int64_t cc = 0; cc < C; ++cc)
                        for (int64_t ii = 0; ii < 3; ++ii)
                            for (int64_t jj = 0; jj < 3; ++jj) {
                                const int64_t yy = pq * 2 + ii - 1, xx = qq * 2 + jj - 1;
                                if (yy < 0 || yy >= H || xx < 0 || xx >= V) continue;
                                sum += double(TX.as<float>()[((nn * C + cc) * H + yy) * V + xx]) *
                                       TW.as<float>()[((oo * C + cc) * 3 + ii) * 3 + jj];
                            }
                    ASSERT_NEAR(Y[0].as<float>()[f], sum, 2e-5)
                        << level << " constant " << constant << " N,H,W " << N << "," << H << "," << V << " at " << f;
                }
            }
    }
}

TEST(CpuKernel, MaxPoolWithMinusInfinityOutside) {
    Runner r;
    Program& p = r.p;
    p.name = "pool";
    const TensorId x = p.add_tensor("x", DType::F32, {S("c"), S("w")}, Role::Input),
                   y = p.add_tensor("y", DType::F32, {S("c"), S("w")}, Role::Output);
    const VarId c = p.add_var("c", S("c")), w = p.add_var("w", S("w")), k = p.add_var("k", 3);
    const ExprId at = p.call(Fn::Sub, {p.call(Fn::Add, {p.index(w), p.index(k)}), p.integer(1)});
    p.add_equation(y, {p.index(c), p.index(w)},
                   p.reduce(ReduceOp::Max, {k},
                            p.load(x, {p.index(c), at}, Outside::Value, p.literal(-INFINITY, DType::F32)), DType::F32));
    for (const std::string& level : levels())
        for (int64_t n : kSizes) {
            r.sizes = {{"c", 3}, {"w", n}};
            const Tensor X = random({3, n}, 10);
            const auto Y = r.run({X}, level);
            for (int64_t f = 0; f < 3 * n; ++f) {
                float want = -INFINITY;
                for (int64_t d = -1; d <= 1; ++d)
                    if (f % n + d >= 0 && f % n + d < n) want = std::max(want, X.as<float>()[f + d]);
                ASSERT_EQ(Y[0].as<float>()[f], want) << level << " n " << n << " at " << f;
            }
        }
}

TEST(CpuKernel, ArgMaxCumsumGatherScatter) {
    for (const std::string& level : levels())
        for (int64_t n : {1, 5, 16, 37}) {
            Runner r;
            Program& p = r.p;
            p.name = "index_family";
            const TensorId x = p.add_tensor("x", DType::F32, {S("m"), S("n")}, Role::Input),
                           ids = p.add_tensor("ids", DType::I64, {S("r")}, Role::Input);
            const TensorId am = p.add_tensor("am", DType::I64, {S("m")}, Role::Output),
                           cs = p.add_tensor("cs", DType::F32, {S("m"), S("n")}, Role::Output);
            const TensorId g = p.add_tensor("g", DType::F32, {S("r"), S("n")}, Role::Output),
                           sc = p.add_tensor("sc", DType::F32, {S("m"), S("n")}, Role::Output);
            const auto var = [&](const char* nm) { return p.add_var(nm, S(nm)); };
            {
                const VarId i = var("m"), j = var("n");
                p.add_equation(am, {p.index(i)},
                               p.reduce(ReduceOp::ArgMax, {j}, p.load(x, {p.index(i), p.index(j)}), DType::I64));
            }
            {
                const VarId i = var("m"), j = var("n");
                p.add_equation(cs, {p.index(i), p.index(j)},
                               p.scan(ReduceOp::Sum, i, p.load(x, {p.index(i), p.index(j)}), true, true));
            }
            {
                const VarId a = var("r"), j = var("n");
                p.add_equation(g, {p.index(a), p.index(j)}, p.load(x, {p.load(ids, {p.index(a)}), p.index(j)}));
            }
            {
                const VarId i = var("m"), j = var("n");
                p.add_equation(sc, {p.index(i), p.index(j)}, p.literal(1, DType::F32));
            }
            {
                const VarId a = var("r"), j = var("n");
                p.add_equation(sc, {p.load(ids, {p.index(a)}), p.index(j)}, p.load(g, {p.index(a), p.index(j)}),
                               Update::Add);
            }
            ASSERT_TRUE(verify(p).empty());
            r.sizes = {{"m", 6}, {"n", n}, {"r", 4}};
            const Tensor X = random({6, n}, 11);
            Tensor I(DType::I64, {4});
            const int64_t id[] = {3, 0, 3, 5};
            std::memcpy(I.data(), id, sizeof id);
            const auto Y = r.run({X, I}, level);
            std::vector<double> scatter(static_cast<size_t>(6 * n), 1.0);
            for (int64_t a = 0; a < 4; ++a)
                for (int64_t j = 0; j < n; ++j) {
                    ASSERT_EQ(Y[2].as<float>()[a * n + j], X.as<float>()[id[a] * n + j]);
                    scatter[static_cast<size_t>(id[a] * n + j)] += X.as<float>()[id[a] * n + j];
                }
            for (int64_t i = 0; i < 6; ++i) {
                const float* row = X.as<float>() + i * n;
                ASSERT_EQ(Y[0].as<int64_t>()[i], std::max_element(row, row + n) - row) << level;
                for (int64_t j = 0; j < n; ++j) {
                    double s = 0;
                    for (int64_t q = i + 1; q < 6; ++q) s += X.as<float>()[q * n + j];
                    ASSERT_NEAR(Y[1].as<float>()[i * n + j], s, 1e-5);
                    ASSERT_NEAR(Y[3].as<float>()[i * n + j], scatter[static_cast<size_t>(i * n + j)], 1e-5);
                }
            }
            I.as<int64_t>()[2] = 6;
            Status status = ok_status();
            r.run({X, I}, level, &status);
            ASSERT_FALSE(status.ok());
            EXPECT_NE(status.error().message.find("x["), std::string::npos) << status.error().message;
        }
}

}  // namespace
}  // namespace opwright::target::cpu
