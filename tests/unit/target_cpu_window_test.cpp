// Contractions over windows, read from slabs (schedule/window.h): which declarations are that, and that every form of
// window gives what the reference gives, on each vector unit of this machine.
#include <gtest/gtest.h>

#include "declared.h"
#include "runtime/thread_pool.h"
#include "schedule/schedule.h"
#include "schedule/window.h"
#include "target/cpu/features.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright {
namespace {

struct Case {
    const char *name, *shapes, *source;
    bool window;  // whether the default schedule reads it from slabs
};
const Case kCases[] = {
    {"padded 3x3", "n c h v; m c 3 3",
     "op f(x[n,c,h,v], w[m,c,3,3]) -> y[n,m,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,m,p,q] = sum[c,k,l](x[n,c,p+k-1,q+l-1] outside zero * w[m,c,k,l])\n",
     true},
    {"stride 2, epilogue", "n c h v; m c 3 3; m",
     "op f(x[n,c,h,v], w[m,c,3,3], b[m]) -> y[n,m,p,q]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
     "    y[n,m,p,q] = max(sum[c,k,l](x[n,c,2*p+k-1,2*q+l-1] outside zero * w[m,c,k,l]) + b[m], 0)\n",
     true},
    {"stride 3 of 2 taps, no padding", "c h v; m c 2 2",
     "op f(x[c,h,v], w[m,c,2,2]) -> y[m,p,q]:\n    p in 0..(h - 2) // 3 + 1\n    q in 0..(v - 2) // 3 + 1\n"
     "    y[m,p,q] = sum[c,k,l](x[c,3*p+k,3*q+l] outside zero * w[m,c,k,l])\n",
     true},
    {"dilated, one dim", "n c t; m c 5",
     "op f(x[n,c,t], w[m,c,5]) -> y[n,m,t]:\n    y[n,m,t] = sum[c,k](x[n,c,t+3*k-6] outside zero * w[m,c,k])\n", true},
    {"depthwise 5x5", "n c h v; c 5 5",
     "op f(x[n,c,h,v], w[c,5,5]) -> y[n,c,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,c,p,q] = sum[k,l](x[n,c,p+k-2,q+l-2] outside zero * w[c,k,l])\n",
     true},
    {"depthwise 3x3", "n c h v; c 3 3",
     "op f(x[n,c,h,v], w[c,3,3]) -> y[n,c,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,c,p,q] = sum[k,l](x[n,c,p+k-1,q+l-1] outside zero * w[c,k,l])\n",
     false},
    {"depthwise 7x7, stride 2, prologue", "c h v; c 7 7",
     "op f(x[c,h,v], w[c,7,7]) -> y[c,p,q]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
     "    y[c,p,q] = sum[k,l]((max(x[c,2*p+k-3,2*q+l-3] outside zero, 0) - 1) * w[c,k,l])\n",
     true},
    {"three dims", "c d h v; m c 2 3 3",
     "op f(x[c,d,h,v], w[m,c,2,3,3]) -> y[m,o,p,q]:\n    o in 0..d\n    p in 0..h\n    q in 0..v\n"
     "    y[m,o,p,q] = sum[c,j,k,l](x[c,o+j,p+k-1,q+l-1] outside zero * w[m,c,j,k,l])\n",
     true},
    {"1x1, stride 2", "c h v; m c",
     "op f(x[c,h,v], w[m,c]) -> y[m,p,q]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
     "    y[m,p,q] = sum[c](x[c,2*p,2*q] outside zero * w[m,c])\n",
     true},
    {"padded 3x3, channels last", "n h v c; m 3 3 c; m",
     "op f(x[n,h,v,c], w[m,3,3,c], b[m]) -> y[n,p,q,m]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,p,q,m] = max(sum[k,l,c](x[n,p+k-1,q+l-1,c] outside zero * w[m,k,l,c]) + b[m], 0)\n",
     true},
    {"stride 2, channels last, heavy epilogue", "n h v c; m c 3 3; m",
     "op f(x[n,h,v,c], w[m,c,3,3], z[m]) -> y[n,p,q,m]:\n    p in 0..(h - 1) // 2 + 1\n    q in 0..(v - 1) // 2 + 1\n"
     "    y[n,p,q,m] = tanh(sum[c,k,l](x[n,2*p+k-1,2*q+l-1,c] outside zero * w[m,c,k,l])) * z[m]\n",
     true},
    {"channels last from channels first", "n c h v; m c 3 3",
     "op f(x[n,c,h,v], w[m,c,3,3]) -> y[n,p,q,m]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,p,q,m] = sum[c,k,l](x[n,c,p+k-1,q+l-1] outside zero * w[m,c,k,l])\n",
     true},
    {"no padding, channels last, one dim dilated", "n t c; m c 3",
     "op f(x[n,t,c], w[m,c,3]) -> y[n,p,m]:\n    p in 0..t - 4\n"
     "    y[n,p,m] = sum[c,k](x[n,p+2*k,c] * w[m,c,k])\n",
     true},
    {"groups, channels last", "h v g c; g m c 3 3",
     "op f(x[h,v,g,c], w[g,m,c,3,3]) -> y[p,q,g,m]:\n    p in 0..h\n    q in 0..v\n"
     "    y[p,q,g,m] = sum[c,k,l](x[p+k-1,q+l-1,g,c] outside zero * w[g,m,c,k,l])\n",
     true},
    {"depthwise 3x3, channels last", "n h v c; c 3 3; c",
     "op f(x[n,h,v,c], w[c,3,3], b[c]) -> y[n,p,q,c]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,p,q,c] = max(sum[k,l](x[n,p+k-1,q+l-1,c] outside zero * w[c,k,l]) + b[c], 0)\n",
     true},
    {"depthwise 3x3 of one picture, channels last", "1 h v c; c 3 3",
     "op f(x[1,h,v,c], w[c,3,3]) -> y[p,q,c]:\n    p in 0..h\n    q in 0..v\n"
     "    y[p,q,c] = sum[k,l](x[0,p+k-1,q+l-1,c] outside zero * w[c,k,l])\n",
     true},
    {"depthwise 3x3, dilated, channels last", "n h v 24; 24 3 3",
     "op f(x[n,h,v,24], w[24,3,3]) -> y[n,p,q,c]:\n    p in 0..h\n    q in 0..v\n"
     "    y[n,p,q,c] = sum[k,l](x[n,p+2*k-2,q+2*l-2,c] outside zero * w[c,k,l])\n",
     true},
    {"depthwise 5x5 of small pictures, stride 2, channels last", "n 9 8 c; 5 5 c",
     "op f(x[n,9,8,c], w[5,5,c]) -> y[n,p,q,c]:\n    p in 0..5\n    q in 0..4\n"
     "    y[n,p,q,c] = tanh(sum[k,l](x[n,2*p+k-2,2*q+l-2,c] outside zero * w[k,l,c]))\n",
     true},
    {"depthwise, one dim, prologue, channels last", "n t c; c 4",
     "op f(x[n,t,c], w[c,4]) -> y[n,t,c]:\n"
     "    y[n,t,c] = sum[k](max(x[n,t+k-3,c] outside zero, 0) * w[c,k])\n",
     true},
    {"depthwise without padding, channels last", "n h v c; c 2 3",
     "op f(x[n,h,v,c], w[c,2,3]) -> y[n,p,q,c]:\n    p in 0..h - 1\n    q in 0..v - 2\n"
     "    y[n,p,q,c] = sum[k,l](x[n,p+k,q+l,c] * w[c,k,l])\n",
     true},
    {"groups", "g c h v; g m c 3 3",
     "op f(x[g,c,h,v], w[g,m,c,3,3]) -> y[g,m,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[g,m,p,q] = sum[c,k,l](x[g,c,p+k-1,q+l-1] outside zero * w[g,m,c,k,l])\n",
     true},
    {"two tensors in a window", "c h v; c h v; m c 3 3",
     "op f(x[c,h,v], z[c,h,v], w[m,c,3,3]) -> y[m,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[m,p,q] = sum[c,k,l]((x[c,p+k-1,q+l-1] outside zero + z[c,p+k-1,q+l-1] outside zero) * w[m,c,k,l])\n",
     true},
    {"a window that knows its tap", "c h v; m c 3 3",
     "op f(x[c,h,v], w[m,c,3,3]) -> y[m,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[m,p,q] = sum[c,k,l](x[c,p+k-1,q+l-1] outside zero * cast(l + 1, f32) * w[m,c,k,l])\n",
     false},
    {"windows of unlike reach", "c h v; c h v; m c 3 3",
     "op f(x[c,h,v], z[c,h,v], w[m,c,3,3]) -> y[m,p,q]:\n    p in 0..h\n    q in 0..v\n"
     "    y[m,p,q] = sum[c,k,l]((x[c,p+k-1,q+l-1] outside zero + z[c,p+k-1,q+2*l-2] outside zero) * w[m,c,k,l])\n",
     false},
    {"taps of unknown number", "c t; m c k",
     "op f(x[c,t], w[m,c,k]) -> y[m,t]:\n    y[m,t] = sum[c,k](x[c,t+k] outside zero * w[m,c,k])\n", false},
};

schedule::Kernel kernel(const math::Program& p) { return schedule::form_kernel_with_rows(p, {}); }

TEST(CpuWindow, IsSeenByItsAccesses) {
    for (const Case& c : kCases) {
        const schedule::Kernel k = kernel(declared(c.source, c.shapes));
        const schedule::Schedule s = schedule::default_cpu_schedule(k, {.vector_bytes = 64, .vector_registers = 32});
        ASSERT_EQ(s.nests.size(), 1u) << c.name;
        EXPECT_EQ(k.nests[0].contraction && schedule::from_windows(s.nests[0].contract), c.window) << c.name;
    }
}

TEST(CpuWindow, GivesWhatTheReferenceGives) {
    static runtime::ThreadPool pool(2);
    for (target::cpu::Level l : target::cpu::kLevels) {
        if (!target::cpu::features_at(l)) continue;
        const std::string level(target::cpu::name(l));
        for (const Case& c : kCases) {
            verify::CheckOptions o;
            o.sizes.count = 12;
            o.sizes.max_work = 1 << 17;
            const verify::Report r =
                verify::check_program(declared(c.source, c.shapes), verify::cpu_target({.level = level, .cache = false}, pool), o);
            EXPECT_TRUE(r.passed()) << level << ", " << c.name << ": " << r.str();
            EXPECT_GT(r.cases, 10) << c.name;
        }
    }
}

TEST(CpuWindow, StandsInTheScheduleAsJson) {
    const schedule::Kernel k = kernel(declared(kCases[0].source, kCases[0].shapes));
    const schedule::Schedule s = schedule::default_cpu_schedule(k, {.vector_bytes = 64, .vector_registers = 32});
    const std::string json = schedule::to_json(s, k);
    EXPECT_NE(json.find("\"window\": true"), std::string::npos) << json;
    const auto back = schedule::from_json(json, k);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(schedule::to_json(*back, k), json);
}

TEST(CpuWindow, IsRefusedWhereThereIsNone) {
    runtime::ThreadPool pool(1);
    const math::Program p =
        declared("op f(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * (w[k,n] + cast(n, f32)))\n", "m k; k n");
    const auto r = verify::cpu_target(
        {.cache = false,
         .schedule = R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}],
                         "contract": {"mr": 3, "nv": 1, "lanes": 4, "mt": 6, "nt": 8, "window": true}}]})"},
        pool)(p);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "The schedule reads windows for the contraction of y, which has none.");
}

}  // namespace
}  // namespace opwright
