// Replay files: exact, and harmless whatever they hold.
#include "verify/replay.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "verify/operator.h"
#include "verify_test_util.h"

namespace opwright::verify {
namespace {
using namespace test;
using testing::HasSubstr;

constexpr const char* kDeclaration = R"(op scale(x[m,n], w[n]; by = 2.0) -> y[m,n]:
    "x times a number and a row."
    y[m,n] = x[m,n] * w[n] * by
    example x = f32[2,3], w = f32[3]; by = 3.0
)";

Replay example() {
    Replay r;
    r.declaration = kDeclaration;
    r.origin.op = "scale";
    r.origin.arguments = {{DType::F32, {math::Sym::symbol("n2"), math::Sym(3)}}, {DType::F32, {math::Sym(3)}}};
    r.attributes = "by = 3.0";
    Tensor x(DType::F32, {2, 3}), w(DType::F32, {3});
    const float special[] = {-0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-45f, 3.1f, -INFINITY, 7};
    std::memcpy(x.data(), special, sizeof special);
    for (int64_t i = 0; i < 3; ++i) w.set(i, i + 0.1);
    r.c = {{{"n2", 2}}, {x, w}, {Layout::Transposed, Layout::Misaligned}, Pattern::Nan, 17};
    r.found = "wrong: \"quoted\"";
    return r;
}

TEST(VerifyReplay, EverythingComesBackToTheBit) {
    const Replay r = example();
    const std::string text = to_json(r);
    const auto back = read_replay(text);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(to_json(*back), text);
    EXPECT_EQ(std::memcmp(back->c.inputs[0].data(), r.c.inputs[0].data(), 24), 0);
    EXPECT_EQ(back->c.layouts, r.c.layouts);
    EXPECT_EQ(back->c.pattern, Pattern::Nan);
    const auto built = rebuild(*back);
    ASSERT_TRUE(built.ok()) << built.error().message;
    EXPECT_EQ(built->c.sizes.at("n2"), 2);
    const auto y = derive::reference(*built->program, built->c.inputs, built->c.sizes);
    ASSERT_TRUE(y.ok());
    EXPECT_NEAR((*y)[0].value.get(5), 7 * 2.1 * 3, 1e-5);
}

TEST(VerifyReplay, EveryTypeKeepsItsBits) {
    for (int t = 0; t < kDTypeCount; ++t) {
        Replay r = example();
        const auto type = static_cast<DType>(t);
        Tensor x(type, {2, 2});
        for (size_t i = 0; i < x.bytes(); ++i)
            x.as<unsigned char>()[i] = static_cast<unsigned char>(type == DType::Bool ? i % 2 : 37 * i + 200);
        r.c.inputs = {x};
        r.c.layouts = {Layout::Reversed};
        const auto back = read_replay(to_json(r));
        ASSERT_TRUE(back.ok()) << back.error().message;
        EXPECT_EQ(std::memcmp(back->c.inputs[0].data(), x.data(), x.bytes()), 0) << name(type);
    }
}

TEST(VerifyReplay, AFailureOfAnOperatorIsRebuiltAsItWas) {
    lang::Library library;
    ASSERT_TRUE(library.add(std::make_shared<const Source>(Source{"scale.op", kDeclaration})).ok());
    const Compile wrong = spoilt([](auto&, auto&, auto&, std::vector<Tensor>& y) {
        if (y[0].size() > 4) y[0].set(4, 1e9);
    });
    const Report r = check_operator(library, "scale", wrong);
    ASSERT_TRUE(r.failure);
    Replay file{.declaration = kDeclaration, .origin = r.failure->origin, .c = r.failure->c};
    file.attributes = attributes_text(r.failure->origin.attributes);
    const auto back = read_replay(to_json(file));
    ASSERT_TRUE(back.ok()) << back.error().message;
    const auto built = rebuild(*back);
    ASSERT_TRUE(built.ok()) << built.error().message;
    EXPECT_EQ(built->program->canonical(), r.failure->program->canonical());
    const auto kernel = wrong(*built->program);
    EXPECT_EQ(run_case(*built->program, *kernel, built->c).message, r.failure->report.message);
}

TEST(VerifyReplay, WhatIsWrongIsNamed) {
    using nlohmann::json;
    const auto error = [](const std::function<void(json&)>& change) {
        json j = json::parse(to_json(example()));
        change(j);
        const auto r = read_replay(j.dump());
        if (!r.ok()) return r.error().message;
        const auto b = rebuild(*r);
        return b.ok() ? std::string("none") : b.error().message;
    };
    EXPECT_EQ(error([](json&) {}), "none");
    EXPECT_THAT(error([](json& j) { j["opwright_replay"] = 2; }), HasSubstr("of format 2"));
    EXPECT_THAT(error([](json& j) { j["inputs"][0]["shape"] = {1 << 30, 1 << 30}; }), HasSubstr("bits of input 0"));
    EXPECT_THAT(error([](json& j) { j["inputs"][0]["shape"] = {int64_t{1} << 62, 16}; }), HasSubstr("bits of input 0"));
    EXPECT_THAT(error([](json& j) { j["inputs"][0]["bits"] = "0000zzzz 0 0 0 0 0"; }), HasSubstr("input 0"));
    EXPECT_THAT(error([](json& j) { j["inputs"][0]["layout"] = "diagonal"; }), HasSubstr("layout"));
    EXPECT_THAT(error([](json& j) { j["inputs"].erase(1); }), HasSubstr("takes 2"));
    EXPECT_THAT(error([](json& j) { j["inputs"][1]["type"] = "i32"; }), HasSubstr("takes f32"));
    EXPECT_THAT(error([](json& j) { j["operator"] = "other"; }), HasSubstr("'other'"));
    EXPECT_THAT(error([](json& j) { j["arguments"][0]["shape"][1] = -3; }), HasSubstr("extents"));
    EXPECT_NE(error([](json& j) { j["attributes"] = "by = \"x\""; }), "none");
    EXPECT_NE(error([](json& j) { j["declaration"] = "op scale("; }), "none");
    EXPECT_NE(error([](json& j) { j.erase("sizes"); }), "none");
    EXPECT_FALSE(read_replay("").ok());
    EXPECT_FALSE(read_replay("[1, 2").ok());
    EXPECT_FALSE(read_replay(std::string(100000, '[')).ok());
}

TEST(VerifyReplay, WorkBeyondReasonIsRefused) {
    Replay r = example();
    r.declaration =
        "op big(x[n]; count = 1) -> y[n]:\n    \"A long sum.\"\n    y[n] = sum[k in 0..count](x[n])\n"
        "    example x = f32[2]\n";
    r.origin.op = "big";
    r.origin.arguments = {{DType::F32, {math::Sym(2)}}};
    r.attributes = "count = 1000000000000";
    r.c.inputs = {Tensor(DType::F32, {2})};
    std::memset(r.c.inputs[0].data(), 0, 8);
    r.c.layouts.clear();
    const auto b = rebuild(r);
    ASSERT_FALSE(b.ok());
    EXPECT_THAT(b.error().message, HasSubstr("larger than any"));
}

TEST(VerifyReplay, NoTextCrashes) {
    const std::string good = to_json(example());
    std::mt19937 random(5);
    int read = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string bad = good;
        for (int k = 0; k < 1 + i % 5; ++k) {
            const size_t at = random() % bad.size();
            if (random() % 4 == 0)
                bad.erase(at, random() % 20);
            else
                bad[at] = static_cast<char>(" 0123456789[]{},:\"ax-"[random() % 20]);
        }
        if (const auto r = read_replay(bad); r.ok()) {
            ++read;
            if (const auto b = rebuild(*r); b.ok()) {
                const auto y = derive::reference(*b->program, b->c.inputs, b->c.sizes);
                EXPECT_TRUE(y.ok() || !y.error().message.empty());
            }
        }
    }
    EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace opwright::verify
