// transpose: Dims in another order: dim d of the result is dim perm[d] of x.
//
//     y[i2,i0,i1] = x[i0,i1,i2]
//
// Global memory, in bytes: reads x (4 * sizeI0 * sizeI1 * sizeI2); writes y (4 * sizeI2 * sizeI0 * sizeI1).
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory.
// transpose: tiles of up to 448 elements take 175616 of 188416 bytes of unified buffer: inQueueXRows 2 x 57344,
//   outQueueY 2 x 1792, turnedXBuf 57344.
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
        int64_t maxTile = 448)
{
    TransposeTiling t{};
    t.sizeI0 = sizeI0;
    t.sizeI1 = sizeI1;
    t.sizeI2 = sizeI2;
    const int64_t extent = sizeI0 * sizeI1;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = ((sizeI2 + 31) / 32);
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

__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

// `width` elements of each of `rows` rows, whose beginnings lie `stride` elements apart. In the unified buffer each row
// takes whole blocks of 32 bytes, which are filled up with zeros.
template <typename T>
__aicore__ inline void LoadRows(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t rows, uint32_t width,
                                int64_t stride)
{
    const uint32_t pitch = RoundUp(width, 32 / sizeof(T));
    const uint32_t rowBytes = static_cast<uint32_t>(width * sizeof(T));
    const DataCopyPadExtParams<T> padParams{true, 0, static_cast<uint8_t>(pitch - width), T()};
    const int64_t gap = (stride - width) * static_cast<int64_t>(sizeof(T));
    if (gap <= UINT32_MAX) {
        const DataCopyExtParams copyParams{static_cast<uint16_t>(rows), rowBytes, static_cast<uint32_t>(gap), 0, 0};
        DataCopyPad(dst, src, copyParams, padParams);
        return;
    }
    for (uint32_t row = 0; row < rows; ++row) {
        DataCopyPad(dst[row * pitch], src[row * stride], DataCopyExtParams{1, rowBytes, 0, 0, 0}, padParams);
    }
}

// Elements that are moved as they are.
template <size_t bytes>
struct TurnedBits {
    using type = uint32_t;
};
template <>
struct TurnedBits<2> {
    using type = uint16_t;
};

// Element c of row r of src (as LoadRows leaves them) becomes element r of row c of dst, whose rows lie dstPitch apart.
// Rows behind the last, up to `lanes`, a multiple of 16, count as zeros.
template <typename T>
__aicore__ inline void TurnRows(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t rows, uint32_t lanes,
                                uint32_t width, uint32_t dstPitch)
{
    using Bits = TurnedBits<sizeof(T)>;
    constexpr uint32_t block = 32 / sizeof(T);
    const uint32_t pitch = RoundUp(width, block);
    if (rows < lanes) {
        Duplicate(src[rows * pitch].template ReinterpretCast<typename Bits::type>(), typename Bits::type(0),
                  static_cast<int32_t>((lanes - rows) * pitch));
    }
    // A repeat turns 16 rows of a block each; a single one takes no stride.
    TransDataTo5HDParams params;
    params.repeatTimes = static_cast<uint8_t>(lanes / 16);
    params.srcRepStride = lanes > 16 ? static_cast<uint16_t>(16 * pitch / block) : 0;
    params.dstRepStride = lanes > 16 ? static_cast<uint16_t>(16 / block) : 0;
    for (uint32_t column = 0; column < width; column += block) {
        uint64_t from[16];
        uint64_t to[16];
        for (uint32_t i = 0; i < 16; ++i) {
            // 16 elements of 32 bits are two blocks.
            const uint32_t at = block == 16 ? (column + i) * dstPitch : (column + i / 2) * dstPitch + i % 2 * block;
            from[i] = reinterpret_cast<uint64_t>(src[i * pitch + column].GetPhyAddr());
            to[i] = reinterpret_cast<uint64_t>(dst[at].GetPhyAddr());
        }
        TransDataTo5HD<typename Bits::type>(to, from, params);
    }
}

// `count` elements to global memory in one burst; no byte beyond them is written.
template <typename T>
__aicore__ inline void StoreTile(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(dst, src, copyParams);
}

class TransposeKernel {
public:
    __aicore__ inline TransposeKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const TransposeTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeI0 * tiling.sizeI1 * tiling.sizeI2);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeI2 * tiling.sizeI0 * tiling.sizeI1);
        pipe->InitBuffer(inQueueXRows, BUFFER_NUM, 32 * tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(turnedXBuf, 32 * tiling.tileLength * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        // Consecutive tasks for each core; the last core may have fewer.
        const int64_t first = GetBlockIdx() * tiling.tasksPerCore;
        const int64_t last = Lower<int64_t>(first + tiling.tasksPerCore, tiling.tasks);
        for (int64_t task = first; task < last; ++task) {
            Locate(task);
            CopyInRows();
            Turn();
            for (const int64_t end = i2 + width; i2 < end; ++i2) {
                Compute();
                CopyOut();
            }
        }
    }

private:
    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        const int64_t tilesInRow = (tiling.sizeI0 * tiling.sizeI1 + tiling.tileLength - 1) / tiling.tileLength;
        i0i1 = (task % tilesInRow) * tiling.tileLength;
        i2 = (task / tilesInRow) * 32;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeI0 * tiling.sizeI1 - i0i1));
        width = static_cast<uint32_t>(Lower<int64_t>(32, tiling.sizeI2 - i2));
    }

    // Rows that lie across the tiles: a part of them for every lane, and what lanes find side by side.
    __aicore__ inline void CopyInRows()
    {
        LocalTensor<float> rowsOfX = inQueueXRows.AllocTensor<float>();
        LoadRows(rowsOfX, xGm[i0i1 * tiling.sizeI2 + i2], count, width, tiling.sizeI2);
        inQueueXRows.EnQue(rowsOfX);
    }

    __aicore__ inline void Turn()
    {
        LocalTensor<float> rowsOfX = inQueueXRows.DeQue<float>();
        TurnRows(turnedXBuf.Get<float>(), rowsOfX, count, RoundUp(count, 16), width, tiling.tileLength);
        inQueueXRows.FreeTensor(rowsOfX);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> xLocal = turnedXBuf.Get<float>()[i2 % 32 * tiling.tileLength];
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        DataCopy(yLocal, xLocal, RoundUp(count, 8));
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
    TQue<TPosition::VECIN, 1> inQueueXRows;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> turnedXBuf;
    int64_t i2 = 0;
    int64_t i0i1 = 0;  // where the tile begins
    uint32_t width = 0;  // elements of the present rows
    uint32_t count = 0;  // elements of the present tile
};

extern "C" __global__ __aicore__ void transpose_kernel(GM_ADDR x, GM_ADDR y, TransposeTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    TransposeKernel op;
    op.Init(x, y, tiling, &pipe);
    op.Process();
}
