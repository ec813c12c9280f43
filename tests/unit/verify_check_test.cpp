// Each kind of broken kernel must be caught, and a correct one must pass, at every size and pattern.
#include "verify/check.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <set>

#include "derive/bounded.h"
#include "derive_test_util.h"
#include "f32_evaluator.h"

namespace opwright::verify {
namespace {
using namespace math;
using namespace test;
using Outputs = std::vector<Tensor>;

// A target that delivers the reference rounded to the outputs' types, then spoilt by `spoil`.
using Spoil = std::function<void(const Program&, const SymValues&, const std::vector<Tensor>&, Outputs&)>;
Compile fake(Spoil spoil) {
    return [spoil](const Program& p) -> Result<Compiled> {
        return Compiled([&p, spoil](const SymValues& s, const std::vector<Tensor>& in, Outputs& out) -> Status {
            OPW_TRY(auto r, derive::reference(p, in, s));
            for (size_t o = 0; o < out.size(); ++o)
                for (int64_t i = 0; i < out[o].size(); ++i)
                    if (is_float(out[o].dtype()))
                        out[o].set(i, r[o].value.get(i));
                    else
                        out[o].set_int(i, r[o].value.get_int(i));
            if (spoil) spoil(p, s, in, out);
            return ok_status();
        });
    };
}
Compile f32_kernel() {
    return [](const Program& p) -> Result<Compiled> {
        return Compiled([&p](const SymValues& s, const std::vector<Tensor>& in, Outputs& out) -> Status {
            const auto got = F32Evaluator(p, s, 5).run(in);
            for (size_t o = 0; o < out.size(); ++o)
                if (out[o].bytes()) std::memcpy(out[o].data(), got[o].data(), out[o].bytes());
            return ok_status();
        });
    };
}

Program matmul(DType t) {
    Build b("matmul");
    const Sym m = sym("m"), n = sym("n"), k = sym("k");
    const auto x = b.in("x", t, {m, k}), w = b.in("w", t, {n, k});
    const auto y = b.out("y", t, {m, n});
    const auto vm = b.var("m", m), vn = b.var("n", n), vk = b.var("k", k);
    const DType acc = accumulate_type(t);
    const auto wide = [&](ExprId e) { return b.p.cast(e, acc); };
    b.set(y, {vm, vn}, b.p.cast(b.sum({vk}, b(Fn::Mul, wide(b.load(x, {vm, vk})), wide(b.load(w, {vn, vk}))), acc), t));
    return b.done();
}
Program unary(Fn f, DType t = DType::F32) {
    Build b(std::string(info(f).name));
    const Sym n = sym("n");
    const auto x = b.in("x", t, {n}), y = b.out("y", t, {n});
    const auto v = b.var("n", n);
    b.set(y, {v}, b(f, b.load(x, {v})));
    return b.done();
}
Program reduction(ReduceOp op) {
    Build b(std::string(name(op)));
    const Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n}), y = b.out("y", DType::F32, {m});
    const auto vm = b.var("m", m), vn = b.var("n", n);
    b.set(y, {vm}, b.p.reduce(op, {vn}, b.load(x, {vm, vn}), DType::F32));
    return b.done();
}
Program transpose() {
    Build b("transpose");
    const Sym m = sym("m"), n = sym("n");
    const auto x = b.in("x", DType::F32, {m, n}), y = b.out("y", DType::F32, {n, m});
    const auto vm = b.var("m", m), vn = b.var("n", n);
    b.set(y, {vn, vm}, b.load(x, {vm, vn}));
    return b.done();
}
Program relu() {
    Build b("relu");
    const Sym n = sym("n");
    const auto x = b.in("x", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n);
    b.set(y, {v}, b(Fn::Max, b.load(x, {v}), b.f32(0)));
    return b.done();
}
CheckOptions quick() { return {.sizes = {.tiles = {8, 16}, .max_work = 20000, .count = 16}}; }

TEST(VerifyCheck, CorrectKernelsPass) {
    for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I64}) {
        const Program p = matmul(t);
        const Report r = check_program(p, fake(nullptr), quick());
        EXPECT_TRUE(r.passed()) << r.str();
        EXPECT_GT(r.cases, is_float(t) ? 100 : 40);
        EXPECT_EQ(r.verdicts.count(Verdict::Wrong), 0u);
    }
    for (const Program& p :
         {matmul(DType::F32), unary(Fn::Neg), unary(Fn::Floor), unary(Fn::Exp), reduction(ReduceOp::Max),
          reduction(ReduceOp::Sum), reduction(ReduceOp::Prod), transpose(), relu()}) {
        const Report r = check_program(p, f32_kernel(), quick());
        EXPECT_TRUE(r.passed()) << r.str();
    }
}

struct Broken {
    const char* what;
    Program p;
    Spoil spoil;
    Outcome outcome = Outcome::Compared;
};

TEST(VerifyCheck, EveryKindOfBugIsCaught) {
    const std::vector<Broken> broken = {
        {"the last element is dropped", transpose(),
         [](auto&, auto&, auto&, Outputs& y) {
             if (y[0].size()) std::memset(static_cast<char*>(y[0].data()) + y[0].bytes() - 4, 0xa5, 4);
         }},
        {"the maximum starts at 0", reduction(ReduceOp::Max),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 0; i < y[0].size(); ++i)
                 if (y[0].get(i) < 0) y[0].set(i, 0.0);
         }},
        {"the sum of nothing is left out", matmul(DType::F32),
         [](auto&, const SymValues& s, auto&, Outputs& y) {
             if (s.at("k") == 0) std::memset(y[0].data(), 0xa5, y[0].bytes());
         }},
        {"sums accumulate in f16", matmul(DType::F16),
         [](const Program&, const SymValues& s, const std::vector<Tensor>& in, Outputs& y) {
             for (int64_t i = 0; i < s.at("m"); ++i)
                 for (int64_t j = 0; j < s.at("n"); ++j) {
                     double t = 0;
                     for (int64_t k = 0; k < s.at("k"); ++k)
                         t = derive::round_to(t + in[0].get(i * s.at("k") + k) * in[1].get(j * s.at("k") + k),
                                              DType::F16);
                     y[0].set(i * s.at("n") + j, t);
                 }
         }},
        {"f32 products of f16 lose their last bits", matmul(DType::F32),
         [](const Program&, const SymValues& s, const std::vector<Tensor>& in, Outputs& y) {
             for (int64_t i = 0; i < s.at("m"); ++i)
                 for (int64_t j = 0; j < s.at("n"); ++j) {
                     double t = 0;
                     for (int64_t k = 0; k < s.at("k"); ++k)
                         t += derive::round_to(in[0].get(i * s.at("k") + k), DType::BF16) *
                              derive::round_to(in[1].get(j * s.at("k") + k), DType::BF16);
                     y[0].set(i * s.at("n") + j, t);
                 }
         }},
        {"indices are swapped", transpose(),
         [](auto&, auto&, const std::vector<Tensor>& x, Outputs& y) {
             if (y[0].bytes()) std::memcpy(y[0].data(), x[0].data(), y[0].bytes());
         }},
        {"the maximum swallows NaN", relu(),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 0; i < y[0].size(); ++i)
                 if (std::isnan(y[0].get(i))) y[0].set(i, 0.0);
         }},
        {"-0 is lost", unary(Fn::Neg),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 0; i < y[0].size(); ++i)
                 if (y[0].get(i) == 0) y[0].set(i, 0.0);
         }},
        {"overflow saturates", unary(Fn::Exp),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 0; i < y[0].size(); ++i)
                 if (std::isinf(y[0].get(i))) y[0].set(i, highest(DType::F32));
         }},
        {"16-bit stores truncate", unary(Fn::Abs, DType::F16), nullptr},  // replaced below
        {"one element too many is written", relu(),
         [](auto&, auto&, auto&, Outputs& y) { static_cast<char*>(y[0].data())[y[0].bytes()] = 0; },
         Outcome::WroteOutside},
        {"a byte in front is written", relu(),
         [](auto&, auto&, auto&, Outputs& y) { static_cast<char*>(y[0].data())[-1] = 0; }, Outcome::WroteOutside},
        {"an input is overwritten", relu(),
         [](auto&, auto&, const std::vector<Tensor>& x, Outputs&) {
             if (x[0].size()) const_cast<Tensor&>(x[0]).set(0, 77.0);
         },
         Outcome::ChangedInput},
        {"nothing is written", reduction(ReduceOp::Sum),
         [](auto&, auto&, auto&, Outputs& y) { std::memset(y[0].data(), 0xa5, y[0].bytes()); }},
        {"integers saturate", matmul(DType::I64),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 0; i < y[0].size(); ++i)
                 if (std::abs(y[0].get(i)) > 1e15) y[0].set_int(i, 1);
         }},
        {"the 8th lane of each vector is off by an ulp", unary(Fn::Floor),
         [](auto&, auto&, auto&, Outputs& y) {
             for (int64_t i = 7; i < y[0].size(); i += 8)
                 y[0].set(i, std::nextafter(static_cast<float>(y[0].get(i)), 9e9f));
         }},
    };
    for (const Broken& b : broken) {
        Spoil spoil = b.spoil;
        Program p = b.p;
        if (!spoil) {  // a sum stored in f16 by cutting bits off
            Build c("scale");
            const Sym n = sym("n");
            const auto x = c.in("x", DType::F16, {n}), y = c.out("y", DType::F16, {n});
            const auto v = c.var("n", n);
            c.set(y, {v}, c(Fn::Mul, c.load(x, {v}), c.p.literal(0.7, DType::F16)));
            p = c.done();
            spoil = [](auto&, auto&, const std::vector<Tensor>& in, Outputs& out) {
                for (int64_t i = 0; i < out[0].size(); ++i) {
                    const double r = static_cast<float>(in[0].get(i)) * f16_to_f32(f64_to_f16(0.7));
                    if (!std::isfinite(r) || std::fabs(r) < 1e-3) continue;
                    int e;
                    const double f = std::frexp(r, &e);
                    out[0].set(i, std::ldexp(std::trunc(f * 2048), e - 11));
                }
            };
        }
        const Report r = check_program(p, fake(spoil), quick());
        EXPECT_FALSE(r.passed()) << b.what;
        if (!r.smallest_failure) continue;
        EXPECT_EQ(r.smallest_failure->outcome, b.outcome) << b.what << ": " << r.str();
        EXPECT_FALSE(r.smallest_failure->message.empty());
        for (const CaseReport& c : r.failures) EXPECT_GE(c.elements, r.smallest_failure->elements);
    }
}

TEST(VerifyCheck, ReportsTheSmallestFailure) {
    const Report r = check_program(transpose(), fake([](auto&, const SymValues& s, auto&, Outputs& y) {
                                       if (s.at("m") >= 8 && y[0].size()) y[0].set(y[0].size() - 1, 1e6);
                                   }),
                                   {.sizes = {.tiles = {8}, .count = 100}});
    ASSERT_TRUE(r.smallest_failure);
    EXPECT_EQ(r.smallest_failure->sizes.at("m"), 8);
    EXPECT_THAT(r.str(),
                testing::MatchesRegex("transpose: [0-9]+ of [0-9]+ cases failed.*smallest: x = f32\\[8,.*wrong: 1 of "
                                      "[0-9]+ elements, the first at .*expected .*, got 1000000 .*"));
}

TEST(VerifyCheck, ErrorsOfTheKernelAreFailures) {
    const Compile refuses = [](const Program&) -> Result<Compiled> { return Diagnostic("scans are not supported"); };
    const Report r = check_program(relu(), refuses, quick());
    ASSERT_TRUE(r.smallest_failure);
    EXPECT_EQ(r.smallest_failure->outcome, Outcome::CompileFailed);
    EXPECT_EQ(r.smallest_failure->message, "scans are not supported");
    const Compile fails = [](const Program&) -> Result<Compiled> {
        return Compiled([](auto&, auto&, auto&) -> Status { return Diagnostic("no memory"); });
    };
    EXPECT_EQ(check_program(relu(), fails, quick()).smallest_failure->outcome, Outcome::RunFailed);
}

TEST(VerifyCheck, AnOutsideIndexMustBeReported) {
    Build b("gather");
    const Sym n = sym("n");
    const auto t = b.in("t", DType::F32, {Sym(4)}), i = b.in("i", DType::F32, {n}), y = b.out("y", DType::F32, {n});
    const auto v = b.var("n", n);
    // A float index: the inputs do not know to stay inside.
    b.set(y, {v}, b.p.load(t, {b.p.cast(b(Fn::Mul, b.load(i, {v}), b.f32(10)), DType::I64)}));
    const Program p = b.done();
    const Compile silent = [](const Program&) -> Result<Compiled> {
        return Compiled([](auto&, auto&, auto&) { return ok_status(); });
    };
    const auto run = silent(p);
    EXPECT_EQ(check_case(p, *run, {{"n", 9}}, Pattern::Random, 1).outcome, Outcome::MissedError);
    const auto loud = fake(nullptr)(p);
    EXPECT_TRUE(check_case(p, *loud, {{"n", 9}}, Pattern::Random, 1).passed());
}

TEST(VerifyCheck, TensorsLieDenseAtEvenAndOddAddresses) {
    for (DType t : {DType::F16, DType::F64}) {
        std::set<uintptr_t> at;
        const Compile looks = [&](const Program& p) -> Result<Compiled> {
            return Compiled([&](const SymValues& s, const std::vector<Tensor>& in, Outputs& out) -> Status {
                for (const Tensor& x : in) at.insert(reinterpret_cast<uintptr_t>(x.data()) % 64);
                for (const Tensor& x : out) at.insert(reinterpret_cast<uintptr_t>(x.data()) % 64);
                return (*fake(nullptr)(p))(s, in, out);
            });
        };
        EXPECT_TRUE(
            check_program(matmul(t), looks, {.sizes = {.count = 3}, .patterns = {Pattern::Random, Pattern::Ties}})
                .passed());
        EXPECT_EQ(at, (std::set<uintptr_t>{0, size_of(t)}));
    }
}

TEST(VerifyCheck, SizesLieAroundTheWidthsThatTheKernelNames) {
    std::set<int64_t> seen;
    const Compile names = [&](const Program& p) -> Result<Compiled> {
        return Compiled(
            [&](const SymValues& s, const std::vector<Tensor>& in, Outputs& out) -> Status {
                seen.insert(s.at("n"));
                return (*fake(nullptr)(p))(s, in, out);
            },
            {1, 12, 12, 40});
    };
    const Report r = check_program(relu(), names, {});
    EXPECT_TRUE(r.passed()) << r.str();
    EXPECT_EQ(r.widths, (std::set<int64_t>{12, 40}));
    for (int64_t n : {0, 1, 2, 3, 11, 12, 13, 17, 39, 40, 41, 43}) EXPECT_TRUE(seen.count(n)) << n;
    EXPECT_GT(*seen.rbegin(), 100000);  // huge but thin
}

}  // namespace
}  // namespace opwright::verify
