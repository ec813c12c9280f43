// gather: Slices of x at the given places along a dim.
//
//     y[j0,j1,b0] = x[select(at[j0,j1] < 0,at[j0,j1] + n4,at[j0,j1]),b0]
//
// Global memory, in bytes: reads at most x (4 * xDim0 * sizeB0), at (8 * sizeJ0 * sizeJ0); writes y (4 * sizeJ0 *
//   sizeJ0 * sizeB0).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// gather: tiles of up to 4096 elements take 32800 of 188416 bytes of unified buffer: copyQueueX 2 x 16384,
//   faultBuf 32.
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for gather, passed by value.
struct GatherTiling {
    int64_t xDim0;
    int64_t sizeB0;
    int64_t sizeJ0;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline GatherTiling MakeGatherTiling(int64_t xDim0, int64_t sizeB0, int64_t sizeJ0, int64_t cores,
        int64_t maxTile = 4096)
{
    GatherTiling t{};
    t.xDim0 = xDim0;
    t.sizeB0 = sizeB0;
    t.sizeJ0 = sizeJ0;
    const int64_t extent = sizeB0;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeJ0 * sizeJ0;
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

// Lets the second pipe of the event wait for the first.
template <HardEvent event>
__aicore__ inline void Await()
{
    const TEventID id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}

template <typename T>
__aicore__ inline T WrapAdd(T a, T b)
{
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

class GatherKernel {
public:
    __aicore__ inline GatherKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR at, GM_ADDR y, GM_ADDR faults, const GatherTiling &tilingData,
            TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.xDim0 * tiling.sizeB0);
        atGm.SetGlobalBuffer((__gm__ int64_t *)at, tiling.sizeJ0 * tiling.sizeJ0);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeJ0 * tiling.sizeJ0 * tiling.sizeB0);
        faultGm.SetGlobalBuffer((__gm__ int32_t *)faults, GetBlockNum());
        pipe->InitBuffer(copyQueueX, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(faultBuf, 32);
    }

    __aicore__ inline void Process()
    {
        // Consecutive tasks for each core; the last core may have fewer.
        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;
        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);
        for (int64_t task = first; task < last; ++task) {
            Locate(task);
            CopyIn();
            CopyOut();
        }
        ReportFault();
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        const int64_t tilesInRow = (tiling.sizeB0 + tiling.tileLength - 1) / tiling.tileLength;
        b0 = (task % tilesInRow) * tiling.tileLength;
        int64_t rest = task / tilesInRow;
        j1 = rest % tiling.sizeJ0;
        j0 = rest / tiling.sizeJ0;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeB0 - b0));
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> xLocal = copyQueueX.AllocTensor<float>();
        const int64_t atValue = atGm.GetValue(j0 * tiling.sizeJ0 + j1);
        LoadTile(xLocal, xGm[Checked(atValue < 0 ? WrapAdd<int64_t>(atValue, tiling.xDim0) : atValue, tiling.xDim0)
                * tiling.sizeB0 + b0], count);
        copyQueueX.EnQue(xLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> xLocal = copyQueueX.DeQue<float>();
        StoreTile(yGm[(j0 * tiling.sizeJ0 + j1) * tiling.sizeB0 + b0], xLocal, count);
        copyQueueX.FreeTensor(xLocal);
    }

    // An index that is data. Outside its dimension it is a fault, and place 0 stands in for it.
    __aicore__ inline int64_t Checked(int64_t index, int64_t size)
    {
        if (index < 0 || index >= size) {
            fault = 1;
            return 0;
        }
        return index;
    }

    __aicore__ inline void ReportFault()
    {
        LocalTensor<int32_t> flag = faultBuf.Get<int32_t>();
        flag.SetValue(0, fault);
        Await<HardEvent::S_MTE3>();
        DataCopyPad(faultGm[GetBlockIdx()], flag, DataCopyExtParams{1, sizeof(int32_t), 0, 0, 0});
    }

    GatherTiling tiling;
    GlobalTensor<float> xGm;
    GlobalTensor<int64_t> atGm;
    GlobalTensor<float> yGm;
    GlobalTensor<int32_t> faultGm;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> copyQueueX;
    TBuf<TPosition::VECCALC> faultBuf;
    int64_t j0 = 0;
    int64_t j1 = 0;
    int64_t b0 = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
    int32_t fault = 0;
};

extern "C" __global__ __aicore__ void gather_kernel(GM_ADDR x, GM_ADDR at, GM_ADDR y, GM_ADDR faults,
        GatherTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    GatherKernel op;
    op.Init(x, at, y, faults, tiling, &pipe);
    op.Process();
}
