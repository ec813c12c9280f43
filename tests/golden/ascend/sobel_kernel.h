// sobel: Edge magnitude by the Sobel filter.
//
// Global memory: reads 4 * sizeH * sizeW + 72 bytes and writes 4 * sizeH * sizeW at least.
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// sobel: tiles of up to 2432 elements take 184832 of 188416 bytes of unified buffer: inQueueX 2 x 9728, inQueueX1
//   2 x 9728, inQueueX2 2 x 9728, outQueueY 2 x 9728, xBuf 9728, xBuf1 9728, xBuf2 9728, xBuf3 9728, xBuf4 9728,
//   xBuf5 9728, tmpBuf0 9728, tmpBuf1 9728, tmpBuf2 9728, tmpBuf3 9728, tmpBuf4 9728.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for sobel, passed by value.
struct SobelTiling {
    int64_t sizeH;
    int64_t sizeW;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline SobelTiling MakeSobelTiling(int64_t sizeH, int64_t sizeW, int64_t cores, int64_t maxTile = 2432)
{
    SobelTiling t{};
    t.sizeH = sizeH;
    t.sizeW = sizeW;
    const int64_t extent = sizeW;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeH;
    int64_t tile = rows == 0 ? 64 : (extent * rows + cores - 1) / cores;
    tile = tile < extent ? tile : extent;
    tile = tile < maxTile ? (tile + 63) / 64 * 64 : maxTile;
    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);
    t.tasks = rows * ((extent + t.tileLength - 1) / t.tileLength);
    t.tasksPerCore = (t.tasks + cores - 1) / cores;
    return t;
}

template <typename T>
__aicore__ inline T Lower(T a, T b)
{
    return a < b ? a : b;
}

// The remainder with the sign of b; 0 where b is 0.
__aicore__ inline int64_t FloorMod(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Folds a place back at the edges: ... 1 0 [0 1 2 3] 3 2 ...
__aicore__ inline int64_t Mirror(int64_t i, int64_t n)
{
    const int64_t period = 2 * n;
    const int64_t m = FloorMod(i, period);
    return m < period - 1 - m ? m : period - 1 - m;
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

class SobelKernel {
public:
    __aicore__ inline SobelKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const SobelTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeH * tiling.sizeW);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeH * tiling.sizeW);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX1, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX2, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf1, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf2, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf3, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf4, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf5, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf1, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf2, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf3, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf4, tiling.tileLength * sizeof(float));
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
        const int64_t tilesInRow = (tiling.sizeW + tiling.tileLength - 1) / tiling.tileLength;
        w2 = (task % tilesInRow) * tiling.tileLength;
        int64_t rest = task / tilesInRow;
        h2 = rest;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeW - w2));
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[(Mirror(h2 - 1, tiling.sizeH)) * tiling.sizeW + w2], count);
        inQueueX.EnQue(xLocal);
        LocalTensor<float> xLocal1 = inQueueX1.AllocTensor<float>();
        LoadTile(xLocal1, xGm[h2 * tiling.sizeW + w2], count);
        inQueueX1.EnQue(xLocal1);
        LocalTensor<float> xLocal2 = inQueueX2.AllocTensor<float>();
        LoadTile(xLocal2, xGm[(Mirror(h2 + 1, tiling.sizeH)) * tiling.sizeW + w2], count);
        inQueueX2.EnQue(xLocal2);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> xLocal1 = inQueueX1.DeQue<float>();
        LocalTensor<float> xLocal2 = inQueueX2.DeQue<float>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<float> xLocal3 = xBuf.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal3.SetValue(lane, xGm.GetValue((Mirror(h2 - 1, tiling.sizeH)) * tiling.sizeW + Mirror(w2 + lane - 1,
                    tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> xLocal4 = xBuf1.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal4.SetValue(lane, xGm.GetValue((Mirror(h2 - 1, tiling.sizeH)) * tiling.sizeW + Mirror(w2 + lane + 1,
                    tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> xLocal5 = xBuf2.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal5.SetValue(lane, xGm.GetValue(h2 * tiling.sizeW + Mirror(w2 + lane - 1, tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> xLocal6 = xBuf3.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal6.SetValue(lane, xGm.GetValue(h2 * tiling.sizeW + Mirror(w2 + lane + 1, tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> xLocal7 = xBuf4.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal7.SetValue(lane, xGm.GetValue((Mirror(h2 + 1, tiling.sizeH)) * tiling.sizeW + Mirror(w2 + lane - 1,
                    tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> xLocal8 = xBuf5.Get<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            xLocal8.SetValue(lane, xGm.GetValue((Mirror(h2 + 1, tiling.sizeH)) * tiling.sizeW + Mirror(w2 + lane + 1,
                    tiling.sizeW)));
        }
        Await<HardEvent::S_V>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Muls(tmp0, xLocal3, -0.25f, count);
        LocalTensor<float> tmp1 = tmpBuf1.Get<float>();
        Muls(tmp1, xLocal, -0.5f, count);
        Add(tmp1, tmp0, tmp1, count);
        LocalTensor<float> tmp2 = tmpBuf2.Get<float>();
        Muls(tmp2, xLocal4, -0.25f, count);
        Add(tmp1, tmp1, tmp2, count);
        Muls(tmp2, xLocal5, 0.0f, count);
        Add(tmp1, tmp1, tmp2, count);
        Muls(tmp2, xLocal1, 0.0f, count);
        Add(tmp1, tmp1, tmp2, count);
        LocalTensor<float> tmp3 = tmpBuf3.Get<float>();
        Muls(tmp3, xLocal6, 0.0f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal7, 0.25f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal2, 0.5f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal8, 0.25f, count);
        Add(tmp1, tmp1, tmp3, count);
        Mul(tmp1, tmp1, tmp1, count);
        LocalTensor<float> tmp4 = tmpBuf4.Get<float>();
        Muls(tmp4, xLocal, 0.0f, count);
        Add(tmp0, tmp0, tmp4, count);
        Muls(tmp4, xLocal4, 0.25f, count);
        Add(tmp0, tmp0, tmp4, count);
        Muls(tmp4, xLocal5, -0.5f, count);
        Add(tmp0, tmp0, tmp4, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal6, 0.5f, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal7, -0.25f, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal2, 0.0f, count);
        Add(tmp0, tmp0, tmp2, count);
        Add(tmp0, tmp0, tmp3, count);
        Mul(tmp0, tmp0, tmp0, count);
        Add(tmp1, tmp1, tmp0, count);
        Muls(tmp1, tmp1, 0.5f, count);
        Sqrt(yLocal, tmp1, count);
        inQueueX.FreeTensor(xLocal);
        inQueueX1.FreeTensor(xLocal1);
        inQueueX2.FreeTensor(xLocal2);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[h2 * tiling.sizeW + w2], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    SobelTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECIN, 1> inQueueX1;
    TQue<TPosition::VECIN, 1> inQueueX2;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> xBuf;
    TBuf<TPosition::VECCALC> xBuf1;
    TBuf<TPosition::VECCALC> xBuf2;
    TBuf<TPosition::VECCALC> xBuf3;
    TBuf<TPosition::VECCALC> xBuf4;
    TBuf<TPosition::VECCALC> xBuf5;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> tmpBuf1;
    TBuf<TPosition::VECCALC> tmpBuf2;
    TBuf<TPosition::VECCALC> tmpBuf3;
    TBuf<TPosition::VECCALC> tmpBuf4;
    int64_t h2 = 0;
    int64_t w2 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void sobel_kernel(GM_ADDR x, GM_ADDR y, SobelTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    SobelKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
