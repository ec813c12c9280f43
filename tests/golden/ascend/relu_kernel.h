// relu: x where positive, else 0.
//
//     y[i0,i1] = max(x[i0,i1],0)
//
// Global memory, in bytes: reads x (4 * sizeI0 * sizeI1); writes y (4 * sizeI0 * sizeI1).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// relu: tiles of up to 4096 elements take 65536 of 188416 bytes of unified buffer: inQueueX 2 x 16384, outQueueY 2
//   x 16384.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for relu, passed by value.
struct ReluTiling {
    int64_t sizeI0;
    int64_t sizeI1;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline ReluTiling MakeReluTiling(int64_t sizeI0, int64_t sizeI1, int64_t cores, int64_t maxTile = 4096)
{
    ReluTiling t{};
    t.sizeI0 = sizeI0;
    t.sizeI1 = sizeI1;
    const int64_t extent = sizeI0 * sizeI1;
    // Tiles as large as fit, but enough of them for all cores.
    int64_t tile = (extent + cores - 1) / cores;
    tile = tile < maxTile ? (tile + 63) / 64 * 64 : maxTile;
    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);
    t.tasks = (extent + t.tileLength - 1) / t.tileLength;
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

class ReluKernel {
public:
    __aicore__ inline ReluKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const ReluTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeI0 * tiling.sizeI1);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeI0 * tiling.sizeI1);
        pipe->InitBuffer(inQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
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
        i0i1 = task * tiling.tileLength;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeI0 * tiling.sizeI1 - i0i1));
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
        LoadTile(xLocal, xGm[i0i1], count);
        inQueueX.EnQue(xLocal);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = inQueueX.DeQue<float>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        Relu(yLocal, xLocal, count);
        inQueueX.FreeTensor(xLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[i0i1], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    ReluTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueX;
    TQue<TPosition::VECOUT, 1> outQueueY;
    int64_t i0i1 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void relu_kernel(GM_ADDR x, GM_ADDR y, ReluTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    ReluKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
