// transpose: Dims in another order: dim d of the result is dim perm[d] of x.
//
//     y[i2,i0,i1] = x[i0,i1,i2]
//
// Global memory, in bytes: reads x (4 * sizeI0 * sizeI1 * sizeI2); writes y (4 * sizeI2 * sizeI0 * sizeI1).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// transpose: tiles of up to 4096 elements take 32768 of 188416 bytes of unified buffer: outQueueY 2 x 16384.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for transpose, passed by value.
struct TransposeTiling {
    int64_t sizeI0;
    int64_t sizeI1;
    int64_t sizeI2;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline TransposeTiling MakeTransposeTiling(int64_t sizeI0, int64_t sizeI1, int64_t sizeI2, int64_t cores,
        int64_t maxTile = 4096)
{
    TransposeTiling t{};
    t.sizeI0 = sizeI0;
    t.sizeI1 = sizeI1;
    t.sizeI2 = sizeI2;
    const int64_t extent = sizeI0 * sizeI1;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeI2;
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

class TransposeKernel {
public:
    __aicore__ inline TransposeKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const TransposeTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeI0 * tiling.sizeI1 * tiling.sizeI2);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeI2 * tiling.sizeI0 * tiling.sizeI1);
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        // Consecutive tasks for each core; the last core may have fewer.
        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;
        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);
        for (int64_t task = first; task < last; ++task) {
            Locate(task);
            Compute();
            CopyOut();
        }
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        const int64_t tilesInRow = (tiling.sizeI0 * tiling.sizeI1 + tiling.tileLength - 1) / tiling.tileLength;
        i0i1 = (task % tilesInRow) * tiling.tileLength;
        i2 = task / tilesInRow;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeI0 * tiling.sizeI1 - i0i1));
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        Await<HardEvent::V_S>();
        for (uint32_t lane = 0; lane < count; ++lane) {  // its elements lie apart in memory
            yLocal.SetValue(lane, xGm.GetValue((i0i1 + lane) * tiling.sizeI2 + i2));
        }
        Await<HardEvent::S_V>();
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[i2 * (tiling.sizeI0 * tiling.sizeI1) + i0i1], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    TransposeTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECOUT, 1> outQueueY;
    int64_t i2 = 0;
    int64_t i0i1 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void transpose_kernel(GM_ADDR x, GM_ADDR y, TransposeTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    TransposeKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
