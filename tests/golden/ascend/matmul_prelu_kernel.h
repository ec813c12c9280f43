// matmul_prelu: Linear layer without bias, then PReLU with one slope a column.
//
//     z[m,n] = sum[k](x[m,k] * w[n,k])
//     y[m,n] = select(z[m,n] >= 0,z[m,n],a[n] * z[m,n])
//
// Global memory, in bytes: reads x (4 * sizeM * sizeK), w (4 * sizeN * sizeK), a (4 * sizeN); writes y (4 * sizeM
//   * sizeN); product passes from kernel to kernel: 4 * sizeN * sizeM bytes there and back.
// Floor on Atlas A2: bytes / 1.8 TB/s of its memory, and sizeM * sizeN * sizeK / (16 * 16 * 16) / 24 cores / 1.85
//   GHz of its cubes with half factors, four times that with float ones.
// matmul_prelu: tiles of up to 4096 elements take 115232 of 188416 bytes of unified buffer: inQueueProduct 2 x
//   16384, inQueueA 2 x 16384, outQueueY 2 x 16384, tmpBuf0 16384, maskBuf0 544.
#include "lib/matmul_intf.h"
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFER_NUM = 2;  // double buffering: one tile is moved while the other is computed

// What the host counts for matmul_prelu, passed by value.
struct MatmulPreluTiling {
    int64_t sizeM;
    int64_t sizeK;
    int64_t sizeN;
    uint32_t tileLength;   // elements of a full tile, whole 256 bytes of float
    TCubeTiling cube;      // of the product
    int64_t rows;          // of the product, all matrices together
    int64_t rowsPerCore;
    int64_t tasks;         // of all cores together
    int64_t tasksPerCore;  // the last core may have fewer
};

inline MatmulPreluTiling MakeMatmulPreluTiling(int64_t sizeM, int64_t sizeK, int64_t sizeN, int64_t cores,
        int64_t maxTile = 4096)
{
    MatmulPreluTiling t{};
    t.sizeM = sizeM;
    t.sizeK = sizeK;
    t.sizeN = sizeN;
    const int64_t extent = sizeN;
    // Tiles as large as fit, but enough of them for all cores.
    const int64_t rows = sizeM;
    int64_t tile = (extent * rows + cores - 1) / cores;
    tile = tile < extent ? tile : extent;
    tile = tile < maxTile ? (tile + 63) / 64 * 64 : maxTile;
    t.tileLength = static_cast<uint32_t>(tile > 64 ? tile : 64);
    t.tasks = rows * ((extent + t.tileLength - 1) / t.tileLength);
    t.rows = sizeM;
    t.rowsPerCore = (t.rows + cores - 1) / cores;
    t.tasksPerCore = t.rowsPerCore * ((extent + t.tileLength - 1) / t.tileLength);
    t.cube.usedCoreNum = static_cast<int32_t>(cores);
    t.cube.M = static_cast<int32_t>(sizeM);
    t.cube.N = static_cast<int32_t>(sizeN);
    t.cube.Ka = t.cube.Kb = static_cast<int32_t>(sizeK);
    t.cube.singleCoreM = static_cast<int32_t>(t.rowsPerCore);
    t.cube.singleCoreN = t.cube.N;
    t.cube.singleCoreK = t.cube.Ka;
    t.cube.baseM = t.cube.baseN = 128;  // 64 KB of L0C
    t.cube.baseK = 32;                  // twice 32 KB each of L0A and L0B
    t.cube.dbL0A = t.cube.dbL0B = 2;
    t.cube.dbL0C = 1;
    t.cube.stepM = t.cube.stepN = 1;
    t.cube.stepKa = t.cube.stepKb = 4;
    t.cube.depthA1 = t.cube.depthB1 = 8;  // two steps of four blocks: all of L1
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

// `count` elements from global memory in one burst, which need not be whole 32 bytes.
template <typename T>
__aicore__ inline void LoadTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> padParams{false, 0, 0, T()};
    DataCopyPad(dst, src, copyParams, padParams);
}

// `count` elements from global memory in one burst, and zeros up to whole 32 bytes.
template <typename T>
__aicore__ inline void LoadPaddedTile(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count)
{
    const DataCopyExtParams copyParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const uint8_t zeros = static_cast<uint8_t>(RoundUp(count, 32 / sizeof(T)) - count);
    const DataCopyPadExtParams<T> padParams{true, 0, zeros, T()};
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

// Zeroes what DataCopyPad leaves undefined behind `count` elements: comparisons work on whole 256 bytes.
template <typename T>
__aicore__ inline void FillTail(const LocalTensor<T> &t, uint32_t count, uint32_t lanes)
{
    const uint32_t begin = RoundUp(count, 32 / sizeof(T));
    if (begin < lanes) {
        Duplicate(t[begin].template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                  static_cast<int32_t>((lanes - begin) * sizeof(T) / sizeof(int16_t)));
    }
}

class MatmulPreluKernel {
public:
    __aicore__ inline MatmulPreluKernel() {}

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR w, GM_ADDR a, GM_ADDR product, GM_ADDR y,
            const MatmulPreluTiling &tilingData, TPipe *pipe)
    {
        tiling = tilingData;
        xGm.SetGlobalBuffer((__gm__ float *)x, tiling.sizeM * tiling.sizeK);
        wGm.SetGlobalBuffer((__gm__ float *)w, tiling.sizeN * tiling.sizeK);
        aGm.SetGlobalBuffer((__gm__ float *)a, tiling.sizeN);
        productGm.SetGlobalBuffer((__gm__ float *)product, tiling.sizeM * tiling.sizeN);
        yGm.SetGlobalBuffer((__gm__ float *)y, tiling.sizeM * tiling.sizeN);
        if (tiling.sizeK > 0) {
            REGIST_MATMUL_OBJ(pipe, GetSysWorkSpacePtr(), mm, &tiling.cube);
        }
        pipe->InitBuffer(inQueueProduct, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(inQueueA, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(outQueueY, BUFFER_NUM, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(tmpBuf0, tiling.tileLength * sizeof(float));
        pipe->InitBuffer(maskBuf0, tiling.tileLength / 8);
    }

    __aicore__ inline void Process()
    {
        Multiply();
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
    // This core's rows of the product, to global memory: the cube hands its results over there in any case.
    __aicore__ inline void Multiply()
    {
        const int64_t firstRow = GetBlockIdx() * tiling.rowsPerCore;
        const int64_t lastRow = Lower<int64_t>(firstRow + tiling.rowsPerCore, tiling.rows);
        if (tiling.sizeK == 0 && firstRow < lastRow) {  // a sum of nothing
            InitGlobalMemory(productGm[firstRow * tiling.sizeN],
                    static_cast<uint64_t>((lastRow - firstRow) * tiling.sizeN), 0.0f);
            Await<HardEvent::MTE3_MTE2>();
            return;
        }
        for (int64_t row = firstRow; row < lastRow;) {
            m = row % tiling.sizeM;
            const int64_t rows = Lower<int64_t>(lastRow - row, tiling.sizeM - m);  // within one matrix
            mm.SetTensorA(xGm[m * tiling.sizeK], false);
            mm.SetTensorB(wGm[0], true);
            mm.SetTail(static_cast<int>(rows), static_cast<int>(tiling.sizeN), static_cast<int>(tiling.sizeK));
            mm.IterateAll(productGm[row * tiling.sizeN]);
            row += rows;
        }
        mm.End();
    }

    // Where a task lies.
    __aicore__ inline void Locate(int64_t task)
    {
        const int64_t tilesInRow = (tiling.sizeN + tiling.tileLength - 1) / tiling.tileLength;
        n = (task % tilesInRow) * tiling.tileLength;
        m = task / tilesInRow;
        count = static_cast<uint32_t>(Lower<int64_t>(tiling.tileLength, tiling.sizeN - n));
        lanes = RoundUp(count, 64);
    }

    __aicore__ inline void CopyIn()
    {
        LocalTensor<float> productLocal = inQueueProduct.AllocTensor<float>();
        LoadPaddedTile(productLocal, productGm[m * tiling.sizeN + n], count);
        inQueueProduct.EnQue(productLocal);
        LocalTensor<float> aLocal = inQueueA.AllocTensor<float>();
        LoadPaddedTile(aLocal, aGm[n], count);
        inQueueA.EnQue(aLocal);
    }

    __aicore__ inline void Compute()
    {
        LocalTensor<float> productLocal = inQueueProduct.DeQue<float>();
        FillTail(productLocal, count, lanes);
        LocalTensor<float> aLocal = inQueueA.DeQue<float>();
        FillTail(aLocal, count, lanes);
        LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
        LocalTensor<uint8_t> mask0 = maskBuf0.Get<uint8_t>();
        CompareScalar(mask0, productLocal, 0.0f, CMPMODE::GE, lanes);
        LocalTensor<float> tmp0 = tmpBuf0.Get<float>();
        Mul(tmp0, aLocal, productLocal, lanes);
        Select(yLocal, mask0, productLocal, tmp0, SELMODE::VSEL_TENSOR_TENSOR_MODE, lanes);
        inQueueProduct.FreeTensor(productLocal);
        inQueueA.FreeTensor(aLocal);
        outQueueY.EnQue(yLocal);
    }

    __aicore__ inline void CopyOut()
    {
        LocalTensor<float> yLocal = outQueueY.DeQue<float>();
        StoreTile(yGm[m * tiling.sizeN + n], yLocal, count);
        outQueueY.FreeTensor(yLocal);
    }

    MatmulPreluTiling tiling;
    using FactorA = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float, false>;
    using FactorB = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float, true>;
    using Result = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
    matmul::Matmul<FactorA, FactorB, Result> mm;
    GlobalTensor<float> xGm;
    GlobalTensor<float> wGm;
    GlobalTensor<float> aGm;
    GlobalTensor<float> productGm;
    GlobalTensor<float> yGm;
    TQue<TPosition::VECIN, 1> inQueueProduct;
    TQue<TPosition::VECIN, 1> inQueueA;
    TQue<TPosition::VECOUT, 1> outQueueY;
    TBuf<TPosition::VECCALC> tmpBuf0;
    TBuf<TPosition::VECCALC> maskBuf0;
    int64_t m = 0;
    int64_t n = 0;  // where the tile begins
    uint32_t count = 0;  // elements of the present tile
    uint32_t lanes = 0;  // the same, rounded up to whole 256 bytes
};

extern "C" __global__ __mix__(1, 2) void matmul_prelu_kernel(GM_ADDR x, GM_ADDR w, GM_ADDR a, GM_ADDR product,
        GM_ADDR y, MatmulPreluTiling tiling)
{
    TPipe pipe;  // outside the class, so that the compiler can fold constants
    MatmulPreluKernel op;
    op.Init(x, w, a, product, y, tiling, &pipe);
    op.Process();
}
