// add: a + b; integers wrap.
//
//     y[i0,i1] = a[i0,i1] + b[i1]
//
// Global memory, in bytes: reads a (4 * sizeI0 * sizeI1), b (4 * sizeI1); writes y (4 * sizeI0 * sizeI1).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// add: tiles of up to 4096 elements take 98304 of 188416 bytes of unified buffer: inQueueA 2 x 16384, inQueueB 2 x
//   16384, outQueueY 2 x 16384.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for add, passed by value.
struct AddTiling {
    int64_t sizeI0;
    int64_t sizeI1;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline AddTiling MakeAddTiling(int64_t sizeI0, int64_t sizeI1, int64_t cores, int64_t maxTile = 4096)
{
    AddTiling t{};
    t.sizeI0 = sizeI0;
    t.sizeI1 = sizeI1;
    const int64_t extent = sizeI1;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeI0;
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

class AddKernel {
public:
    __aicore__ inline AddKernel() {}

    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR y, const AddTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        aGm.SetGlobalBuffer((__gm__ float *)a, tiling.sizeI0 * tiling.sizeI1);
        bGm.SetGlobalBuffer((__gm__ float *)b, tiling.sizeI1);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeI0 * tiling.sizeI1);
        pipe->InitBuffer(inQueueA, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueB, BUFFER_NUM, tiling.tileLength * sizeof(float));
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
        const int64_t tilesInRow = (tiling.sizeI1 + tiling.tileLength - 1) / tiling.tileLength;
        i1 = (task % tilesInRow) * tiling.tileLength;
        i0 = task / tilesInRow;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeI1 - i1));
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> aLocal = inQueueA.AllocTensor<float>();
        LoadTile(aLocal, aGm[i0 * tiling.sizeI1 + i1], count);
        inQueueA.EnQue(aLocal);
        LocalTensor<float> bLocal = inQueueB.AllocTensor<float>();
        LoadTile(bLocal, bGm[i1], count);
        inQueueB.EnQue(bLocal);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> aLocal = inQueueA.DeQue<float>();
        LocalTensor<float> bLocal = inQueueB.DeQue<float>();
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        Add(yLocal, aLocal, bLocal, count);
        inQueueA.FreeTensor(aLocal);
        inQueueB.FreeTensor(bLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[i0 * tiling.sizeI1 + i1], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    AddTiling tiling;
    GlobalTensor<float> aGm;
    GlobalTensor<float> bGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueA;
    TQue<TPosition::VECIN, 1> inQueueB;
    TQue<TPosition::VECOUT, 1> outQueueY;
    int64_t i0 = 0;
    int64_t i1 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void add_kernel(GM_ADDR a, GM_ADDR b, GM_ADDR y, AddTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    AddKernel op;
    op.Init(a, b, y, tiling, &pipe);
    op.Process();
}
