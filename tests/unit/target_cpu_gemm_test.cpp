// Matrix products: a register tile built by hand, right and wholly in registers; the loops around tiles.
#include "../../bench/register_tile.h"
#include "lang/library.h"
#include "target/cpu/plan.h"
#include "target_cpu_test_util.h"
#include "tile/apply.h"

namespace opwright::target::cpu {
namespace {

struct TileShape { Level level; int mr, nv; };

int stack_moves(const std::string& assembly) {
    int moves = 0;
    for (size_t at = 0; at < assembly.size();) {
        const size_t end = std::min(assembly.find('\n', at), assembly.size());
        const std::string_view line(assembly.data() + at, end - at);
        if (line.find("mov") != line.npos && line.find("(%rsp") != line.npos && line.find("mm") != line.npos) ++moves;
        at = end + 1;
    }
    return moves;
}

TEST(TargetCpuGemm, RegisterTilesStayInRegisters) {
    for (const TileShape& s : {TileShape{Level::Avx2, 6, 2}, {Level::Avx512, 14, 2}, {Level::Avx512, 9, 3}, {Level::Avx512, 6, 4}}) {
        const auto f = features_at(s.level);
        if (!f) continue;
        const loop::Program p = bench::register_tile(*f, s.mr, s.nv, 4);
        auto object = compile_object(p, *f, {.want_assembly = true});
        ASSERT_TRUE(object.ok());
        EXPECT_EQ(stack_moves(object->assembly), 0) << name(s.level) << " " << s.mr << "x" << s.nv;
    }
}

TEST(TargetCpuGemm, RegisterTilesAreRight) {
    for (const Features& f : machine_levels()) {
        const int mr = f.registers == 32 ? 14 : 6, nv = 2, nr = nv * f.lanes(DType::F32);
        auto m = compile_or_fail(bench::register_tile(f, mr, nv, 4), f);
        for (int64_t k : {0, 4, 40}) {
            std::vector<float> a(static_cast<size_t>(k * mr + 1)), b(static_cast<size_t>(k * nr + 1)), c(static_cast<size_t>(mr * nr));
            for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
            for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 17) - 8;
            run(m, "tile", {{a.data(), b.data(), c.data()}, {k}});
            for (int64_t i = 0; i < mr; ++i)
                for (int64_t j = 0; j < nr; ++j) {
                    float want = 0;  // small integers: exact in any order
                    for (int64_t l = 0; l < k; ++l) want += a[static_cast<size_t>(l * mr + i)] * b[static_cast<size_t>(l * nr + j)];
                    ASSERT_EQ(c[static_cast<size_t>(i * nr + j)], want) << name(f.level) << k;
                }
        }
    }
}

// A product of matrices of these sizes, lowered, with a constant as its second factor or not.
Lowered lowered(const std::string& m, const std::string& n, const std::string& k, const Features& f, bool constant = false) {
    lang::Library library;
    const bool batch = m.find(',') != m.npos;
    const std::string x = "x: f32[" + m + "," + k + "]", w = "w: f32[" + k + "," + n + "]", row = batch ? "b,i" : "i";
    const Status s = library.add(std::make_shared<const Source>(
        Source{"test.op", "op product(" + x + ", " + w + ") -> y: f32[" + m + "," + n + "]:\n    y[" + row + ",j] = sum[l](x[" + row + ",l] * w[l,j])\n"}));
    EXPECT_TRUE(s.ok()) << (s.ok() ? "" : render(s.error()));
    const auto p = library.elaborate_symbolic("product");
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : render(p.error()));
    const Planned planned = plan({.program = &*p, .constant_inputs = {false, constant}}, f);
    const auto tiles = tile::apply(planned.kernel, planned.untuned, planned.machine);
    EXPECT_TRUE(tiles.ok()) << (tiles.ok() ? "" : render(tiles.error()));
    return lower(*tiles);
}
std::string loops(const std::string& m, const std::string& n, const std::string& k, const Features& f, bool constant = false) {
    return loop::print(lowered(m, n, k, f, constant).program);
}

// Short sums are stored along the rows: a row's results lie side by side, and the next ones are asked for there.
TEST(TargetCpuGemm, ShortSumsGoAlongTheRows) {
    for (const Features& f : machine_levels()) {
        const std::string brief = loops("1200", "2048", "16", f), deep = loops("1200", "2048", "1000", f);
        EXPECT_NE(brief.find("let i: i64 = m0 + outer *"), std::string::npos) << brief;
        EXPECT_NE(brief.find("let j: i64 = n0 + inner *"), std::string::npos) << brief;
        EXPECT_NE(deep.find("let i: i64 = m0 + inner *"), std::string::npos) << deep;
        EXPECT_NE(deep.find("let j: i64 = n0 + outer *"), std::string::npos) << deep;
    }
}

// Where columns are read as they stand: facts of that stage.
std::optional<StageFacts> unpacked_stage(const Lowered& l) {
    const std::vector<StageFacts> facts = stage_facts(l, {});
    for (size_t i = 0; i < facts.size(); ++i)
        if (l.stages[i].function == "nest0_unpacked" && facts[i].tile) return facts[i];
    return std::nullopt;
}

// Rows that few columns use are copied to the first cache, as many as a register tile takes, and not all of a larger task's.
// A rest of columns that runs in a tile of one vector is not counted as if it filled a whole one.
TEST(TargetCpuGemm, FewColumns) {
    int seen = 0;
    for (const Features& f : machine_levels()) {
        const auto few = unpacked_stage(lowered("960", "16", "256", f)), more = unpacked_stage(lowered("96", "120", "96", f));
        if (!few || !more) continue;  // masks would cost something at this level
        ++seen;
        EXPECT_EQ(few->tasks, 960 / few->tile->rows);
        EXPECT_LT(more->tasks, 96 / more->tile->rows);
        EXPECT_EQ(few->tile->computed, 960.0 * 16 * 256);
    }
    if (seen == 0) GTEST_SKIP() << "not run: no level of this machine reads columns as they stand";
}

// Of weights that come from memory the first tiles of rows ask for the next panel, a line at each position of depth; of few rows the
// one tile asks for its own panel.
TEST(TargetCpuGemm, TheNextPanelOfWeightsIsAskedForByTilesOfRows) {
    for (const Features& f : machine_levels()) {
        const std::string several = loops("batch,49", "2048", "512", f, true), few = loops("batch,1", "2048", "512", f, true);
        EXPECT_NE(several.find("let next_panel: i64 ="), std::string::npos) << several;
        EXPECT_EQ(loops("batch,49", "64", "512", f, true).find("next_panel"), std::string::npos) << "of what the caches hold";
        if (f.level == Level::Avx512) EXPECT_EQ(few.find("next_panel"), std::string::npos) << few;
    }
}

}  // namespace
}  // namespace opwright::target::cpu
