// The high-level Matmul object, functionally: C = A * B (+ bias) over global memory, accumulated in float (int32 for
// int8). Capacities of L0 and the geometry of the tiling are checked; the cube's own pipes are not modelled.
#pragma once
#include "reduce.h"

// In the order of the documentation. All sizes in elements.
struct TCubeTiling {
    int32_t usedCoreNum = 0, M = 0, N = 0, Ka = 0, Kb = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, baseM = 0,
            baseN = 0, baseK = 0, depthA1 = 0, depthB1 = 0, stepM = 0, stepN = 0, isBias = 0, transLength = 0,
            iterateOrder = 0, shareMode = 0, shareL1Size = 0, shareL0CSize = 0, shareUbSize = 0, batchM = 0, batchN = 0,
            singleBatchM = 0, singleBatchN = 0, stepKa = 0, stepKb = 0, depthAL1CacheUB = 0, depthBL1CacheUB = 0,
            dbL0A = 0, dbL0B = 0, dbL0C = 0, ALayoutInfoB = 0, ALayoutInfoS = 0, ALayoutInfoN = 0, ALayoutInfoG = 0,
            ALayoutInfoD = 0, BLayoutInfoB = 0, BLayoutInfoS = 0, BLayoutInfoN = 0, BLayoutInfoG = 0, BLayoutInfoD = 0,
            CLayoutInfoB = 0, CLayoutInfoS1 = 0, CLayoutInfoN = 0, CLayoutInfoG = 0, CLayoutInfoS2 = 0, BatchNum = 0,
            reserved = 0;
};

enum class CubeFormat : uint8_t { ND, NZ, ND_ALIGN };

namespace matmul {

struct MatmulConfig {};
inline constexpr MatmulConfig CFG_NORM{}, CFG_MDL{};

template <AscendC::TPosition position, CubeFormat format, typename Type, bool transposed = false>
struct MatmulType {
    using T = Type;
    static constexpr AscendC::TPosition kPosition = position;
    static constexpr CubeFormat kFormat = format;
};

template <typename A, typename B, typename C, typename Bias = C, const MatmulConfig& config = CFG_NORM>
class Matmul {
    using AT = typename A::T;
    using BT = typename B::T;
    using CT = typename C::T;
    using BiasT = typename Bias::T;
    static_assert((std::is_same_v<AT, half> && std::is_same_v<BT, half>) ||
                      (std::is_same_v<AT, bfloat16_t> && std::is_same_v<BT, bfloat16_t>) ||
                      (std::is_same_v<AT, float> && std::is_same_v<BT, float>) ||
                      (std::is_same_v<AT, int8_t> && std::is_same_v<BT, int8_t>),
                  "Matmul does not take these factors on 2201");
    static_assert(std::is_same_v<CT, float> || std::is_same_v<CT, half> || std::is_same_v<CT, bfloat16_t> ||
                      (std::is_same_v<CT, int32_t> && std::is_same_v<AT, int8_t>),
                  "Matmul does not deliver this type from these factors on 2201");
    static_assert(A::kPosition == AscendC::TPosition::GM && B::kPosition == AscendC::TPosition::GM,
                  "the simulator's Matmul reads its factors from global memory");
    using Acc = std::conditional_t<std::is_same_v<AT, int8_t>, int32_t, float>;

public:
    void Init(const TCubeTiling* tiling, AscendC::TPipe* = nullptr, ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "Matmul::Init", at);
        t_ = *tiling;
        in.require(t_.M > 0 && t_.N > 0 && t_.Ka > 0 && t_.Ka == t_.Kb, "matmul_tiling", "M, N and K must be positive");
        in.require(t_.baseM > 0 && t_.baseN > 0 && t_.baseK > 0 && t_.baseM % 16 == 0 && t_.baseN % 16 == 0 &&
                       t_.baseK * sizeof(AT) % 32 == 0,
                   "matmul_tiling", "base blocks are multiples of 16 rows and columns and of 32 bytes of depth");
        const auto fits = [&](const char* what, uint64_t bytes, uint64_t limit) {
            in.require(bytes <= limit, "matmul_tiling", [&] {
                return std::string(what) + " holds " + std::to_string(limit) + " bytes, not " + std::to_string(bytes);
            });
        };
        fits("L0A", uint64_t(t_.baseM) * t_.baseK * sizeof(AT) * std::max(t_.dbL0A, 1), 64 * 1024);
        fits("L0B", uint64_t(t_.baseN) * t_.baseK * sizeof(BT) * std::max(t_.dbL0B, 1), 64 * 1024);
        fits("L0C", uint64_t(t_.baseM) * t_.baseN * 4 * std::max(t_.dbL0C, 1), 128 * 1024);
        fits("L1",
             (uint64_t(t_.baseM) * t_.baseK * sizeof(AT) * t_.depthA1) +
                 (uint64_t(t_.baseN) * t_.baseK * sizeof(BT) * t_.depthB1),
             512 * 1024);
        SetSingleShape(t_.singleCoreM, t_.singleCoreN, t_.singleCoreK);
    }
    void SetTensorA(const AscendC::GlobalTensor<AT>& a, bool transposed = false) {
        a_ = a, transposed_a_ = transposed, restart();
    }
    void SetTensorB(const AscendC::GlobalTensor<BT>& b, bool transposed = false) {
        b_ = b, transposed_b_ = transposed, restart();
    }
    void SetBias(const AscendC::GlobalTensor<BiasT>& bias) { bias_ = bias, has_bias_ = true; }
    void DisableBias() { has_bias_ = false; }
    // Shapes of the whole matrices, and of this core's part of them.
    void SetOrgShape(int64_t m, int64_t n, int64_t k) { t_.M = m, t_.N = n, t_.Ka = t_.Kb = k; }
    void SetSingleShape(int64_t m, int64_t n, int64_t k) { m_ = m, n_ = n, k_ = k, restart(); }
    void SetTail(int64_t m = -1, int64_t n = -1, int64_t k = -1) {
        if (m >= 0) m_ = m;
        if (n >= 0) n_ = n;
        if (k >= 0) k_ = k;
        restart();
    }
    // This core's part, written at its place in the whole of N columns.
    template <bool sync = true>
    void IterateAll(const AscendC::GlobalTensor<CT>& c, int64_t enAtomic = 0, ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_FIX, "Matmul::IterateAll", at);
        in.require(enAtomic == 0, "matmul", "the simulator's IterateAll does not accumulate atomically");
        for (int64_t i = 0; i < m_; ++i) {
            AscendC::sim::check_global(in, c, static_cast<uint64_t>(i * t_.N + n_), "destination");
            in.write_global(c.GetPhyAddr() + i * t_.N, n_ * sizeof(CT), "destination");
            for (int64_t j = 0; j < n_; ++j) store(c.GetPhyAddr() + i * t_.N + j, element(in, i, j));
        }
        if (sync)  // the call returns when the result lies in global memory
            for (ascend_sim::Clock& o : in.core().clock) o.join(in.core().clock[PIPE_FIX]);
    }
    // The next base block; false after the last. Blocks follow each other along N first.
    template <bool sync = true>
    bool Iterate() {
        if (++block_ >= blocks_m() * blocks_n()) return false;
        return true;
    }
    // That block in the unified buffer, rows one after the other. The pitch of a block cut off in N is not documented,
    // so that it is an error here.
    template <bool sync = true>
    void GetTensorC(const AscendC::LocalTensor<CT>& c, int64_t enAtomic = 0, bool enSequentialWrite = false,
                    ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_MTE2, "Matmul::GetTensorC", at);
        in.require(enAtomic == 0 && enSequentialWrite, "matmul", "the simulator's GetTensorC writes in sequence");
        const int64_t i0 = block_ / blocks_n() * t_.baseM, j0 = block_ % blocks_n() * t_.baseN;
        const int64_t rows = std::min<int64_t>(t_.baseM, m_ - i0), columns = std::min<int64_t>(t_.baseN, n_ - j0);
        in.require(columns == t_.baseN, "matmul", "the pitch of a base block that is cut off in N is not documented");
        const auto d = c.first(rows * columns, "destination");
        in.check(d);
        in.write(d);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
                store(c.data(in.core()) + i * columns + j, element(in, i0 + i, j0 + j));
        if (sync)
            for (ascend_sim::Clock& o : in.core().clock) o.join(in.core().clock[PIPE_MTE2]);
    }
    void End() {}

private:
    void restart() { block_ = -1; }
    int64_t blocks_m() const { return (m_ + t_.baseM - 1) / t_.baseM; }
    int64_t blocks_n() const { return (n_ + t_.baseN - 1) / t_.baseN; }
    template <typename T>
    static Acc widen(T v) {
        if constexpr (std::is_same_v<T, bfloat16_t>)
            return AscendC::ToFloat(v);
        else
            return static_cast<Acc>(v);
    }
    static void store(CT* to, Acc v) {
        CT r;
        if constexpr (std::is_same_v<CT, bfloat16_t>)
            r = AscendC::ToBfloat16(static_cast<float>(v));
        else
            r = CT(v);
        std::memcpy(to, &r, sizeof(CT));
    }
    Acc element(const ascend_sim::Instruction& in, int64_t i, int64_t j) const {
        Acc sum = 0;
        for (int64_t k = 0; k < k_; ++k) {
            const uint64_t a = transposed_a_ ? k * t_.M + i : i * t_.Ka + k;
            const uint64_t b = transposed_b_ ? j * t_.Kb + k : k * t_.N + j;
            AscendC::sim::check_global(in, a_, a + 1, "A"), AscendC::sim::check_global(in, b_, b + 1, "B");
            if (k == 0 || k == k_ - 1) {
                in.read_global(a_.GetPhyAddr() + a, sizeof(AT), "A"), in.global(a_.GetPhyAddr() + a, sizeof(AT), "A");
                in.read_global(b_.GetPhyAddr() + b, sizeof(BT), "B"), in.global(b_.GetPhyAddr() + b, sizeof(BT), "B");
            }
            sum += widen(a_.load(a_.GetPhyAddr() + a)) * widen(b_.load(b_.GetPhyAddr() + b));
        }
        if (has_bias_) sum += static_cast<Acc>(bias_.load(bias_.GetPhyAddr() + j));
        return sum;
    }

    TCubeTiling t_;
    AscendC::GlobalTensor<AT> a_;
    AscendC::GlobalTensor<BT> b_;
    AscendC::GlobalTensor<BiasT> bias_;
    bool transposed_a_ = false, transposed_b_ = false, has_bias_ = false;
    int64_t m_ = 0, n_ = 0, k_ = 0, block_ = -1;
};

}  // namespace matmul

inline uint8_t* GetSysWorkSpacePtr() { return nullptr; }
#define REGIST_MATMUL_OBJ(pipe, workspace, object, tiling) (void)(workspace), (object).Init(tiling, pipe)
