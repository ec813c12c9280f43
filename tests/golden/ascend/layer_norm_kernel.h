// layer_norm: Layer normalisation over the dims from `axis` on, computed in `stash`; also delivers the mean and 1/deviation.
//
//     centre[a0] = sum[r0](x[a0,r0]) / cast(n5, f32)
//     inv_std[a0] = 1 / sqrt(sum[r0]((x[a0,r0] - centre[a0]) * (x[a0,r0] - centre[a0])) / cast(n5, f32) + 1e-05)
//     y[a0,r0] = (x[a0,r0] - centre[a0]) * inv_std[a0] * scale[r0] + bias[r0]
//
// Global memory, in bytes: reads x (4 * sizeA0 * sizeR0), scale (4 * sizeR0), bias (4 * sizeR0); writes y (4 *
//   sizeA0 * sizeR0), centre (4 * sizeA0), invStd (4 * sizeA0).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// layer_norm: tiles of up to 5760 elements take 185264 of 188416 bytes of unified buffer: inQueueX 2 x 23040,
//   outQueueCentre 2 x 32, outQueueInvStd 2 x 32, outQueueY 2 x 23040, scaleBuf 23040, biasBuf 23040, tmpBuf0 23040,
//   tmpBuf1 23040, foldedBuf 32, workBuf 784.
// layer_norm_long_rows: tiles of up to 4096 elements take 180960 of 188416 bytes of unified buffer: inQueueX 2 x
//   16384, outQueueCentre 2 x 32, outQueueInvStd 2 x 32, inQueueScale 2 x 16384, inQueueBias 2 x 16384, outQueueY 2
//   x 16384, sumBuf 16384, sumBuf1 16384, tmpBuf0 16384, foldedBuf 32, workBuf 576.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for layer_norm, passed by value.
struct LayerNormTiling {
    int64_t sizeA0;
    int64_t sizeR0;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline LayerNormTiling MakeLayerNormTiling(int64_t sizeA0, int64_t sizeR0, int64_t cores)
{
    LayerNormTiling t{};
    t.sizeA0 = sizeA0;
    t.sizeR0 = sizeR0;
    t.tileLength = static_cast<uint32_t>((sizeR0 + 63) / 64 * 64);
    t.tasks = sizeA0;
    t.tasksPerCore = (t.tasks + cores - 1) / cores;
    return t;
}

// What the host counts for layer_norm_long_rows, passed by value.
struct LayerNormLongRowsTiling {
    int64_t sizeA0;
    int64_t sizeR0;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline LayerNormLongRowsTiling MakeLayerNormLongRowsTiling(int64_t sizeA0, int64_t sizeR0, int64_t cores,
        int64_t maxTile = 4096)
{
    LayerNormLongRowsTiling t{};
    t.sizeA0 = sizeA0;
    t.sizeR0 = sizeR0;
    const int64_t extent = sizeR0;
    const int64_t tile = extent < maxTile ? (extent + 63) / 64 * 64 : maxTile;
    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);
    t.tasks = sizeA0;
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

class LayerNormKernel {
public:
    __aicore__ inline LayerNormKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR centre, GM_ADDR invStd, GM_ADDR y,
            const LayerNormTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeA0 * tiling.sizeR0);
        scaleGm.SetGlobalBuffer((__gm__ float *)scale, tiling.sizeR0);
        biasGm.SetGlobalBuffer((__gm__ float *)bias, tiling.sizeR0);
        centreGm.SetGlobalBuffer((__gm__ float *)centre, tiling.sizeA0);
        invStdGm.SetGlobalBuffer((__gm__ float *)invStd, tiling.sizeA0);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeA0 * tiling.sizeR0);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueCentre, BUFFER_NUM, 32);
        pipe->InitBuffer(outQueueInvStd, BUFFER_NUM, 32);
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(scaleBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(biasBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf1, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(foldedBuf, 32);
        pipe->InitBuffer(workBuf, tiling.tileLength / 16 + 32);  // a float for each 256 bytes folded
        count = static_cast<uint32_t>(tiling.sizeR0);
    }

    __aicore__ inline void Process()
    {
        CopyInOnce();
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
        a0 = task;
    }

    // What every task reads.
    __aicore__ inline void CopyInOnce()
    {
        LoadTile(scaleBuf.Get<float>(), scaleGm[0], count);
        LoadTile(biasBuf.Get<float>(), biasGm[0], count);
        Await<HardEvent::MTE2_V>();
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[a0 * tiling.sizeR0], count);
        inQueueX.EnQue(xLocal);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceSum(folded, xLocal, workBuf.Get<float>(), count);
        Await<HardEvent::V_S>();
        const float sum = folded.GetValue(0);
        const float centreValue = sum / static_cast<float>(tiling.sizeR0);
        LocalTensor<float> centreLocal = outQueueCentre.AllocTensor<float>();
        Await<HardEvent::V_S>();  // AllocTensor made only the vector unit wait
        centreLocal.SetValue(0, centreValue);
        Await<HardEvent::S_V>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal, -centreValue, count);
        Mul(tmp0, tmp0, tmp0, count);
        ReduceSum(folded, tmp0, workBuf.Get<float>(), count);
        Await<HardEvent::V_S>();
        const float sum1 = folded.GetValue(0);
        const float invStdValue = 1.0f / sqrt(sum1 / static_cast<float>(tiling.sizeR0) + 1e-05f);
        LocalTensor<float> invStdLocal = outQueueInvStd.AllocTensor<float>();
        Await<HardEvent::V_S>();  // AllocTensor made only the vector unit wait
        invStdLocal.SetValue(0, invStdValue);
        Await<HardEvent::S_V>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<float> scaleLocal = scaleBuf.Get<float>();
        LocalTensor<float> biasLocal = biasBuf.Get<float>();
        LocalTensor<float> tmp1 = tmpBuf1.Get<float>();
        Adds(tmp1, xLocal, -centreValue, count);
        Muls(tmp1, tmp1, invStdValue, count);
        Mul(tmp1, tmp1, scaleLocal, count);
        Add(yLocal, tmp1, biasLocal, count);
        inQueueX.FreeTensor(xLocal);
        outQueueCentre.EnQue(centreLocal);
        outQueueInvStd.EnQue(invStdLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> centreLocal = outQueueCentre.DeQue<float>();
        StoreTile(centreGm[a0], centreLocal, 1);
        outQueueCentre.FreeTensor(centreLocal);
        LocalTensor<float> invStdLocal = outQueueInvStd.DeQue<float>();
        StoreTile(invStdGm[a0], invStdLocal, 1);
        outQueueInvStd.FreeTensor(invStdLocal);
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[a0 * tiling.sizeR0], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    LayerNormTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> scaleGm;
    GlobalTensor<float> biasGm;
    GlobalTensor<float> centreGm;
    GlobalTensor<float> invStdGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECOUT, 1> outQueueCentre;
    TQue<TPosition::VECOUT, 1> outQueueInvStd;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> scaleBuf;
    TBuf<TPosition::VECCALC> biasBuf;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> tmpBuf1;
    TBuf<TPosition::VECCALC> foldedBuf, workBuf;
    int64_t a0 = 0;
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void layer_norm_kernel(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR centre,
        GM_ADDR invStd, GM_ADDR y, LayerNormTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    LayerNormKernel op;
    op.Init(x, scale, bias, centre, invStd, y, tiling, &pipe);
    op.Process();
}

class LayerNormLongRowsKernel {
public:
    __aicore__ inline LayerNormLongRowsKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR scale, GM_ADDR bias, GM_ADDR centre, GM_ADDR invStd, GM_ADDR y,
            const LayerNormLongRowsTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeA0 * tiling.sizeR0);
        scaleGm.SetGlobalBuffer((__gm__ float *)scale, tiling.sizeR0);
        biasGm.SetGlobalBuffer((__gm__ float *)bias, tiling.sizeR0);
        centreGm.SetGlobalBuffer((__gm__ float *)centre, tiling.sizeA0);
        invStdGm.SetGlobalBuffer((__gm__ float *)invStd, tiling.sizeA0);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeA0 * tiling.sizeR0);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueCentre, BUFFER_NUM, 32);
        pipe->InitBuffer(outQueueInvStd, BUFFER_NUM, 32);
        pipe->InitBuffer(inQueueScale, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueBias, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(sumBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(sumBuf1, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(foldedBuf, 32);
        pipe->InitBuffer(workBuf, tiling.tileLength / 16 + 32);  // a float for each 256 bytes folded
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
            CopyOut1();
            for (r0 = 0; r0 < tiling.sizeR0; r0 += tiling.tileLength) {
                count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeR0 - r0));
                CopyIn2();
                Compute4();
            }
            Compute5();
            CopyOut2();
            for (r0 = 0; r0 < tiling.sizeR0; r0 += tiling.tileLength) {
                count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeR0 - r0));
                CopyIn3();
                Compute6();
                CopyOut3();
            }
        }
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        a0 = task;
    }

    // sum begins
    __aicore__ inline void Compute1()
    {
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        Duplicate(sumLocal, 0.0f, tiling.tileLength);
    }

    __aicore__ inline void CopyIn1()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[a0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal);
    }

    // sum takes in x[a0,r0]
    __aicore__ inline void Compute2()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        Add(sumLocal, sumLocal, xLocal, count);
        inQueueX.FreeTensor(xLocal);
    }

    // sum is complete; centre; sum begins
    __aicore__ inline void Compute3()
    {
        LocalTensor<float> sumLocal = sumBuf.Get<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceSum(folded, sumLocal, workBuf.Get<float>(), tiling.tileLength);
        Await<HardEvent::V_S>();
        const float sum = folded.GetValue(0);
        centreValue = sum / static_cast<float>(tiling.sizeR0);
        LocalTensor<float> centreLocal = outQueueCentre.AllocTensor<float>();
        Await<HardEvent::V_S>();  // AllocTensor made only the vector unit wait
        centreLocal.SetValue(0, centreValue);
        Await<HardEvent::S_V>();
        LocalTensor<float> sumLocal1 = sumBuf1.Get<float>();
        Duplicate(sumLocal1, 0.0f, tiling.tileLength);
        outQueueCentre.EnQue(centreLocal);
    }

    __aicore__ inline void CopyOut1()
    {
        LocalTensor<float> centreLocal = outQueueCentre.DeQue<float>();
        StoreTile(centreGm[a0], centreLocal, 1);
        outQueueCentre.FreeTensor(centreLocal);
    }

    __aicore__ inline void CopyIn2()
    {
        LocalTensor<float> xLocal1 = inQueueX.AllocTensor<float>();
        LoadTile(xLocal1, xGm[a0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal1);
    }

    // sum takes in (x[a0,r0] - centre[a0]) * (x[a0,r0] - centre[a0])
    __aicore__ inline void Compute4()
    {
        LocalTensor<float> xLocal1 = inQueueX.DeQue<float>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal1, -centreValue, count);
        Mul(tmp0, tmp0, tmp0, count);
        LocalTensor<float> sumLocal1 = sumBuf1.Get<float>();
        Add(sumLocal1, sumLocal1, tmp0, count);
        inQueueX.FreeTensor(xLocal1);
    }

    // sum is complete; inv_std
    __aicore__ inline void Compute5()
    {
        LocalTensor<float> sumLocal1 = sumBuf1.Get<float>();
        LocalTensor<float> folded = foldedBuf.Get<float>();
        ReduceSum(folded, sumLocal1, workBuf.Get<float>(), tiling.tileLength);
        Await<HardEvent::V_S>();
        const float sum1 = folded.GetValue(0);
        invStdValue = 1.0f / sqrt(sum1 / static_cast<float>(tiling.sizeR0) + 1e-05f);
        LocalTensor<float> invStdLocal = outQueueInvStd.AllocTensor<float>();
        Await<HardEvent::V_S>();  // AllocTensor made only the vector unit wait
        invStdLocal.SetValue(0, invStdValue);
        Await<HardEvent::S_V>();
        outQueueInvStd.EnQue(invStdLocal);
    }

    __aicore__ inline void CopyOut2()
    {
        LocalTensor<float> invStdLocal = outQueueInvStd.DeQue<float>();
        StoreTile(invStdGm[a0], invStdLocal, 1);
        outQueueInvStd.FreeTensor(invStdLocal);
    }

    __aicore__ inline void CopyIn3()
    {
        LocalTensor<float> xLocal2 = inQueueX.AllocTensor<float>();
        LoadTile(xLocal2, xGm[a0 * tiling.sizeR0 + r0], count);
        inQueueX.EnQue(xLocal2);
        LocalTensor<float> scaleLocal = inQueueScale.AllocTensor<float>();
        LoadTile(scaleLocal, scaleGm[r0], count);
        inQueueScale.EnQue(scaleLocal);
        LocalTensor<float> biasLocal = inQueueBias.AllocTensor<float>();
        LoadTile(biasLocal, biasGm[r0], count);
        inQueueBias.EnQue(biasLocal);
    }

    // y
    __aicore__ inline void Compute6()
    {
        LocalTensor<float> xLocal2 = inQueueX.DeQue<float>();
        LocalTensor<float> scaleLocal = inQueueScale.DeQue<float>();
        LocalTensor<float> biasLocal = inQueueBias.DeQue<float>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Adds(tmp0, xLocal2, -centreValue, count);
        Muls(tmp0, tmp0, invStdValue, count);
        Mul(tmp0, tmp0, scaleLocal, count);
        Add(yLocal, tmp0, biasLocal, count);
        inQueueX.FreeTensor(xLocal2);
        inQueueScale.FreeTensor(scaleLocal);
        inQueueBias.FreeTensor(biasLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut3()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[a0 * tiling.sizeR0 + r0], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    LayerNormLongRowsTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> scaleGm;
    GlobalTensor<float> biasGm;
    GlobalTensor<float> centreGm;
    GlobalTensor<float> invStdGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECOUT, 1> outQueueCentre;
    TQue<TPosition::VECOUT, 1> outQueueInvStd;
    TQue<TPosition::VECIN, 1> inQueueScale;
    TQue<TPosition::VECIN, 1> inQueueBias;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> sumBuf;
    TBuf<TPosition::VECCALC> sumBuf1;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> foldedBuf, workBuf;
    int64_t a0 = 0;
    int64_t r0 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
    float centreValue = 0;
    float invStdValue = 0;
};

extern "C" __global__ __aicore__ void layer_norm_long_rows_kernel(GM_ADDR x, GM_ADDR scale, GM_ADDR bias,
        GM_ADDR centre, GM_ADDR invStd, GM_ADDR y, LayerNormLongRowsTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    LayerNormLongRowsKernel op;
    op.Init(x, scale, bias, centre, invStd, y, tiling, &pipe);
    op.Process();
}
