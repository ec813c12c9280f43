// sobel: Edge magnitude by the Sobel filter.
//
//     v[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k[m,n])
//     u[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k_2[m,n])
//     y[h,w] = sqrt((v[h,w] * v[h,w] + u[h,w] * u[h,w]) * 0.5)
//
// Global memory, in bytes: reads at most x (4 * sizeH * sizeW); writes y (4 * sizeH * sizeW).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// sobel: tiles of up to 1920 elements take 184320 of 188416 bytes of unified buffer: inQueueX 2 x 7680, inQueueX1
//   2 x 7680, inQueueX2 2 x 7680, inQueueX3 2 x 7680, inQueueX4 2 x 7680, inQueueX5 2 x 7680, inQueueX6 2 x 7680,
//   inQueueX7 2 x 7680, outQueueY 2 x 7680, xBuf 7680, tmpBuf0 7680, tmpBuf1 7680, tmpBuf2 7680, tmpBuf3 7680,
//   tmpBuf4 7680.
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

inline SobelTiling MakeSobelTiling(int64_t sizeH, int64_t sizeW, int64_t cores, int64_t maxTile = 1920)
{
    SobelTiling t{};
    t.sizeH = sizeH;
    t.sizeW = sizeW;
    const int64_t extent = sizeW;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeH;
    int64_t tile = (extent * rows + cores - 1) / cores;
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

__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

// `count` elements from global memory in one burst, which need not be whole 32 bytes.
template <typename T>
__aicore__ inline void LoadTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> padParams{false, 0, 0, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}

struct Lanes {
    uint32_t begin, end;
};

// Which of `count` lanes, the first of which is element `start`, lie in a row of `size` elements.
__aicore__ inline Lanes LanesInside(int64_t start, int64_t size, uint32_t count)
{
    const int64_t begin = start < 0 ? Lower<int64_t>(-start, count) : 0;
    const int64_t end = Lower<int64_t>(size - start, count);
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end > begin ? end : begin)};
}

// `count` elements of a row of `size`, from `start` on, which may lie before it. Elements beyond its ends are `outside`:
// DataCopyPad pads up to whole 32 bytes, and whole blocks are filled.
template <typename T>
__aicore__ inline void LoadWindow(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                                  uint32_t count, T outside)
{
    constexpr uint32_t block = 32 / sizeof(T);
    const Lanes inside = LanesInside(start, size, count);
    const uint32_t first = inside.begin / block * block;
    const uint32_t last = inside.begin < inside.end ? RoundUp(inside.end, block) : first;
    if (first < last) {
        const DataCopyExtParams copyParams{1, static_cast<uint32_t>((inside.end - inside.begin) * sizeof(T)), 0, 0, 0};
        const DataCopyPadExtParams<T> padParams{true, static_cast<uint8_t>(inside.begin - first),
                                                static_cast<uint8_t>(last - inside.end), outside};
        DataCopyPad(dst[first], row[start + inside.begin], copyParams, padParams);
    }
    if (first > 0) {
        Duplicate(dst, outside, static_cast<int32_t>(first));
    }
    if (last < count) {
        Duplicate(dst[last], outside, static_cast<int32_t>(RoundUp(count, block) - last));
    }
}

// Fetches the lanes that lie beyond the ends of a row: what lies as far on this side of the edge.
template <typename T>
__aicore__ inline void MirrorEdges(const LocalTensor<T> &dst, const GlobalTensor<T> &row, int64_t start, int64_t size,
                               uint32_t count)
{
    const Lanes inside = LanesInside(start, size, count);
    for (uint32_t lane = 0; lane < inside.begin; ++lane) {
        dst.SetValue(lane, row.GetValue(Mirror(start + lane, size)));
    }
    for (uint32_t lane = inside.end; lane < count; ++lane) {
        dst.SetValue(lane, row.GetValue(Mirror(start + lane, size)));
    }
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
        pipe->InitBuffer(inQueueX3, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX4, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX5, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX6, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueX7, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(xBuf, tiling.tileLength * sizeof(float));
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
        w = (task % tilesInRow) * tiling.tileLength;
        h = task / tilesInRow;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeW - w));
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadWindow(xLocal, xGm[Mirror(h - 1, tiling.sizeH) * tiling.sizeW], w - 1, tiling.sizeW, count, 0.0f);
        inQueueX.EnQue(xLocal);
        LocalTensor<float> xLocal1 = inQueueX1.AllocTensor<float>();
        LoadTile(xLocal1, xGm[Mirror(h - 1, tiling.sizeH) * tiling.sizeW + w], count);
        inQueueX1.EnQue(xLocal1);
        LocalTensor<float> xLocal2 = inQueueX2.AllocTensor<float>();
        LoadWindow(xLocal2, xGm[Mirror(h - 1, tiling.sizeH) * tiling.sizeW], w + 1, tiling.sizeW, count, 0.0f);
        inQueueX2.EnQue(xLocal2);
        LocalTensor<float> xLocal3 = inQueueX3.AllocTensor<float>();
        LoadWindow(xLocal3, xGm[h * tiling.sizeW], w - 1, tiling.sizeW, count, 0.0f);
        inQueueX3.EnQue(xLocal3);
        LocalTensor<float> xLocal4 = inQueueX4.AllocTensor<float>();
        LoadTile(xLocal4, xGm[h * tiling.sizeW + w], count);
        inQueueX4.EnQue(xLocal4);
        LocalTensor<float> xLocal5 = inQueueX5.AllocTensor<float>();
        LoadWindow(xLocal5, xGm[h * tiling.sizeW], w + 1, tiling.sizeW, count, 0.0f);
        inQueueX5.EnQue(xLocal5);
        LocalTensor<float> xLocal6 = inQueueX6.AllocTensor<float>();
        LoadWindow(xLocal6, xGm[Mirror(h + 1, tiling.sizeH) * tiling.sizeW], w - 1, tiling.sizeW, count, 0.0f);
        inQueueX6.EnQue(xLocal6);
        LocalTensor<float> xLocal7 = inQueueX7.AllocTensor<float>();
        LoadTile(xLocal7, xGm[Mirror(h + 1, tiling.sizeH) * tiling.sizeW + w], count);
        inQueueX7.EnQue(xLocal7);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> xLocal1 = inQueueX1.DeQue<float>();
        LocalTensor<float> xLocal2 = inQueueX2.DeQue<float>();
        LocalTensor<float> xLocal3 = inQueueX3.DeQue<float>();
        LocalTensor<float> xLocal4 = inQueueX4.DeQue<float>();
        LocalTensor<float> xLocal5 = inQueueX5.DeQue<float>();
        LocalTensor<float> xLocal6 = inQueueX6.DeQue<float>();
        LocalTensor<float> xLocal7 = inQueueX7.DeQue<float>();
        LocalTensor<float> xLocal8 = xBuf.Get<float>();
        Await<HardEvent::V_MTE2>();  // eight tensors of the queues' position are held already
        LoadWindow(xLocal8, xGm[Mirror(h + 1, tiling.sizeH) * tiling.sizeW], w + 1, tiling.sizeW, count, 0.0f);
        Await<HardEvent::MTE2_V>();
        Await<HardEvent::V_S>();
        MirrorEdges(xLocal, xGm[Mirror(h - 1, tiling.sizeH) * tiling.sizeW], w - 1, tiling.sizeW, count);
        MirrorEdges(xLocal2, xGm[Mirror(h - 1, tiling.sizeH) * tiling.sizeW], w + 1, tiling.sizeW, count);
        MirrorEdges(xLocal3, xGm[h * tiling.sizeW], w - 1, tiling.sizeW, count);
        MirrorEdges(xLocal5, xGm[h * tiling.sizeW], w + 1, tiling.sizeW, count);
        MirrorEdges(xLocal6, xGm[Mirror(h + 1, tiling.sizeH) * tiling.sizeW], w - 1, tiling.sizeW, count);
        MirrorEdges(xLocal8, xGm[Mirror(h + 1, tiling.sizeH) * tiling.sizeW], w + 1, tiling.sizeW, count);
        Await<HardEvent::S_V>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Muls(tmp0, xLocal, -0.25f, count);
        LocalTensor<float> tmp1 = tmpBuf1.Get<float>();
        Muls(tmp1, xLocal1, -0.5f, count);
        Add(tmp1, tmp0, tmp1, count);
        LocalTensor<float> tmp2 = tmpBuf2.Get<float>();
        Muls(tmp2, xLocal2, -0.25f, count);
        Add(tmp1, tmp1, tmp2, count);
        Muls(tmp2, xLocal3, 0.0f, count);
        Add(tmp1, tmp1, tmp2, count);
        Muls(tmp2, xLocal4, 0.0f, count);
        Add(tmp1, tmp1, tmp2, count);
        LocalTensor<float> tmp3 = tmpBuf3.Get<float>();
        Muls(tmp3, xLocal5, 0.0f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal6, 0.25f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal7, 0.5f, count);
        Add(tmp1, tmp1, tmp3, count);
        Muls(tmp3, xLocal8, 0.25f, count);
        Add(tmp1, tmp1, tmp3, count);
        Mul(tmp1, tmp1, tmp1, count);
        LocalTensor<float> tmp4 = tmpBuf4.Get<float>();
        Muls(tmp4, xLocal1, 0.0f, count);
        Add(tmp0, tmp0, tmp4, count);
        Muls(tmp4, xLocal2, 0.25f, count);
        Add(tmp0, tmp0, tmp4, count);
        Muls(tmp4, xLocal3, -0.5f, count);
        Add(tmp0, tmp0, tmp4, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal5, 0.5f, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal6, -0.25f, count);
        Add(tmp0, tmp0, tmp2, count);
        Muls(tmp2, xLocal7, 0.0f, count);
        Add(tmp0, tmp0, tmp2, count);
        Add(tmp0, tmp0, tmp3, count);
        Mul(tmp0, tmp0, tmp0, count);
        Add(tmp1, tmp1, tmp0, count);
        Muls(tmp1, tmp1, 0.5f, count);
        Sqrt(yLocal, tmp1, count);
        inQueueX.FreeTensor(xLocal);
        inQueueX1.FreeTensor(xLocal1);
        inQueueX2.FreeTensor(xLocal2);
        inQueueX3.FreeTensor(xLocal3);
        inQueueX4.FreeTensor(xLocal4);
        inQueueX5.FreeTensor(xLocal5);
        inQueueX6.FreeTensor(xLocal6);
        inQueueX7.FreeTensor(xLocal7);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[h * tiling.sizeW + w], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    SobelTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECIN, 1> inQueueX1;
    TQue<TPosition::VECIN, 1> inQueueX2;
    TQue<TPosition::VECIN, 1> inQueueX3;
    TQue<TPosition::VECIN, 1> inQueueX4;
    TQue<TPosition::VECIN, 1> inQueueX5;
    TQue<TPosition::VECIN, 1> inQueueX6;
    TQue<TPosition::VECIN, 1> inQueueX7;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> xBuf;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> tmpBuf1;
    TBuf<TPosition::VECCALC> tmpBuf2;
    TBuf<TPosition::VECCALC> tmpBuf3;
    TBuf<TPosition::VECCALC> tmpBuf4;
    int64_t h = 0;
    int64_t w = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void sobel_kernel(GM_ADDR x, GM_ADDR y, SobelTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    SobelKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
