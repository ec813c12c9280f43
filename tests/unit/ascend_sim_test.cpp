// The Ascend C simulator: every hazard it knows is seeded into a kernel that is otherwise clean. With the fault it
// reports the rule that is broken; without, it is silent and the result is right.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "../../ascend_sim/lib/matmul_intf.h"

namespace {
using namespace AscendC;
using ascend_sim::Device;
using ascend_sim::Finding;

constexpr int kCount = 100, kCores = 2;  // per core: 100 floats, 400 bytes, 12.5 blocks
constexpr int kAll = kCount * kCores;

// What a kernel body sees: one core's slices of x and y (inputs) and z (output), and one queue each way.
struct Bench {
    TPipe pipe;
    GlobalTensor<float> x, y, z, whole_z;
    TQue<TPosition::VECIN, 1> in_x, in_y;
    TQue<TPosition::VECOUT, 1> out_z;

    Bench(float* px, float* py, float* pz) {
        const auto at = static_cast<uint64_t>(GetBlockIdx()) * kCount;
        x.SetGlobalBuffer(px + at, kCount), y.SetGlobalBuffer(py + at, kCount), z.SetGlobalBuffer(pz + at, kCount);
        whole_z.SetGlobalBuffer(pz, kAll);
        pipe.InitBuffer(in_x, 2, 512);
        pipe.InitBuffer(in_y, 2, 512);
        pipe.InitBuffer(out_z, 2, 512);
    }
    LocalTensor<float> copied_in(TQue<TPosition::VECIN, 1>& q, const GlobalTensor<float>& from) {
        LocalTensor<float> t = q.AllocTensor<float>();
        DataCopyPad(t, from, DataCopyExtParams{1, kCount * 4, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 4, 0.0f});
        q.EnQue(t);
        return q.DeQue<float>();
    }
    void copy_out(LocalTensor<float> t) {
        out_z.EnQue(t);
        t = out_z.DeQue<float>();
        DataCopyPad(z, t, DataCopyExtParams{1, kCount * 4, 0, 0, 0});
        out_z.FreeTensor(t);
    }
    // z = x + y around `compute`, which may do more.
    template <typename F>
    void sum(F compute) {
        LocalTensor<float> a = copied_in(in_x, x), b = copied_in(in_y, y), r = out_z.AllocTensor<float>();
        Add(r, a, b, kCount);
        compute(a, b, r);
        in_x.FreeTensor(a);
        in_y.FreeTensor(b);
        copy_out(r);
    }
};

// Turns 16 x 8 floats that lie one behind the other.
void turn(const LocalTensor<float>& dst, const LocalTensor<float>& src, int64_t repeats, int64_t stride) {
    LocalTensor<float> to[16], from[16];
    for (uint32_t i = 0; i < 16; ++i) to[i] = dst[i * 8], from[i] = src[i * 8];
    TransDataTo5HD<float>(to, from, TransDataTo5HDParams{false, false, repeats, stride, stride});
}

struct Case {
    const char* name;
    const char* rule;
    std::function<void(Bench&, bool bug)> body;
};

std::vector<Finding> launch(const std::function<void(Bench&)>& body, std::array<float, kAll>* result = nullptr) {
    // Apart, so that what lies behind one tensor is no other.
    struct {
        std::array<float, kAll> x, behind_x, y, behind_y, z, behind_z;
    } memory{};
    auto &x = memory.x, &y = memory.y, &z = memory.z;
    for (int i = 0; i < kAll; ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
    Device d;
    d.add("x", x.data(), sizeof x, false);
    d.add("y", y.data(), sizeof y, false);
    d.add("z", z.data(), sizeof z, true);
    auto findings = d.launch(kCores, [&] {
        Bench b(x.data(), y.data(), z.data());
        body(b);
    });
    if (result) *result = z;
    return findings;
}

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"OperandNotAligned", "alignment",
         [](Bench& b, bool bug) { b.sum([&](auto& x, auto&, auto& r) { Adds(r[bug ? 1 : 8], x[8], 0.5f, 80); }); }},
        {"CopyLengthNotBlocks", "copy_length",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             LocalTensor<float> t = b.in_x.AllocTensor<float>();
             DataCopy(t, b.x, bug ? 99 : 96);
             b.in_x.EnQue(t);
             t = b.in_x.DeQue<float>();
             b.in_x.FreeTensor(t);
         }},
        {"CountBeyondTensor", "bounds",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 512);
             LocalTensor<float> small = buffer.Get<float>(64);
             b.sum([&](auto& x, auto&, auto&) { Muls(small, x, 2.0f, bug ? 72 : 64); });
         }},
        {"AccessPastBuffer", "bounds",
         [](Bench& b, bool bug) { b.sum([&](auto&, auto&, auto& r) { Duplicate(r[104], 0.0f, bug ? 32 : 24); }); }},
        {"ReadPastGlobalBuffer", "gm_bounds",
         [](Bench& b, bool bug) {
             GlobalTensor<float> wrong;  // says it is longer than it is
             wrong.SetGlobalBuffer(b.x.GetPhyAddr(kCount * (GetBlockIdx() == 0)), bug ? 2 * kCount : kCount);
             b.sum([](auto&, auto&, auto&) {});
             wrong.GetValue(bug ? kCount : kCount - 1);
         }},
        {"WritePastGlobalTensor", "gm_bounds",
         [](Bench& b, bool bug) {
             LocalTensor<float> a = b.copied_in(b.in_x, b.x), r = b.out_z.AllocTensor<float>();
             Adds(r, a, 0.5f, 104);
             b.in_x.FreeTensor(a);
             b.out_z.EnQue(r);
             r = b.out_z.DeQue<float>();
             DataCopyPad(b.z, r, DataCopyExtParams{1, bug ? 104 * 4 : 400, 0, 0, 0});
             b.out_z.FreeTensor(r);
         }},
        {"UnifiedBufferTooSmall", "ub_budget",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, bug ? 184 * 1024 : 180 * 1024);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"TooManyBuffers", "buffer_count",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             for (int i = 6; i < (bug ? 65 : 64); ++i) b.pipe.InitBuffer(buffer, 32);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"TooManyAlive", "queue",
         [](Bench& b, bool bug) {
             TQue<TPosition::VECIN, 1> more;
             b.pipe.InitBuffer(more, 10, 32);
             std::vector<LocalTensor<float>> held;
             for (int i = 0; i < (bug ? 9 : 8); ++i) held.push_back(more.AllocTensor<float>());
             for (auto& t : held) more.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"AllocBeyondBuffers", "queue",
         [](Bench& b, bool bug) {
             LocalTensor<float> first = b.in_x.AllocTensor<float>(), second = b.in_x.AllocTensor<float>(), third;
             if (bug) third = b.in_x.AllocTensor<float>();
             b.in_x.FreeTensor(first);
             b.in_x.FreeTensor(second);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"FreedTwice", "queue",
         [](Bench& b, bool bug) {
             LocalTensor<float> t = b.in_x.AllocTensor<float>();
             b.in_x.FreeTensor(t);
             if (bug) b.in_x.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"DeQueOfEmpty", "queue",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             if (bug) b.in_x.DeQue<float>();
         }},
        {"EnQueBeyondDepth", "queue",
         [](Bench& b, bool bug) {
             LocalTensor<float> first = b.in_x.AllocTensor<float>(), second = b.in_x.AllocTensor<float>();
             b.in_x.EnQue(first);
             if (bug) b.in_x.EnQue(second);
             first = b.in_x.DeQue<float>();
             b.in_x.FreeTensor(first);
             b.in_x.FreeTensor(second);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"NotFreed", "leak",
         [](Bench& b, bool bug) {
             LocalTensor<float> t = b.in_x.AllocTensor<float>();
             if (!bug) b.in_x.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"UsedAfterFree", "stale",
         [](Bench& b, bool bug) {
             LocalTensor<float> a = b.copied_in(b.in_x, b.x), r = b.out_z.AllocTensor<float>();
             if (bug) b.in_x.FreeTensor(a);
             Adds(r, a, 0.5f, kCount);
             if (!bug) b.in_x.FreeTensor(a);
             b.copy_out(r);
         }},
        {"InputNotEnqueued", "order",
         [](Bench& b, bool bug) {
             LocalTensor<float> a = b.in_x.AllocTensor<float>(), r = b.out_z.AllocTensor<float>();
             DataCopyPad(a, b.x, DataCopyExtParams{1, 400, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
             if (!bug) {
                 b.in_x.EnQue(a);
                 a = b.in_x.DeQue<float>();
             }
             Adds(r, a, 0.5f, kCount);
             b.in_x.FreeTensor(a);
             b.copy_out(r);
         }},
        {"OutputNotEnqueued", "order",
         [](Bench& b, bool bug) {
             LocalTensor<float> a = b.copied_in(b.in_x, b.x), r = b.out_z.AllocTensor<float>();
             Adds(r, a, 0.5f, kCount);
             b.in_x.FreeTensor(a);
             if (!bug) return b.copy_out(r);
             DataCopyPad(b.z, r, DataCopyExtParams{1, 400, 0, 0, 0});
             b.out_z.FreeTensor(r);
         }},
        {"BufferFilledWhileRead", "order",
         [](Bench& b, bool bug) {  // a TBuf loaded twice: the second load must wait for the vector unit
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 416);
             LocalTensor<float> t = buffer.Get<float>();
             const auto load = [&] {
                 DataCopyPad(t, b.y, DataCopyExtParams{1, 400, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 4, 0.0f});
                 SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
                 WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
             };
             load();
             b.sum([&](auto& x, auto&, auto& r) { Add(r, x, t, kCount); });
             if (!bug) {
                 SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
                 WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
             }
             load();
         }},
        {"ScalarReadsTooEarly", "order",
         [](Bench& b, bool bug) {
             b.sum([&](auto&, auto&, auto& r) {
                 if (!bug) {
                     SetFlag<HardEvent::V_S>(EVENT_ID0);
                     WaitFlag<HardEvent::V_S>(EVENT_ID0);
                 }
                 r.GetValue(3);
             });
         }},
        {"ScalarWriteNotAwaited", "order",
         [](Bench& b, bool bug) {
             b.sum([&](auto& x, auto&, auto& r) {
                 SetFlag<HardEvent::V_S>(EVENT_ID0);
                 WaitFlag<HardEvent::V_S>(EVENT_ID0);
                 r.SetValue(0, x.GetValue(0) + 0.5f);
                 if (!bug) {
                     SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
                     WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
                 }
             });
         }},
        {"NeverWritten", "undefined",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 512);
             LocalTensor<float> t = buffer.Get<float>();
             if (!bug) Duplicate(t, 0.0f, kCount);
             b.sum([&](auto&, auto&, auto& r) { Add(r, r, t, kCount); });
         }},
        {"ReusedBufferRead", "undefined",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             LocalTensor<float> r = b.out_z.AllocTensor<float>();
             if (!bug) Duplicate(r, 1.0f, kCount);
             Adds(r, r, 1.0f, kCount);
             b.out_z.FreeTensor(r);
         }},
        {"PaddingReadAsRow", "undefined",
         [](Bench& b, bool bug) {  // two rows of 50 floats lie 56 apart
             LocalTensor<float> a = b.in_x.AllocTensor<float>(), r = b.out_z.AllocTensor<float>();
             DataCopyPad(a, b.x, DataCopyExtParams{2, 200, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
             b.in_x.EnQue(a);
             a = b.in_x.DeQue<float>();
             if (bug) {
                 Adds(r, a, 0.5f, kCount);
             } else {
                 for (int row = 0; row < 2; ++row) Adds(r[row * 56], a[row * 56], 0.5f, 50);
             }
             b.in_x.FreeTensor(a);
             b.out_z.EnQue(r);
             r = b.out_z.DeQue<float>();
             DataCopyPad(b.z, r, DataCopyExtParams{2, 200, 0, 0, 0});
             b.out_z.FreeTensor(r);
         }},
        {"CoresWriteOneRange", "gm_race",
         [](Bench& b, bool bug) {
             if (bug && GetBlockIdx() == 1) b.z = b.whole_z[kCount - 1];
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"ReadsOtherCoreUnordered", "gm_race",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             if (!bug) SyncAll();
             if (GetBlockIdx() == 1) b.whole_z.GetValue(0);
         }},
        {"InputWritten", "gm_read_only",
         [](Bench& b, bool bug) {
             if (bug) b.z = b.x;
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"ScalarStoreNotWrittenBack", "cache",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             PipeBarrier<PIPE_ALL>();
             b.z.SetValue(0, b.x.GetValue(0) + 0.5f);
             if (!bug) DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(b.z);
         }},
        {"FlagNeverWaitedFor", "flag",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             SetFlag<HardEvent::V_S>(EVENT_ID1);
             if (!bug) WaitFlag<HardEvent::V_S>(EVENT_ID1);
         }},
        {"FlagNeverSet", "flag",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             if (!bug) SetFlag<HardEvent::V_S>(EVENT_ID1);
             WaitFlag<HardEvent::V_S>(EVENT_ID1);
         }},
        {"FlagsNested", "flag",
         [](Bench& b, bool bug) {  // one source pipe and one id, though the destinations differ
             b.sum([](auto&, auto&, auto&) {});
             SetFlag<HardEvent::V_S>(EVENT_ID1);
             SetFlag<HardEvent::V_MTE3>(bug ? EVENT_ID1 : EVENT_ID2);
             WaitFlag<HardEvent::V_MTE3>(bug ? EVENT_ID1 : EVENT_ID2);
             WaitFlag<HardEvent::V_S>(EVENT_ID1);
         }},
        {"ReservedEventId", "flag",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             SetFlag<HardEvent::V_S>(bug ? EVENT_ID6 : EVENT_ID5);
             WaitFlag<HardEvent::V_S>(bug ? EVENT_ID6 : EVENT_ID5);
         }},
        {"RepeatsWrap", "field",
         [](Bench& b, bool bug) {
             b.sum([&](auto& x, auto&, auto& r) {
                 Muls(r, x, 1.0f, 64, bug ? 257 : 1, UnaryRepeatParams{1, 1, 0, 0});
                 Add(r, x, x, kCount);
                 Adds(r, x, 0.5f, kCount);
             });
         }},
        {"BlockCountWraps", "field",
         [](Bench& b, bool bug) {
             LocalTensor<float> t = b.in_x.AllocTensor<float>();
             DataCopyPad(t, b.x, DataCopyExtParams{bug ? 4096 : 1, bug ? 0 : 400, 0, 0, 0},
                         DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
             b.in_x.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"MaskOutOfRange", "mask",
         [](Bench& b, bool bug) {
             b.sum([&](auto& x, auto& y, auto& r) { Add(r, x, y, bug ? 72 : 64, 1, BinaryRepeatParams{}); });
         }},
        {"MaskOfNothing", "mask",
         [](Bench& b, bool bug) {
             b.sum([&](auto& x, auto& y, auto& r) { Add(r, x, y, bug ? 0 : 8, 1, BinaryRepeatParams{}); });
         }},
        {"CompareTail", "compare_count",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 32);
             LocalTensor<uint8_t> mask = buffer.Get<uint8_t>();
             b.sum([&](auto& x, auto&, auto&) { CompareScalar(mask, x, 3.0f, CMPMODE::LT, bug ? 100 : 64); });
         }},
        {"PartialOverlap", "overlap",
         [](Bench& b, bool bug) { b.sum([&](auto&, auto&, auto& r) { Adds(r, r[bug ? 8 : 0], 0.0f, 80); }); }},
        {"PaddingTooWide", "padding",
         [](Bench& b, bool bug) {
             LocalTensor<float> t = b.in_x.AllocTensor<float>();
             DataCopyPad(t, b.x, DataCopyExtParams{1, 40, 0, 0, 0},
                         DataCopyPadExtParams<float>{true, 0, bug ? 9 : 6, 0.0f});
             b.in_x.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"RoundingModeNotAllowed", "round_mode",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 256);
             LocalTensor<bfloat16_t> t = buffer.Get<bfloat16_t>();
             b.sum(
                 [&](auto& x, auto&, auto&) { Cast(t, x, bug ? RoundMode::CAST_NONE : RoundMode::CAST_RINT, kCount); });
         }},
        {"GatherOutside", "bounds",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 64);
             LocalTensor<uint32_t> offset = buffer.Get<uint32_t>();
             Duplicate(offset, bug ? 512u : 508u - 96u, 8);
             b.sum([&](auto& x, auto&, auto&) { Gather(buffer.GetWithOffset<float>(8, 32), x, offset, 0u, 8); });
         }},
        {"WorkAreaTooSmall", "bounds",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer, work;
             b.pipe.InitBuffer(buffer, 32);
             b.pipe.InitBuffer(work, bug ? 32 : 64);
             b.sum([&](auto& x, auto&, auto&) { ReduceMax(buffer.Get<float>(), x, work.Get<float>(), kCount, true); });
         }},
        {"WorkAreaWithoutRoomForIndices", "bounds",
         [](Bench& b, bool bug) {  // an extreme comes with its index, wanted or not
             TBuf<TPosition::VECCALC> terms, buffer, work;
             b.pipe.InitBuffer(terms, 5 * 256);
             b.pipe.InitBuffer(buffer, 32);
             b.pipe.InitBuffer(work, bug ? 32 : 64);
             Duplicate(terms.Get<float>(), 1.0f, 5 * 64);
             ReduceMax(buffer.Get<float>(), terms.Get<float>(), work.Get<float>(), 5 * 64);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"TurnedOntoItself", "overlap",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> buffer;
             b.pipe.InitBuffer(buffer, 2 * 512);
             LocalTensor<float> t = buffer.Get<float>();
             Duplicate(t, 1.0f, 256);
             turn(t[bug ? 120 : 128], t, 1, 0);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"TurnedRowsNeverWritten", "undefined",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> from, to;
             b.pipe.InitBuffer(from, 512), b.pipe.InitBuffer(to, 512);
             Duplicate(from.Get<float>(), 1.0f, bug ? 120 : 128);
             turn(to.Get<float>(), from.Get<float>(), 1, 0);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"SingleRepeatTakesItsStride", "bounds",
         [](Bench& b, bool bug) {  // with one repeat the stride counts from the first
             TBuf<TPosition::VECCALC> from, to;
             b.pipe.InitBuffer(from, 512), b.pipe.InitBuffer(to, 512);
             Duplicate(from.Get<float>(), 1.0f, 128);
             turn(to.Get<float>(), from.Get<float>(), 1, bug ? 1 : 0);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"TurnedAfterFree", "stale",
         [](Bench& b, bool bug) {
             TBuf<TPosition::VECCALC> to;
             TQue<TPosition::VECIN, 1> in;
             b.pipe.InitBuffer(in, 1, 512), b.pipe.InitBuffer(to, 512);
             LocalTensor<float> t = in.AllocTensor<float>();
             Duplicate(t, 1.0f, 128);
             if (bug) in.FreeTensor(t);
             uint64_t source[16], result[16];
             for (int i = 0; i < 16; ++i) {
                 source[i] = reinterpret_cast<uint64_t>(t[i * 8].GetPhyAddr());
                 result[i] = reinterpret_cast<uint64_t>(to.Get<float>()[i * 8].GetPhyAddr());
             }
             TransDataTo5HD<float>(result, source, TransDataTo5HDParams{});
             if (!bug) in.FreeTensor(t);
             b.sum([](auto&, auto&, auto&) {});
         }},
        {"OneCoreMissesSyncAll", "sync_all",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             if (!bug || GetBlockIdx() == 0) SyncAll();
         }},
        {"MatmulBlockTooLarge", "matmul_tiling",
         [](Bench& b, bool bug) {
             b.sum([](auto&, auto&, auto&) {});
             TCubeTiling t;
             t.M = t.singleCoreM = t.N = t.singleCoreN = t.Ka = t.Kb = t.singleCoreK = 16;
             t.baseM = t.baseN = bug ? 256 : 128;
             t.baseK = 32;
             t.dbL0A = t.dbL0B = t.dbL0C = t.depthA1 = t.depthB1 = 1;
             using F = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
             matmul::Matmul<F, F, F> mm;
             REGIST_MATMUL_OBJ(&b.pipe, GetSysWorkSpacePtr(), mm, &t);
         }},
    };
    return all;
}

class AscendSim : public testing::TestWithParam<Case> {};

TEST_P(AscendSim, IsSilentWithoutTheFault) {
    std::array<float, kAll> z;
    const auto findings = launch([](Bench& b) { GetParam().body(b, false); }, &z);
    for (const Finding& f : findings) ADD_FAILURE() << f.rule << ": " << f.text;
    for (int i = 0; i < kAll; ++i) ASSERT_EQ(z[i], static_cast<float>(i) + 0.5f) << i;
}

TEST_P(AscendSim, ReportsTheFault) {
    const auto findings = launch([](Bench& b) { GetParam().body(b, true); });
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].rule, GetParam().rule) << findings[0].text;
    EXPECT_NE(findings[0].text.find("core "), std::string::npos) << findings[0].text;
}

INSTANTIATE_TEST_SUITE_P(Hazards, AscendSim, testing::ValuesIn(cases()), [](const auto& i) { return i.param.name; });

// The message names core, line, instruction, buffer as the source calls it, and bytes.
TEST(AscendSimMessage, NamesWhatIsWrong) {
    const auto findings = launch([](Bench& b) {
        LocalTensor<float> a = b.in_x.AllocTensor<float>();
        DataCopyPad(a, b.x, DataCopyExtParams{1, 400, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
        b.in_x.EnQue(a);
        a = b.in_x.DeQue<float>();
        Exp(a, a, 104);
    });
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].rule, "undefined");
    // A buffer's name is read off the source, where that is found under the name that the compiler was given.
    const char* buffer = std::ifstream(__FILE__) ? "in_x[0]" : "buffer made at line";
    for (const char* part : {"core 0", "ascend_sim_test.cpp:", "Exp", buffer, "bytes [0, 416)", "byte 400"})
        EXPECT_NE(findings[0].text.find(part), std::string::npos) << part << " in: " << findings[0].text;
}

// Types and casts that 2201 does not have do not compile, and the message says so.
TEST(AscendSimTypes, UnsupportedOnesDoNotCompile) {
    const std::pair<const char*, const char*> snippets[] = {
        {"LocalTensor<bfloat16_t> t; Add(t, t, t, 16);", "Add does not support this type on 2201"},
        {"LocalTensor<int8_t> t; Muls(t, t, int8_t(2), 32);", "Muls does not support this type on 2201"},
        {"LocalTensor<int32_t> t; Exp(t, t, 8);", "Exp does not support this type on 2201"},
        {"LocalTensor<int8_t> a; LocalTensor<float> b; Cast(b, a, RoundMode::CAST_NONE, 32);", "no such pair of types"},
        {"LocalTensor<int64_t> t; Duplicate(t, int64_t(1), 4);", "Duplicate does not support this type on 2201"},
    };
    const std::string source = testing::TempDir() + "ascend_sim_types.cpp",
                      log = testing::TempDir() + "ascend_sim_types.txt";
    std::ofstream out(source);
    out << "#include \"kernel_operator.h\"\nusing namespace AscendC;\n";
    for (size_t i = 0; i < std::size(snippets); ++i) out << "void f" << i << "() { " << snippets[i].first << " }\n";
    out.close();
    const std::string command =
        "g++ -std=c++17 -fsyntax-only -I" OPWRIGHT_SOURCE_DIR "/ascend_sim " + source + " 2> " + log;
    EXPECT_NE(std::system(command.c_str()), 0);
    std::ifstream in(log);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const auto& [code, message] : snippets)
        EXPECT_NE(text.find(message), std::string::npos) << code << "\n" << text;
}

// The rounding of casts, by mode.
TEST(AscendSimCast, RoundsAsNamed) {
    using sim::convert;
    EXPECT_EQ(convert<int32_t>(2.5f, RoundMode::CAST_RINT), 2);
    EXPECT_EQ(convert<int32_t>(2.5f, RoundMode::CAST_ROUND), 3);
    EXPECT_EQ(convert<int32_t>(-2.5f, RoundMode::CAST_ROUND), -3);
    EXPECT_EQ(convert<int32_t>(-2.5f, RoundMode::CAST_FLOOR), -3);
    EXPECT_EQ(convert<int32_t>(-2.5f, RoundMode::CAST_CEIL), -2);
    EXPECT_EQ(convert<int32_t>(-2.9f, RoundMode::CAST_TRUNC), -2);
    EXPECT_EQ(convert<int32_t>(1e20f, RoundMode::CAST_TRUNC), std::numeric_limits<int32_t>::max());
    EXPECT_EQ(convert<int32_t>(NAN, RoundMode::CAST_TRUNC), 0);
    EXPECT_EQ(convert<int8_t>(half(300.0f), RoundMode::CAST_TRUNC), 127);
    const auto h = [](float v, RoundMode m) { return static_cast<float>(convert<half>(v, m)); };
    EXPECT_EQ(h(1 + 0x1p-11f, RoundMode::CAST_RINT), 1.0f);
    EXPECT_EQ(h(1 + 0x1p-11f, RoundMode::CAST_ROUND), 1 + 0x1p-10f);
    EXPECT_EQ(h(1 + 0x1p-12f, RoundMode::CAST_CEIL), 1 + 0x1p-10f);
    EXPECT_EQ(h(1 + 0x1p-12f, RoundMode::CAST_ODD), 1 + 0x1p-10f);
    EXPECT_EQ(h(-1 - 0x1p-12f, RoundMode::CAST_FLOOR), -1 - 0x1p-10f);
    EXPECT_EQ(h(-1 - 0x1p-12f, RoundMode::CAST_TRUNC), -1.0f);
    for (uint32_t b = 0; b < 65536; ++b) {  // every half through float and back
        const half v = half::from_bits(static_cast<uint16_t>(b));
        const half back(static_cast<float>(v));
        if (std::isnan(static_cast<float>(v)))
            EXPECT_TRUE(std::isnan(static_cast<float>(back)));
        else
            EXPECT_EQ(back.bits(), v.bits());
    }
}

// Two repeats of TransDataTo5HD turn 32 rows of one block each; 16 rows of 16 elements of 16 bits, of 8 of 32 bits.
template <typename T>
void expect_turned() {
    constexpr uint32_t columns = 32 / sizeof(T), rows = 32;
    int wrong = 0;
    Device d;
    const auto findings = d.launch(1, [&] {
        TPipe pipe;
        TBuf<TPosition::VECCALC> from, to;
        pipe.InitBuffer(from, rows * 32), pipe.InitBuffer(to, rows * 32);
        LocalTensor<T> x = from.Get<T>(), y = to.Get<T>();
        for (uint32_t i = 0; i < rows * columns; ++i) x.SetValue(i, static_cast<T>(i));
        uint64_t source[16], result[16];
        for (uint32_t i = 0; i < 16; ++i) {
            const uint32_t at = sizeof(T) == 2 ? i * rows : i / 2 * rows + i % 2 * 8;
            source[i] = reinterpret_cast<uint64_t>(x[i * columns].GetPhyAddr());
            result[i] = reinterpret_cast<uint64_t>(y[at].GetPhyAddr());
        }
        SetFlag<HardEvent::S_V>(EVENT_ID0), WaitFlag<HardEvent::S_V>(EVENT_ID0);
        TransDataTo5HD<T>(result, source, TransDataTo5HDParams{false, false, 2, 16 * sizeof(T) / 32, 16});
        SetFlag<HardEvent::V_S>(EVENT_ID0), WaitFlag<HardEvent::V_S>(EVENT_ID0);
        for (uint32_t r = 0; r < rows; ++r)
            for (uint32_t c = 0; c < columns; ++c) wrong += y.GetValue(c * rows + r) != static_cast<T>(r * columns + c);
    });
    for (const Finding& f : findings) ADD_FAILURE() << f.text;
    EXPECT_EQ(wrong, 0);
}
TEST(AscendSimTranspose, TurnsBlocksOfBothWidths) {
    expect_turned<uint16_t>();
    expect_turned<uint32_t>();
}

// A ragged matrix product of two vector cores' parts, in one kernel with its epilogue.
TEST(AscendSimMatmul, DeliversPartsAndTails) {
    constexpr int M = 5, N = 7, K = 3;
    std::array<float, M * K> a;
    std::array<float, K * N> b;
    std::array<float, M * N> c{};
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 4);
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
    Device d;
    d.add("a", a.data(), sizeof a, false);
    d.add("b", b.data(), sizeof b, false);
    d.add("c", c.data(), sizeof c, true);
    const auto findings = d.launch_mix(1, [&] {
        TPipe pipe;
        TCubeTiling t;
        t.M = M, t.N = N, t.Ka = t.Kb = t.singleCoreK = K;
        t.singleCoreM = 3, t.singleCoreN = N, t.baseM = t.baseN = 16, t.baseK = 8;
        t.dbL0A = t.dbL0B = t.dbL0C = t.depthA1 = t.depthB1 = 1;
        using F = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
        matmul::Matmul<F, F, F> mm;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
        const int row = static_cast<int>(GetBlockIdx()) * 3, rows = std::min(3, M - row);
        GlobalTensor<float> ga, gb, gc;
        ga.SetGlobalBuffer(a.data() + row * K, rows * K);
        gb.SetGlobalBuffer(b.data(), b.size());
        gc.SetGlobalBuffer(c.data() + row * N, rows * N);
        mm.SetTensorA(ga);
        mm.SetTensorB(gb);
        mm.SetTail(rows);
        mm.IterateAll(gc);
        mm.End();
    });
    for (const Finding& f : findings) ADD_FAILURE() << f.text;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            float want = 0;
            for (int k = 0; k < K; ++k) want += a[i * K + k] * b[k * N + j];
            EXPECT_EQ(c[i * N + j], want);
        }
}
}  // namespace
