// Nests that run together, some rows at a time (schedule/together.h): which kernels have them, that what is computed is the
// same to the bit, that temporaries shrink to the rows of a task, and that wrong schedules are refused.
#include <gtest/gtest.h>

#include <cstring>

#include "base/tensor.h"
#include "declared.h"
#include "runtime/thread_pool.h"
#include "schedule/together.h"
#include "schedule/window.h"
#include "target/cpu/features.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright {
namespace {

const char* const kAttention =
    "op f(q[b,h,i,d], k[b,h,j,d], v[b,h,j,e]) -> y[b,h,i,e]:\n"
    "    s[b,h,i,j] = sum[d](q[b,h,i,d] * k[b,h,j,d]) * 0.125\n"
    "    m[b,h,i] = max[j](s[b,h,i,j])\n"
    "    p[b,h,i,j] = exp(s[b,h,i,j] - m[b,h,i])\n"
    "    t[b,h,i] = sum[j](p[b,h,i,j])\n"
    "    y[b,h,i,e] = sum[j](p[b,h,i,j] * v[b,h,j,e]) / t[b,h,i]\n";

const char* const kShapes = "b h i d; b h j d; b h j e";

std::optional<schedule::Together> together(const char* source, const char* shapes) {
    return schedule::match_together(schedule::form_kernel_with_rows(declared(source, shapes), {}), 0);
}

TEST(ScheduleTogether, AttentionIsScoresRowsAndMix) {
    const auto t = together(kAttention, kShapes);
    ASSERT_TRUE(t);
    EXPECT_EQ(t->last, 2u);
    EXPECT_GE(t->held.size(), 2u);  // the scores and their exponentials
    EXPECT_TRUE(t->rows == math::Sym::symbol("i"));
    EXPECT_TRUE(t->batches == math::Sym::symbol("b") * math::Sym::symbol("h"));
}

TEST(ScheduleTogether, OthersAreNone) {
    // Weights that all rows share.
    EXPECT_FALSE(together("op f(x[i,d], w[d,j], u[j,e]) -> y[i,e]:\n    s[i,j] = max(sum[d](x[i,d] * w[d,j]), 0)\n"
                          "    y[i,e] = sum[j](s[i,j] * u[j,e])\n", "i d; d j; j e"));
    // The second product has its rows along what the first has as columns.
    EXPECT_FALSE(together("op f(x[b,i,d], w[b,d,j], u[b,i,e]) -> y[b,j,e]:\n    s[b,i,j] = sum[d](x[b,i,d] * w[b,d,j])\n"
                          "    y[b,j,e] = sum[i](s[b,i,j] * u[b,i,e])\n", "b i d; b d j; b i e"));
    // A norm over all rows.
    EXPECT_FALSE(together("op f(x[b,i,d], w[b,d,j], u[b,j,e]) -> y[b,i,e]:\n    s[b,i,j] = sum[d](x[b,i,d] * w[b,d,j])\n"
                          "    m[b,j] = max[i](s[b,i,j])\n"
                          "    y[b,i,e] = sum[j]((s[b,i,j] - m[b,j]) * u[b,j,e])\n", "b i d; b d j; b j e"));
    // A convolution, whose windows want slabs and layouts.
    EXPECT_FALSE(together("op f(x[b,c,h,v], w[m,c,3,3]) -> y[b,m]:\n    p in 0..h - 2\n    q in 0..v - 2\n"
                          "    s[b,m,p,q] = sum[c,k,l](x[b,c,p+k,q+l] * w[m,c,k,l])\n"
                          "    t[b,m,p] = sum[q](s[b,m,p,q])\n    y[b,m] = sum[p](t[b,m,p])\n", "b c h v; m c 3 3"));
    // Both factors of the second product are made of the first.
    EXPECT_FALSE(together("op f(x[b,i,d], w[b,d,i]) -> y[b,i,e]:\n    e in 0..size(i)\n    s[b,i,j] = sum[d](x[b,i,d] * w[b,d,j])\n"
                          "    y[b,i,e] = sum[j](s[b,i,j] * s[b,j,e])\n", "b 9 d; b d 9"));
}

TEST(ScheduleTogether, GivesWhatTheReferenceGives) {
    static runtime::ThreadPool pool(2);
    for (target::cpu::Level l : target::cpu::kLevels) {
        if (!target::cpu::features_at(l)) continue;
        const std::string level(target::cpu::name(l));
        for (const char* shapes : {kShapes, "2 3 i d; 2 3 j d; 2 3 j e", "b h 61 16; b h 77 16; b h 77 40"}) {
            verify::CheckOptions o;
            o.sizes.count = 10;
            o.sizes.max_work = 1 << 17;
            const verify::Report r =
                verify::check_program(declared(kAttention, shapes), verify::cpu_target({.level = level, .cache = false}, pool), o);
            EXPECT_TRUE(r.passed()) << level << ", " << shapes << ": " << r.str();
            EXPECT_GT(r.cases, 8) << shapes;
        }
    }
}

// The same kernel with its nests together and apart.
struct Both {
    schedule::Kernel kernel;
    std::string together, apart;
    explicit Both(const math::Program& p) : kernel(schedule::form_kernel_with_rows(p, {})) {
        schedule::Schedule s = schedule::default_cpu_schedule(kernel, {.vector_bytes = 32, .vector_registers = 16});
        EXPECT_GT(s.nests[0].together, 0);
        together = schedule::to_json(s, kernel);
        s.nests[0].together = 0;
        apart = schedule::to_json(s, kernel);
    }
};

TEST(ScheduleTogether, IsTheSameToTheBitAsApartAndNeedsLessMemory) {
    const math::Program p = declared(kAttention, kShapes);
    const Both both(p);
    const int64_t b = 2, h = 3, i = 131, j = 259, d = 24, e = 40;
    const math::SymValues sizes{{"b", b}, {"h", h}, {"i", i}, {"j", j}, {"d", d}, {"e", e}};
    std::vector<Tensor> in{Tensor(DType::F32, {b, h, i, d}), Tensor(DType::F32, {b, h, j, d}), Tensor(DType::F32, {b, h, j, e})};
    uint32_t state = 1;
    for (Tensor& t : in)
        for (int64_t n = 0; n < t.size(); ++n) state = state * 1664525u + 1013904223u, t.set(n, (state >> 8) / 4194304.0 - 2);
    for (int threads : {1, 2, 3}) {
        runtime::ThreadPool pool(threads);
        std::vector<Tensor> out;
        std::vector<int64_t> memory;
        for (const std::string* json : {&both.together, &both.apart}) {
            target::cpu::Request request{.program = &p};
            const auto kernels = target::cpu::compile({&request, 1}, {.level = "avx2", .cache = false, .schedule = *json});
            ASSERT_TRUE(kernels[0].ok()) << render(kernels[0].error());
            std::vector<int64_t> symbols;
            for (const std::string& s : p.symbols()) symbols.push_back(sizes.at(s));
            memory.push_back((*kernels[0])->workspace_bytes(symbols));
            Tensor workspace(DType::I8, {std::max<int64_t>(memory.back(), 1)});
            out.emplace_back(DType::F32, Shape{b, h, i, e});
            std::vector<const void*> inputs;
            for (const Tensor& t : in) inputs.push_back(t.data());
            void* outputs[] = {out.back().data()};
            const auto ran = (*kernels[0])->run({.inputs = inputs, .outputs = outputs, .symbols = symbols, .workspace = workspace.data()}, pool);
            ASSERT_TRUE(ran.ok());
        }
        EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].bytes()), 0) << threads;
        // Scores and exponentials of all rows are what it spares.
        EXPECT_GE(memory[1] - memory[0], 2 * b * h * i * j * 4);
    }
}

TEST(ScheduleTogether, StandsInTheScheduleAsJson) {
    const Both both(declared(kAttention, kShapes));
    EXPECT_NE(both.together.find("\"rows_together\": 48"), std::string::npos) << both.together;
    const auto back = schedule::from_json(both.together, both.kernel);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(schedule::to_json(*back, both.kernel), both.together);
}

TEST(ScheduleTogether, WrongSchedulesAreRefused) {
    runtime::ThreadPool pool(1);
    const auto message = [&](const math::Program& p, const std::string& json) {
        const auto r = verify::cpu_target({.level = "avx2", .cache = false, .schedule = json}, pool)(p);
        EXPECT_FALSE(r.ok());
        return r.ok() ? std::string() : r.error().message;
    };
    const math::Program p = declared(kAttention, kShapes);
    const Both both(p);
    std::string odd = both.together;
    odd.replace(odd.find("\"rows_together\": 48"), 19, "\"rows_together\": 50");
    EXPECT_EQ(message(p, odd), "The schedule runs nests 0 to 2 of f together, 50 rows at a time, but nest 0 has register tiles of 6 rows, which must divide that number.");
    const math::Program product = declared("op f(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n", "m k; k n");
    EXPECT_EQ(message(product, R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}], "rows_together": 48,
                         "contract": {"mr": 3, "nv": 1, "lanes": 8, "kc": 64, "mt": 48, "nt": 8}}]})"),
              "The schedule runs nest 0 of f together with those behind it, which do not work on its rows.");
}

}  // namespace
}  // namespace opwright
