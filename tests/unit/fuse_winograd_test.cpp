// Winograd's form of convolutions (fuse/winograd.h): where it is taken and why not elsewhere, and that each of its kernels and
// the whole are within the bounds of the reference.
#include "fuse/winograd.h"

#include <gmock/gmock.h>

#include "explain/fusion_report.h"
#include "fuse_net.h"
#include "target/target.h"
#include "verify/graph_check.h"
#include "verify/model_noise.h"

namespace opwright::fuse {
namespace {
using testing::HasSubstr;

// A block as ResNets have it, of pictures that tiles of 4 x 4 do not divide, between convolutions that stay as they are.
Net block(Sym batch, int64_t size, int64_t channels) {
    Net d;
    const ValueId x = d.in("x", {batch, 3, size, size}), first = d.unary("first", Fn::Abs, d.conv("stem", x, channels, 3, 2));
    const ValueId one = d.unary("one", Fn::Tanh, d.conv("a", first, channels + 8, 3, 1));
    const ValueId two = d.binary("two", Fn::Add, d.conv("b", one, channels, 3, 1), first);
    const ValueId deep = d.unary("deep", Fn::Abs, d.conv("depthwise", two, 0, 3, 1, true));
    d.g.outputs = {d.conv("last", deep, 8, 1, 1)};
    return d;
}

Result<Compiled> compiled(const graph::Graph& g, const WinogradOptions& w, runtime::ThreadPool& pool, bool fuse = true) {
    CompileOptions o;
    o.check = true;
    o.fuse = fuse;
    o.winograd = w;
    o.fusion.machine = typical_cpu(2, 64, 32);  // not what was measured here last
    o.execution.cpu.cache = false;
    return compile(g, o, pool);
}

const WinogradChoice& choice(const Compiled& c, const std::string& node) {
    for (const WinogradChoice& w : c.winograd)
        if (w.node == node) return w;
    static const WinogradChoice none;
    ADD_FAILURE() << "no record of " << node;
    return none;
}

void expect_right(const graph::Graph& g, const WinogradOptions& w, const std::vector<Tensor>& inputs) {
    runtime::ThreadPool pool(2);
    const auto plain = compiled(g, {}, pool, false), winograd = compiled(g, w, pool), apart = compiled(g, w, pool, false);
    ASSERT_TRUE(plain.ok() && winograd.ok() && apart.ok());
    for (const Compiled* c : {&*winograd, &*apart})
        EXPECT_EQ(std::count_if(c->winograd.begin(), c->winograd.end(), [](const auto& x) { return x.taken; }), static_cast<long>(w.at.size()));
    // Each kernel within the bound of what it computes, ...
    const auto r = verify::check_graph(*winograd, nullptr, inputs, pool);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->wrong, 0u);
    EXPECT_EQ(r->compared, r->kernels.size());
    // ... and the whole, beside the convolutions as they are declared, within what follows from those bounds.
    const auto noise = verify::model_noise(*apart, inputs, pool);
    const auto got = winograd->executable->run(inputs, pool), want = plain->executable->run(inputs, pool);
    ASSERT_TRUE(noise.ok() && got.ok() && want.ok());
    double difference = 0, allowed = 0, largest = 0;
    for (int64_t i = 0; i < (*want)[0].size(); ++i) {
        difference = std::max(difference, std::fabs((*got)[0].get(i) - (*want)[0].get(i)));
        allowed = std::max(allowed, 2 * noise->move[0].get(i));
        largest = std::max(largest, std::fabs((*want)[0].get(i)));
    }
    EXPECT_GT(difference, 0);
    EXPECT_LE(difference, allowed);
    EXPECT_LT(allowed, 0.01 * largest);
}

TEST(FuseWinograd, IsTakenWhereItPaysAndSaysWhyNotElsewhere) {
    const Net d = block(1, 60, 32);
    runtime::ThreadPool pool(1);
    const auto c = compiled(d.g, {.use = true}, pool);
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(choice(*c, "stem").reason, "its stride is 2");
    EXPECT_EQ(choice(*c, "depthwise").reason, "it has groups");
    for (const char* node : {"a", "b"}) {
        const WinogradChoice& w = choice(*c, node);
        EXPECT_TRUE(w.taken) << w.reason;
        EXPECT_LT(w.winograd, w.direct);
        EXPECT_THAT(w.reason, HasSubstr("predicted, tiles of "));
    }
    const std::string text = explain::fusion_text(*c);
    EXPECT_THAT(text, HasSubstr("- stem: as it is declared; its stride is 2."));
    EXPECT_THAT(text, HasSubstr("- a: taken; "));
    // The weights' transform has run: three kernels are left of each, the last with what follows the convolution.
    size_t kernels = 0;
    for (graph::NodeId n = 0; n < c->executable->graph().nodes.size(); ++n)
        if (c->executable->kernel(n)) kernels += c->executable->graph().nodes[n].sources.back().type.starts_with("winograd");
    EXPECT_EQ(kernels, 4u);
    // Not asked for, it is nowhere.
    const auto without = compiled(d.g, {}, pool);
    ASSERT_TRUE(without.ok());
    EXPECT_TRUE(without->winograd.empty());
}

TEST(FuseWinograd, ResultsAreWithinTheBounds) {
    const Net open = block(Sym::symbol("batch"), 15, 8), one = block(1, 24, 8);
    for (const int tile : {2, 4}) {  // 8 x 8 and 12 x 12 results, of two pictures and of one
        const WinogradOptions w{.use = true, .at = {{"a", tile}, {"b", tile}}};
        expect_right(open.g, w, {counted({2, 3, 15, 15})});
        expect_right(one.g, w, {counted({1, 3, 24, 24})});
    }
    // 7 x 7 results, which neither divides; one of the two convolutions.
    expect_right(block(1, 14, 8).g, {.use = true, .at = {{"b", 4}}}, {counted({1, 3, 14, 14})});
    expect_right(block(1, 14, 8).g, {.use = true, .at = {{"a", 2}}}, {counted({1, 3, 14, 14})});
}

TEST(FuseWinograd, SmallLayersGainNothing) {
    Net d;
    const ValueId x = d.in("x", {1, 4, 8, 8});
    d.g.outputs = {d.unary("y", Fn::Abs, d.conv("small", x, 4, 3, 1))};
    runtime::ThreadPool pool(1);
    const auto c = compiled(d.g, {.use = true}, pool);
    ASSERT_TRUE(c.ok());
    EXPECT_FALSE(choice(*c, "small").taken);
    EXPECT_THAT(choice(*c, "small").reason, HasSubstr("no gain of a tenth: "));
}

TEST(FuseWinograd, OtherTargetsRefuseIt) {
    const Net d = block(1, 60, 32);
    runtime::ThreadPool pool(1);
    CompileOptions o;
    o.winograd.use = true;
    o.execution.target = *target::find_target("c");
    const auto on_c = compile(d.g, o, pool);
    ASSERT_FALSE(on_c.ok());
    EXPECT_EQ(on_c.error().message, "Winograd's form of convolutions is for kernels on the cpu, and target c was asked for.");
    o.execution.target = nullptr;
    o.execution.engine = runtime::Engine::Reference;
    const auto reference = compile(d.g, o, pool);
    ASSERT_FALSE(reference.ok());
    EXPECT_EQ(reference.error().message, "Winograd's form of convolutions is for kernels on the cpu, and the reference was asked for.");
}

}  // namespace
}  // namespace opwright::fuse
