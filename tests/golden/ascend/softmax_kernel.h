// softmax: exp(x) over its sum along `axes`, shifted by the maximum so that nothing overflows.
//
//     m[o0] = max[r0](x[o0,r0])
//     e[o0,r0] = exp(x[o0,r0] - m[o0])
//     s[o0] = sum[r0](e[o0,r0])
//     y[o0,r0] = e[o0,r0] / s[o0]
//
// Global memory, in bytes: reads x (4 * sizeO0 * sizeR0); writes y (4 * sizeO0 * sizeR0).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// softmax: tiles of up to 9216 elements take 185568 of 188416 bytes of unified buffer: inQueueX 2 x 36864,
//   outQueueY 2 x 36864, tmpBuf0 36864, foldedBuf 32, workBuf 1216.
// softmax_long_rows: tiles of up to 4096 elements take 115296 of 188416 bytes of unified buffer: inQueueX 2 x
//   16384, outQueueY 2 x 16384, maxBuf 16384, sumBuf 16384, tmpBuf0 16384, foldedBuf 32, workBuf 576.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for softmax, passed by value.
struct SoftmaxTiling {
    int64_t sizeO0;
    int64_t sizeR0;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline SoftmaxTiling MakeSoftmaxTiling(int64_t sizeO0, int64_t sizeR0, int64_t cores)
{
    SoftmaxTiling t{};
    t.sizeO0 = sizeO0;
    t.sizeR0 = sizeR0;
    t.tileLength = static_cast<uint32_t>((sizeR0 + 63) / 64 * 64);
    t.tasks = sizeO0;
    t.tasksPerCore = (t.tasks + cores - 1) / cores;
    return t;
}

// What the host counts for softmax_long_rows, passed by value.
struct SoftmaxLongRowsTiling {
    int64_t sizeO0;
    int64_t sizeR0;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline SoftmaxLongRowsTiling MakeSoftmaxLongRowsTiling(int64_t sizeO0, int64_t sizeR0, int64_t cores,
        int64_t maxTile = 4096)
{
    SoftmaxLongRowsTiling t{};
    t.sizeO0 = sizeO0;
    t.sizeR0 = sizeR0;
    const int64_t extent = sizeR0;
    const int64_t tile = extent < maxTile ? (extent + 63) / 64 * 64 : maxTile;
    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);
    t.tasks = sizeO0;
    t.tasksPerCore = (t.tasks + cores - 1) / cores;
    return t;
}

template <typename T>
__aicore__ inline T Lower(T a, T b)
{
    return a < b ? a : b;
}

// `count` elements from global memory in one burst, which need not be whole 32 bytes.
template <typename T>
__aicore__ inline void LoadTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> padParams{false, 0, 0, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}

// `count` elements to global memory in one burst; no byte beyond them is written.
template <typename T>
__aicore__ inline void StoreTile(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(dst, src, copyParams);
}

// Lets the second pipe of the event wait for the first.
template <HardEvent event>
__aicore__ inline void Await()
{
    const TEventID id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}

class SoftmaxKernel {
public:
    __aicore__ inline SoftmaxKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const SoftmaxTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeO0 * tiling.sizeR0);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeO0 * tiling.sizeR0);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(foldedBuf, 32);
        pipe->InitBuffer(workBuf, tiling.tileLength / 8 + 32);  // an extreme and its place for each 256 bytes folded
        count = static_cast<uint32_t>(tiling.sizeR0);
    }

    __aicore__ inline void Process()
    {
        // Consecutive tasks for each core; the last core may have fewer.
        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;
        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);
        for (int64_t task = first; task < last; ++task) {
            Locate(task);
            CopyIn();
            Compute();
            CopyOut();
        }
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        o0 = task;
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[o0 * tiling.sizeR0], count);
        inQueueX.EnQue(xLocal);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceMax(folded, xLocal, workBuf.Get<float>(), count);
        Await<HardEvent::V_S>();
        const float max = folded.GetValue(0);
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal, -max, count);
        Exp(tmp0, tmp0, count);
        ReduceSum(folded, tmp0, workBuf.Get<float>(), count);
        Await<HardEvent::V_S>();
        const float sum = folded.GetValue(0);
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        Duplicate(yLocal, sum, count);
        Div(yLocal, tmp0, yLocal, count);
        inQueueX.FreeTensor(xLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[o0 * tiling.sizeR0], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    SoftmaxTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> foldedBuf, workBuf;
    int64_t o0 = 0;
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void softmax_kernel(GM_ADDR x, GM_ADDR y, SoftmaxTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    SoftmaxKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}

class SoftmaxLongRowsKernel {
public:
    __aicore__ inline SoftmaxLongRowsKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const SoftmaxLongRowsTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeO0 * tiling.sizeR0);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeO0 * tiling.sizeR0);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(maxBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(sumBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(foldedBuf, 32);
        pipe->InitBuffer(workBuf, tiling.tileLength / 8 + 32);  // an extreme and its place for each 256 bytes folded
    }

    __aicore__ inline void Process()
    {
        // Consecutive tasks for each core; the last core may have fewer.
        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;
        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);
        for (int64_t task = first; task < last; ++task) {
            Locate(task);
            Compute1();
            for (r0 = 0; r0 < tiling.sizeR0; r0 += tiling.tileLength) {
                count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeR0 - r0));
                CopyIn1();
                Compute2();
            }
            Compute3();
            for (r0 = 0; r0 < tiling.sizeR0; r0 += tiling.tileLength) {
                count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeR0 - r0));
                CopyIn2();
                Compute4();
            }
            Compute5();
            for (r0 = 0; r0 < tiling.sizeR0; r0 += tiling.tileLength) {
                count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeR0 - r0));
                CopyIn3();
                Compute6();
                CopyOut();
            }
        }
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        o0 = task;
    }

    // max begins
    __aicore__ inline void Compute1()
    {
        LocalTensor<float> maxLocal = maxBuf.Get<float>();
        Duplicate(maxLocal, -__builtin_inff(), tiling.tileLength);
    }

    __aicore__ inline void CopyIn1()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[o0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal);
    }

    // max takes in x[o0,r0]
    __aicore__ inline void Compute2()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> maxLocal = maxBuf.Get<float>();
        Max(maxLocal, maxLocal, xLocal, count);
        inQueueX.FreeTensor(xLocal);
    }

    // max is complete; sum begins
    __aicore__ inline void Compute3()
    {
        LocalTensor<float> maxLocal = maxBuf.Get<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceMax(folded, maxLocal, workBuf.Get<float>(), tiling.tileLength);
        Await<HardEvent::V_S>();
        max = folded.GetValue(0);
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        Duplicate(sumLocal, 0.0f, tiling.tileLength);
    }

    __aicore__ inline void CopyIn2()
    {
        LocalTensor<float> xLocal1 = inQueueX.AllocTensor<float>();
        LoadTile(xLocal1, xGm[o0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal1);
    }

    // sum takes in exp(x[o0,r0] - m[o0])
    __aicore__ inline void Compute4()
    {
        LocalTensor<float> xLocal1 = inQueueX.DeQue<float>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal1, -max, count);
        Exp(tmp0, tmp0, count);
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        Add(sumLocal, sumLocal, tmp0, count);
        inQueueX.FreeTensor(xLocal1);
    }

    // sum is complete
    __aicore__ inline void Compute5()
    {
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceSum(folded, sumLocal, workBuf.Get<float>(), tiling.tileLength);
        Await<HardEvent::V_S>();
        sum = folded.GetValue(0);
    }

    __aicore__ inline void CopyIn3()
    {
        LocalTensor<float> xLocal2 = inQueueX.AllocTensor<float>();
        LoadTile(xLocal2, xGm[o0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal2);
    }

    // y
    __aicore__ inline void Compute6()
    {
        LocalTensor<float> xLocal2 = inQueueX.DeQue<float>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal2, -max, count);
        Exp(tmp0, tmp0, count);
        Duplicate(yLocal, sum, count);
        Div(yLocal, tmp0, yLocal, count);
        inQueueX.FreeTensor(xLocal2);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[o0 * tiling.sizeR0 + r0], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    SoftmaxLongRowsTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> maxBuf;
    TBuf<TPosition::VECCALC> sumBuf;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> foldedBuf, workBuf;
    int64_t o0 = 0;
    int64_t r0 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
    float max = 0;
    float sum = 0;
};

extern "C" __global__ __aicore__ void softmax_long_rows_kernel(GM_ADDR x, GM_ADDR y, SoftmaxLongRowsTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    SoftmaxLongRowsKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
