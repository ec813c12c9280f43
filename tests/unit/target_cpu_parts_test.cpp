// Products of bf16 and of 8-bit integers, two or four positions of depth at a time where the processor can: against the
// reference, over ragged sizes, every pairing of signs, zero points, and with the instruction left out.
#include <gtest/gtest.h>

#include <cmath>

#include "derive/reference.h"
#include "lang/library.h"
#include "loop/print.h"
#include "loop/verify.h"
#include "runtime/thread_pool.h"
#include "target/cpu/features.h"
#include "target/cpu/plan.h"
#include "target_cpu_test_util.h"
#include "verify/cpu_target.h"
#include "verify/operator.h"

namespace opwright::target::cpu {
namespace {

math::Program declared(const std::string& source, const std::string& op) {
    lang::Library library;
    const Status s = library.add(std::make_shared<const Source>(Source{"test.op", source}));
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : render(s.error()));
    auto p = library.elaborate_symbolic(op);
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : render(p.error()));
    return *p;
}

std::string text_of(const math::Program& p, const char* level) {
    const Request r{.program = &p, .constant_inputs = std::vector<bool>(p.inputs.size()), .keep_text = true};
    auto k = compile(std::span(&r, 1), {.cache = false});
    EXPECT_TRUE(k[0].ok()) << (k[0].ok() ? "" : render(k[0].error()));
    return (*k[0])->text(level);
}

verify::Report check(const math::Program& p, const Options& o = {.cache = false}) {
    runtime::ThreadPool pool(2);
    return verify::check_program(p, verify::cpu_target(o, pool), {});
}

std::string integer_product(const std::string& a, const std::string& b, const std::string& x, const std::string& y,
                            const std::string& more = {}) {
    return "op product(x: " + a + "[m,k], w: " + b + "[k,n]" + more + ") -> y: i32[m,n]:\n    y[m,n] = sum[k](" + x + " * " + y +
           ")\n";
}
const std::string kX = "cast(x[m,k], i32)", kW = "cast(w[k,n], i32)";

TEST(TargetCpuParts, EveryPairingOfSignsIsExact) {
    for (const char* a : {"u8", "i8"})
        for (const char* b : {"u8", "i8"}) {
            const math::Program p = declared(integer_product(a, b, kX, kW), "product");
            if (host_features().vnni && host_features().masked) {
                EXPECT_NE(text_of(p, "schedule-json").find("\"parts\": 4"), std::string::npos) << a << b;
            }
            const verify::Report r = check(p);
            EXPECT_TRUE(r.passed()) << a << " by " << b << ": " << r.str();
        }
}

TEST(TargetCpuParts, ZeroPointsAreExact) {
    for (const char* a : {"u8", "i8"})
        for (const char* b : {"u8", "i8"}) {
            const std::string za = std::string(", u: ") + a, zb = std::string(", v: ") + b;
            const std::string row = "(" + kX + " - cast(u[m], i32))", one_row = "(" + kX + " - cast(u[], i32))",
                              column = "(" + kW + " - cast(v[n], i32))", plus = "(cast(v[n], i32) + " + kW + ")";
            for (const auto& [x, w, more] :
                 {std::tuple{row, kW, za + "[m]"}, {kX, column, zb + "[n]"}, {row, column, za + "[m]" + zb + "[n]"},
                  {one_row, plus, za + "[]" + zb + "[n]"}}) {
                const verify::Report r = check(declared(integer_product(a, b, x, w, more), "product"));
                EXPECT_TRUE(r.passed()) << a << " by " << b << " " << x << " " << w << ": " << r.str();
            }
        }
}

TEST(TargetCpuParts, TransposedFactorsAndBatchesAreExact) {
    for (const char* source :
         {"op product(x: i8[m,k], w: i8[n,k]) -> y: i32[m,n]:\n    y[m,n] = sum[k](cast(x[m,k], i32) * cast(w[n,k], i32))\n",
          "op product(x: u8[k,m], w: i8[k,n]) -> y: i32[m,n]:\n    y[m,n] = sum[k](cast(x[k,m], i32) * cast(w[k,n], i32))\n",
          "op product(x: u8[b,m,k], w: u8[k,n]) -> y: i32[b,m,n]:\n"
          "    y[b,m,n] = sum[k](cast(x[b,m,k], i32) * cast(w[k,n], i32))\n",
          "op product(x: bf16[b,m,k], w: bf16[b,n,k]) -> y: bf16[b,m,n]:\n    y[b,m,n] = sum[k](x[b,m,k] * w[b,n,k])\n",
          "op product(x: bf16[k,m], w: bf16[k,n]) -> y: f32[m,n]:\n"
          "    y[m,n] = sum[k](cast(x[k,m], f32) * cast(w[k,n], f32)) + 1\n"}) {
        const verify::Report r = check(declared(source, "product"));
        EXPECT_TRUE(r.passed()) << source << r.str();
    }
}

TEST(TargetCpuParts, Bf16StaysWithinItsBounds) {
    const math::Program p =
        declared("op product(x: bf16[m,k], w: bf16[k,n]) -> y: bf16[m,n]:\n    y[m,n] = max(sum[k](x[m,k] * w[k,n]), 0)\n", "product");
    if (host_features().bf16) {
        EXPECT_NE(text_of(p, "schedule-json").find("\"parts\": 2"), std::string::npos);
        // Results are rounded once, by the instruction.
        const std::string loops = text_of(p, "loop");
        EXPECT_NE(loops.find("bf16_of_normal("), std::string::npos);
        EXPECT_EQ(loops.find("bf16(sum"), std::string::npos) << loops;
    }
    const verify::Report r = check(p);
    EXPECT_TRUE(r.passed()) << r.str();
}

// Depths of several blocks, rows and columns of several tasks, and factors that are packed once for all runs.
TEST(TargetCpuParts, BlocksOfDepthAndConstantsAreExact) {
    const math::Program p = declared(
        integer_product("i8", "i8", "(" + kX + " - cast(u[m], i32))", "(" + kW + " - cast(v[n], i32))", ", u: i8[m], v: i8[n]"), "product");
    const std::string small = R"({"nests": [{"grid": [{"index": "m", "tile": 1}, {"index": "n", "tile": 1}],
        "contract": {"mr": 3, "nv": 1, "lanes": 16, "mt": 6, "nt": 32, "kc": 8, "parts": 4}}]})";
    if (host_features().vnni && host_features().masked) {
        const verify::Report r = check(p, {.cache = false, .schedule = small});
        EXPECT_TRUE(r.passed()) << r.str();
    }
    runtime::ThreadPool pool(2);
    for (const auto& [m, n, k] : {std::tuple{45, 70, 2101}, {70, 290, 1027}, {3, 600, 63}}) {
        lang::Library library;
        ASSERT_TRUE(library.add(std::make_shared<const Source>(Source{"test.op", integer_product("i8", "i8", "(" + kX + " - cast(u[m], i32))",
                                "(" + kW + " - cast(v[n], i32))", ", u: i8[m], v: i8[n]")})).ok());
        std::vector<lang::Argument> arguments;
        for (const Shape& s : {Shape{m, k}, Shape{k, n}, Shape{m}, Shape{n}}) {
            lang::Argument a{DType::I8, {}, true};
            for (int64_t d : s) a.shape.emplace_back(d);
            arguments.push_back(std::move(a));
        }
        const auto fixed = library.elaborate("product", arguments, {});
        ASSERT_TRUE(fixed.ok());
        std::vector<Tensor> in{Tensor(DType::I8, {m, k}), Tensor(DType::I8, {k, n}), Tensor(DType::I8, {m}), Tensor(DType::I8, {n})};
        uint32_t seed = 7;
        for (Tensor& t : in)
            for (int64_t i = 0; i < t.size(); ++i) t.as<int8_t>()[i] = static_cast<int8_t>((seed = seed * 1664525 + 1013904223) >> 24);
        const auto reference = derive::reference(*fixed, in, {}, {});
        ASSERT_TRUE(reference.ok());
        for (const std::vector<bool>& constant : {std::vector<bool>{false, false, false, false}, {false, true, false, true}, {true, false, true, false}}) {
            const Request request{.program = &*fixed, .constant_inputs = constant};
            auto kernel = compile(std::span(&request, 1), {.cache = false});
            ASSERT_TRUE(kernel[0].ok());
            std::vector<const void*> inputs, constants;
            for (size_t i = 0; i < in.size(); ++i) {
                inputs.push_back(in[i].data());
                constants.push_back(constant[i] ? in[i].data() : nullptr);
            }
            (*kernel[0])->pack_constants(constants, pool);
            Tensor out(DType::I32, {m, n}), workspace(DType::U8, {(*kernel[0])->workspace_bytes({})});
            void* to[] = {out.data()};
            for (int run = 0; run < 2; ++run) {
                std::memset(out.data(), 0x55, out.bytes());
                ASSERT_TRUE((*kernel[0])->run({inputs, to, {}, workspace.data()}, pool).ok());
                EXPECT_EQ(std::memcmp(out.data(), (*reference)[0].value.data(), out.bytes()), 0) << m << " " << n << " " << k;
            }
        }
    }
}

// Both types without the instruction: by a schedule that leaves it out, and at every level below.
TEST(TargetCpuParts, TheInstructionMayBeLeftOut) {
    for (const std::string& source :
         {integer_product("i8", "u8", kX, "(" + kW + " - cast(v[n], i32))", ", v: u8[n]"),
          std::string("op product(x: bf16[m,k], w: bf16[k,n]) -> y: bf16[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n")}) {
        const math::Program p = declared(source, "product");
        std::string schedule = text_of(p, "schedule-json");
        for (const char* parts : {",\n        \"parts\": 2", ",\n        \"parts\": 4"})
            if (const size_t at = schedule.find(parts); at != std::string::npos) schedule.erase(at, std::string(parts).size());
        EXPECT_EQ(schedule.find("parts"), std::string::npos) << schedule;
        verify::Report r = check(p, {.cache = false, .schedule = schedule});
        EXPECT_TRUE(r.passed()) << r.str();
        for (Level l : kLevels) {
            if (!features_at(l)) continue;
            r = check(p, {.level = std::string(name(l)), .cache = false});
            EXPECT_TRUE(r.passed()) << name(l) << ": " << r.str();
        }
    }
}

TEST(TargetCpuParts, WordsWhereThereAreNoneAreRefused) {
    const math::Program p = declared("op product(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n", "product");
    std::string schedule = text_of(p, "schedule-json");
    const size_t at = schedule.find("\"kc\"");
    ASSERT_NE(at, std::string::npos);
    schedule.insert(at, "\"parts\": 2, ");
    runtime::ThreadPool pool(1);
    const auto k = verify::cpu_target({.cache = false, .schedule = schedule}, pool)(p);
    ASSERT_FALSE(k.ok());
    EXPECT_EQ(k.error().message,
              "The schedule takes 2 positions of depth at a time for the contraction of y, and its factors are not that narrow.");
}

// The operation of the loop level, on more lanes than a register has, and where there is no instruction.
TEST(TargetCpuParts, DotProductsOfWords) {
    for (const Features& f : machine_levels())
        for (int lanes : {1, 4, 8, 16, 32})
            for (const loop::DotFn fn : {loop::DotFn::U8S8x4, loop::DotFn::Bf16x2}) {
                loop::Program p;
                loop::Builder b(p);
                const auto x = b.param("x", DType::I32, 0, loop::Access::Read), y = b.param("y", DType::I32, 1, loop::Access::Read);
                const auto z = b.param("z", loop::sum_type(fn), 2, loop::Access::ReadWrite);
                b.function("f", [&] {
                    b.store(z, b.i64(0), loop::dot(fn, b.load(x, b.i64(0), lanes), b.load(y, b.i64(0), lanes), b.load(z, b.i64(0), lanes)));
                });
                EXPECT_TRUE(loop::verify(p).empty());
                EXPECT_NE(loop::print(p).find(std::string(loop::name(fn)) + "("), std::string::npos) << loop::print(p);
                const auto m = compile_or_fail(p, f);
                std::vector<uint32_t> a(32), c(32);
                std::vector<int32_t> sums(32);
                std::vector<float> floats(32);
                for (uint32_t i = 0; i < 32; ++i) {
                    a[i] = fn == loop::DotFn::U8S8x4 ? 0xff80ff01u + i * 0x03050709u : 0x3f804000u + (i << 20);
                    c[i] = fn == loop::DotFn::U8S8x4 ? 0x807f80ffu - i * 0x01030507u : 0xc0003f80u;
                    sums[i] = i == 0 ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(i);
                    floats[i] = static_cast<float>(i);
                }
                const auto before = sums;
                if (fn == loop::DotFn::U8S8x4) {
                    run(m, "f", {{a.data(), c.data(), sums.data()}, {}});
                    for (size_t i = 0; i < static_cast<size_t>(lanes); ++i) {
                        int64_t want = before[i];
                        for (int s = 0; s < 32; s += 8) want += int64_t{static_cast<uint8_t>(a[i] >> s)} * static_cast<int8_t>(c[i] >> s);
                        ASSERT_EQ(sums[i], static_cast<int32_t>(want)) << name(f.level) << lanes;
                    }
                } else {
                    run(m, "f", {{a.data(), c.data(), floats.data()}, {}});
                    for (size_t i = 0; i < static_cast<size_t>(lanes); ++i) {
                        const auto part = [](uint32_t w, bool high) { return std::bit_cast<float>(high ? w & 0xffff0000u : w << 16); };
                        ASSERT_EQ(floats[i], static_cast<float>(i) + part(a[i], false) * part(c[i], false) + part(a[i], true) * part(c[i], true))
                            << name(f.level) << lanes;
                    }
                }
            }
}

TEST(TargetCpuParts, NormalNumbersBecomeBf16AsAllDo) {
    std::vector<float> x(4096);
    uint32_t bits = 1;
    for (float& v : x) {
        do v = std::bit_cast<float>(bits = bits * 1664525 + 1013904223);
        while (v != 0 && std::fabs(v) < 0x1p-126f);
    }
    const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, std::numeric_limits<float>::max(), 0x1p-126f,
                             std::bit_cast<float>(0x3f808000u), std::bit_cast<float>(0x3f818000u), std::bit_cast<float>(0x7fffffffu)};
    std::copy(std::begin(special), std::end(special), x.begin());
    for (const Features& f : machine_levels())
        for (int lanes : {8, 16, 32}) {
            std::vector<uint16_t> got(x.size()), want(x.size());
            const auto normal = [](loop::Expr v, loop::Expr) { return loop::bitcast(loop::cast_normal(v), DType::U16); };
            const auto plain = [](loop::Expr v, loop::Expr) { return loop::bitcast(loop::cast(v, DType::BF16), DType::U16); };
            const auto n = static_cast<int64_t>(x.size());
            map_bytes(f, lanes, DType::F32, DType::U16, normal, x.data(), nullptr, got.data(), n);
            map_bytes(f, lanes, DType::F32, DType::U16, plain, x.data(), nullptr, want.data(), n);
            for (size_t i = 0; i < x.size(); ++i) {
                if (std::isnan(x[i])) EXPECT_TRUE((got[i] & 0x7f80) == 0x7f80 && (got[i] & 0x7f)) << i;
                else EXPECT_EQ(got[i], want[i]) << x[i];
            }
        }
}

TEST(TargetCpuParts, DotProductsFold) {
    loop::Program p;
    loop::Builder b(p);
    int64_t v = 0;
    EXPECT_TRUE(loop::is_literal(loop::dot(loop::DotFn::U8S8x4, b.i32(0x010203ff), b.i32(0x0102fe80), b.i32(7)), &v));
    EXPECT_EQ(v, 7 + 1 * 1 + 2 * 2 + 3 * -2 + 255 * -128);
    const loop::Expr sum = loop::broadcast(b.i32(3), 16);
    EXPECT_EQ(loop::dot(loop::DotFn::U8S8x4, loop::ramp(b.i32(1), 1, 16), loop::broadcast(b.i32(0), 16), sum).id, sum.id);
    EXPECT_THROW(loop::dot(loop::DotFn::Bf16x2, b.i32(1), b.i32(1), b.i32(1)), std::logic_error);
    // Neighbours as one wider element, and back.
    const loop::Expr bytes = loop::broadcast(loop::literal_int(p, DType::U8, 1), 64);
    const loop::Expr words = loop::bitcast(bytes, loop::Type{DType::I32, 16});
    EXPECT_EQ(words.type().lanes, 16);
    EXPECT_EQ(loop::bitcast(words, loop::Type{DType::U8, 64}).id, bytes.id);
    EXPECT_THROW(loop::bitcast(words, loop::Type{DType::U8, 32}), std::logic_error);
    EXPECT_TRUE(loop::verify(p).empty());
}

}  // namespace
}  // namespace opwright::target::cpu
