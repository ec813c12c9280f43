// Batching and sharding rules of every operator of the library: what they say is done, and the results compared.
#include "derive/batch.h"
#include "derive/halo.h"
#include "derive/shape.h"
#include "derive/sharding.h"
#include "gradient_test_util.h"

namespace opwright {
namespace {
using namespace test;
using derive::Placement;

std::vector<std::string> all_names() { return lang::Library::standard().names(); }

// Elements `from` to `to` along a dim.
Tensor part(const Tensor& t, size_t dim, int64_t from, int64_t to) {
    Shape s = t.shape();
    s[dim] = to - from;
    Tensor r(t.dtype(), s);
    int64_t inner = 1;
    for (size_t d = dim + 1; d < s.size(); ++d) inner *= s[d];
    for (int64_t i = 0; i < r.size(); ++i) {
        const int64_t outer = i / (inner * s[dim]), at = i / inner % s[dim], rest = i % inner;
        const int64_t from_index = (outer * t.shape()[dim] + at + from) * inner + rest;
        if (is_float(t.dtype()))
            r.set(i, t.get(from_index));
        else
            r.set_int(i, t.get_int(from_index));
    }
    return r;
}
double combined(math::ReduceOp op, double a, double b) {
    switch (op) {
        case math::ReduceOp::Sum: return a + b;
        case math::ReduceOp::Prod: return a * b;
        case math::ReduceOp::Max: return std::max(a, b);
        case math::ReduceOp::Min: return std::min(a, b);
        case math::ReduceOp::Any: return a != 0 || b != 0;
        default: return a != 0 && b != 0;
    }
}
bool near(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-10 * std::max(1.0, std::fabs(a));
}

class PartsOf : public testing::TestWithParam<std::string> {
protected:
    // The operator with open extents, and arguments as in its first example that fits them.
    bool make() {
        const lang::Library& library = lang::Library::standard();
        const auto examples = library.examples(*library.find(GetParam()));
        auto symbolic = library.elaborate_symbolic(GetParam());
        if (!symbolic.ok() || !examples.ok() || examples->empty()) return false;
        program = std::move(*symbolic);
        in = example_inputs(examples->front(), examples->front().arguments, random);
        std::vector<Shape> shapes;
        for (const Tensor& t : in) shapes.push_back(t.shape());
        return derive::bind_symbols(program, shapes).ok();
    }
    std::mt19937_64 random{17};
    math::Program program;
    std::vector<Tensor> in;
};

void combine(const math::Program& program, const std::vector<Tensor>& in) {
    const auto whole = derive::reference(program, in);
    ASSERT_TRUE(whole.ok()) << render(whole.error());
    for (const derive::Sharding& s : derive::shardings(program)) {
        int64_t n = -1;
        bool number = false;  // a part has another: it is no call of this program
        for (size_t i = 0; i < in.size(); ++i)
            if (s.inputs[i].kind == Placement::Kind::Sharded) {
                n = in[i].shape()[s.inputs[i].dim];
                number |= program.tensors[program.inputs[i]].shape[s.inputs[i].dim].is_const();
            }
        if (n < 2 || number) continue;
        const int64_t cut = (n + 2) / 3;
        std::vector<std::vector<derive::ReferenceOutput>> parts;
        for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, cut}, {cut, n}}) {
            std::vector<Tensor> some;
            for (size_t i = 0; i < in.size(); ++i)
                some.push_back(s.inputs[i].kind == Placement::Kind::Sharded ? part(in[i], s.inputs[i].dim, from, to)
                                                                            : in[i]);
            auto r = derive::reference(program, some);
            ASSERT_TRUE(r.ok()) << s.axis << ": " << render(r.error());
            parts.push_back(std::move(*r));
        }
        for (size_t o = 0; o < s.outputs.size(); ++o) {
            const Placement& p = s.outputs[o];
            const Tensor &all = (*whole)[o].value, &a = parts[0][o].value, &b = parts[1][o].value;
            if (p.kind == Placement::Kind::Sharded) {
                const Tensor left = part(all, p.dim, 0, cut), right = part(all, p.dim, cut, n);
                ASSERT_EQ(left.shape(), a.shape()) << s.axis << "\n" << program.print();
                for (int64_t i = 0; i < left.size(); ++i)
                    ASSERT_TRUE(near(left.get(i), a.get(i))) << s.axis << "\n" << program.print();
                for (int64_t i = 0; i < right.size(); ++i)
                    ASSERT_TRUE(near(right.get(i), b.get(i))) << s.axis << "\n" << program.print();
                continue;
            }
            for (int64_t i = 0; i < all.size(); ++i) {
                const double got = p.kind == Placement::Kind::Partial ? combined(p.op, a.get(i), b.get(i)) : a.get(i);
                ASSERT_TRUE(near(all.get(i), got)) << s.axis << ": output " << o << "\n"
                                                   << derive::print_shardings(program) << program.print();
            }
        }
    }
}

TEST_P(PartsOf, CombineToTheWhole) {
    if (!make()) GTEST_SKIP() << "its example broadcasts";
    combine(program, in);
}
// Gradients have inputs that nothing reads but for their sizes.
TEST_P(PartsOf, OfTheGradientCombineToTheWhole) {
    if (!make()) GTEST_SKIP() << "its example broadcasts";
    const auto whole = derive::reference(program, in);
    ASSERT_TRUE(whole.ok()) << render(whole.error());
    const auto g = derive::gradient(program);
    if (!g.ok()) GTEST_SKIP() << g.error().message;
    std::vector<Tensor> cotangents;
    for (size_t o = 0; o < whole->size(); ++o) {
        const DType t = program.tensors[program.outputs[o]].dtype;
        cotangents.push_back(random_values(is_float(t) ? t : DType::F64, (*whole)[o].value.shape(), random, -1, 1));
    }
    combine(g->program, gradient_inputs(*g, in, cotangents));
}

// Each part runs the operator on what the rule says it reads; results before the part's own are dropped.
void overlapping_parts(const math::Program& program, const std::vector<Tensor>& in, int& rules) {
    const auto whole = derive::reference(program, in);
    ASSERT_TRUE(whole.ok()) << render(whole.error());
    const Tensor& all = (*whole)[0].value;
    std::vector<Shape> shapes;
    for (const Tensor& t : in) shapes.push_back(t.shape());
    const auto sizes = derive::bind_symbols(program, shapes);
    ASSERT_TRUE(sizes.ok());
    for (const derive::Halo& h : derive::halos(program)) {
        const int64_t n = all.shape()[h.dim], cut = (n + 1) / 2;
        if (n < 2) continue;
        ++rules;
        for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, cut}, {cut, n}}) {
            int64_t early = 0;  // results computed before the part's own, so that every part starts at a multiple
            for (const derive::HaloInput& x : h.inputs)
                if (!x.whole) {
                    const int64_t before = std::max<int64_t>(-*math::evaluate(x.before, *sizes), 0);
                    early = std::max(early, (before + x.step - 1) / x.step);
                }
            const int64_t start = std::max<int64_t>(from - early, 0);
            std::vector<Tensor> some;
            for (size_t i = 0; i < in.size(); ++i) {
                const derive::HaloInput& x = h.inputs[i];
                if (x.whole) {
                    some.push_back(in[i]);
                    continue;
                }
                const int64_t last = x.step * (to - 1) + *math::evaluate(x.after, *sizes) + 1;
                const int64_t end = to == n ? in[i].shape()[x.dim] : std::min(last, in[i].shape()[x.dim]);
                some.push_back(part(in[i], x.dim, x.step * start, end));
            }
            const auto r = derive::reference(program, some);
            ASSERT_TRUE(r.ok()) << render(r.error()) << derive::print_halos(program) << program.print();
            const Tensor& got = (*r)[0].value;
            ASSERT_GE(got.shape()[h.dim], to - start) << derive::print_halos(program) << program.print();
            const Tensor mine = part(got, h.dim, from - start, to - start), want = part(all, h.dim, from, to);
            ASSERT_EQ(mine.shape(), want.shape());
            for (int64_t i = 0; i < want.size(); ++i)
                ASSERT_TRUE(near(want.get(i), mine.get(i))) << derive::print_halos(program) << program.print();
        }
    }
}

TEST_P(PartsOf, OverlapAsTheHaloSays) {
    if (!make()) GTEST_SKIP() << "its example broadcasts";
    int rules = 0;
    overlapping_parts(program, in, rules);
}

TEST(DeriveHalo, OfWindowsOfManyKinds) {
    // Strides, dilations and paddings of a convolution, at sizes that divide evenly and not; a stencil.
    std::mt19937_64 random(3);
    int rules = 0;
    for (const std::string& body :
         {"p in 0..h + 2 - k + 1\n    y[p] = sum[k](x[p + k - 1] outside zero * w[k])",
          "p in 0..(h - 2 * (k - 1) - 1) // 3 + 1\n    y[p] = sum[k](x[3 * p + 2 * k] * w[k])",
          "p in 0..(h + 3 - k) // 2 + 1\n    y[p] = max[k](x[2 * p + k - 2] outside (-inf)) + 0 * w[0]",
          "p in 0..h\n    i in 0..h\n    t[i] = x[i] * w[0]\n    y[p] = t[p - 1] outside zero - 2 * t[p] + x[p + 2] "
          "outside "
          "zero"}) {
        lang::Library library;
        const std::string head = "op f(x[h], w[k]) -> y[p] where T in float:\n    ";
        const Status added = library.add(std::make_shared<const Source>(Source{"f.op", head + body + "\n"}));
        if (!added.ok()) {
            ADD_FAILURE() << render(added.error());
            continue;
        }
        const auto p = library.elaborate_symbolic("f");
        ASSERT_TRUE(p.ok()) << render(p.error());
        for (int64_t n : {11, 12, 17}) {
            const std::vector<Tensor> in{random_values(DType::F32, {n}, random, -1, 1),
                                         random_values(DType::F32, {3}, random, -1, 1)};
            overlapping_parts(*p, in, rules);
        }
    }
    EXPECT_EQ(rules, 12);
}

TEST_P(PartsOf, BatchIsEachByItself) {
    if (!make() || in.empty()) GTEST_SKIP() << "its example broadcasts, or it has no input";
    constexpr int64_t kBatch = 2;
    for (size_t shared = 0; shared <= in.size(); ++shared) {  // all batched, or all but one
        std::vector<bool> batched(in.size(), true);
        if (shared < in.size()) batched[shared] = false;
        if (in.size() == 1 && shared == 0) continue;
        const math::Program p = derive::batch(program, batched, math::Sym::symbol("batch_extent"));
        ASSERT_EQ(math::verify(p), std::vector<std::string>()) << p.print();
        std::vector<Tensor> together;
        std::vector<std::vector<Tensor>> each(kBatch);
        for (size_t i = 0; i < in.size(); ++i) {
            Shape s = in[i].shape();
            s.insert(s.begin(), kBatch);
            Tensor all(in[i].dtype(), s);
            for (int64_t k = 0; k < all.size(); ++k) {
                const int64_t from = k % std::max<int64_t>(in[i].size(), 1);
                if (is_float(all.dtype()))
                    all.set(k, in[i].get(from) * (k < in[i].size() ? 1 : 0.5));
                else
                    all.set_int(k, in[i].get_int(from));
            }
            for (int64_t b = 0; b < kBatch; ++b) {
                const Tensor one = part(all, 0, b, b + 1).reshaped(in[i].shape());
                each[static_cast<size_t>(b)].push_back(batched[i] ? one : in[i]);
            }
            together.push_back(batched[i] ? all : in[i]);
        }
        const auto all = derive::reference(p, together);
        ASSERT_TRUE(all.ok()) << render(all.error()) << "\n" << p.print();
        for (int64_t b = 0; b < kBatch; ++b) {
            const auto one = derive::reference(program, each[static_cast<size_t>(b)]);
            ASSERT_TRUE(one.ok()) << render(one.error());
            for (size_t o = 0; o < one->size(); ++o) {
                const Tensor &want = (*one)[o].value, &got = (*all)[o].value;
                const bool alike = got.rank() == want.rank();  // depends on nothing batched
                for (int64_t i = 0; i < want.size(); ++i)
                    ASSERT_TRUE(near(want.get(i), got.get(alike ? i : b * want.size() + i))) << p.print();
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Library, PartsOf, testing::ValuesIn(all_names()), [](const auto& i) { return i.param; });

TEST(DeriveSharding, SaysHowTheOperandsLie) {
    const auto p = lang::Library::standard().elaborate_symbolic("matmul_nt", 0);
    ASSERT_TRUE(p.ok()) << render(p.error());
    const std::string text = derive::print_shardings(*p);
    EXPECT_NE(text.find("as partial results, to be combined by sum"), std::string::npos) << text;
    EXPECT_NE(text.find("whole"), std::string::npos) << text;
}

}  // namespace
}  // namespace opwright
