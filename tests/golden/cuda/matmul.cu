// matmul: Matrix product of the last two dims, broadcast over the dims before them.
//
//     y[m,n] = cast(sum[k](cast(a[m,k], f32) * cast(w[k,n], f32)), bf16)
//
// Reads 2*k*m + 2*k*n bytes and writes 2*m*n: (2*k*m + 2*k*n + 2*m*n) / 4.28e12 s at least, at what an H200 copies.
// Operations: 2*k*m*n: 2*k*m*n / 6.8e14 s at least, at what cuBLAS reaches on its tensor cores.
//
// matmul_kernel: contraction: tiles on tensor cores (mma.sync m16n8k16), copies by cp.async.
//   both factors: coalesced, in pieces of 16 bytes to shared memory, and from there by ldmatrix.
//   result: pairs of neighbours, four threads side by side.
//
// Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the result.

// Positions in tensors. Compile with -DINDEX="long long" where one has 2^31 elements or more.
#ifndef INDEX
#define INDEX int
#endif
typedef INDEX Index;

#ifndef PER
#define PER 8
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef TILE_K
#define TILE_K 64
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef WARPS_M
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 4
#endif

__device__ __forceinline__ unsigned short f32_to_bf16(float v) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}

struct bf16 {
    unsigned short bits;
};
__device__ __forceinline__ float to_float(bf16 h) { return __int_as_float((int)h.bits << 16); }
__device__ __forceinline__ bf16 to_bf16(float v) { return bf16{f32_to_bf16(v)}; }

// N elements that one instruction moves: 16 bytes at most.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T at[N];
};
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* p) {
    return *(const Pack<T, N>*)p;
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& v) {
    *(Pack<T, N>*)p = v;
}

// Starts a copy of 16 bytes to shared memory that passes by the registers; of them only the first `bytes` are read,
// the others become 0.
__device__ __forceinline__ void copy_async(void* to, const void* from, unsigned bytes) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned kLeft>
__device__ __forceinline__ void wait_copies() {  // for all groups but the latest kLeft
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Four 8x8 matrices of 16-bit elements from shared memory in the layout that mma takes: lane i gives the address of
// row i % 8 of matrix i / 8.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {  // each matrix transposed
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a * b on the tensor cores: 16x16 by 16x8, bf16 factors, sums in float.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A block computes a tile of TILE_M x TILE_N on the tensor cores: products of 16-bit factors, sums in float. Slices of
// TILE_K are copied to shared memory asynchronously, STAGES - 1 ahead.
extern "C" __global__ void __launch_bounds__(WARPS_M * WARPS_N * 32) matmul_kernel(
        const bf16* __restrict__ a, const bf16* __restrict__ w, bf16* __restrict__ y, Index K, Index N, Index M) {
    constexpr int kThreads = WARPS_M * WARPS_N * 32, kRows = TILE_M / WARPS_M, kColumns = TILE_N / WARPS_N;
    constexpr int kSteps = TILE_K / 16;  // of a slice
    constexpr int kStage = (TILE_M + TILE_N) * TILE_K;  // elements of one slice of both factors
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned short* const tiles = (unsigned short*)shared;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / WARPS_N * kRows, warp_column = warp % WARPS_N * kColumns;
    const Index rows = M, columns = N, depth = K;
    const Index tiles_m = (rows + TILE_M - 1) / TILE_M, tiles_n = (columns + TILE_N - 1) / TILE_N;
    for (Index block = blockIdx.x; block < tiles_m * tiles_n; block += gridDim.x) {
        // Eight rows of tiles at a time: what they read of both factors fits the L2 cache.
        const Index tile = block;
        const Index first = tile / (8 * tiles_n) * 8, height = tiles_m - first < 8 ? tiles_m - first : 8;
        const Index row0 = (first + tile % (8 * tiles_n) % height) * TILE_M;
        const Index column0 = tile % (8 * tiles_n) / height * TILE_N;
        float sums[kRows / 16][kColumns / 8][4] = {};

        const int a_line = threadIdx.x / (TILE_K / 8), a_piece = threadIdx.x % (TILE_K / 8);
        const Index a_from = (row0 + a_line) * K + a_piece * 8;
        const int b_line = threadIdx.x / (TILE_N / 8), b_piece = threadIdx.x % (TILE_N / 8);
        const Index b_from = b_line * N + column0 + b_piece * 8;
        // Starts the copies of one slice. 16-byte pieces are placed by exclusive or with their row, so that neither
        // the copies nor ldmatrix meet two pieces in one bank.
        const auto copy_slice = [&](Index slice) {
            unsigned short* const a_tile = tiles + (int)(slice % STAGES) * kStage;
            unsigned short* const b_tile = a_tile + TILE_M * TILE_K;
            #pragma unroll
            for (int chunk = 0; chunk < TILE_M * TILE_K / 8 / kThreads; ++chunk) {
                const int line = a_line + chunk * (kThreads / (TILE_K / 8));
                const bool inside = row0 + line < rows && slice * TILE_K + a_piece * 8 < depth;
                const Index from = a_from + slice * TILE_K + (line - a_line) * K;
                copy_async(a_tile + line * TILE_K + (a_piece ^ line / (64 / TILE_K) % (TILE_K / 8)) * 8, &a[inside ? from : 0], inside ? 16 : 0);
            }
            #pragma unroll
            for (int chunk = 0; chunk < TILE_N * TILE_K / 8 / kThreads; ++chunk) {
                const int line = b_line + chunk * (kThreads / (TILE_N / 8));
                const bool inside = column0 + b_piece * 8 < columns && slice * TILE_K + line < depth;
                const Index from = b_from + (slice * TILE_K + line - b_line) * N;
                copy_async(b_tile + line * TILE_N + (b_piece ^ line % (TILE_N < 64 ? TILE_N / 8 : 8)) * 8, &w[inside ? from : 0], inside ? 16 : 0);
            }
            commit_copies();
        };
        unsigned a_part[2][kRows / 16][4], b_part[2][kColumns / 16][4];
        // What the products of step kk of a slice take, to registers.
        const auto load_parts = [&](Index slice, int kk, int to) {
            const unsigned short* const a_tile = tiles + (int)(slice % STAGES) * kStage;
            const unsigned short* const b_tile = a_tile + TILE_M * TILE_K;
            #pragma unroll
            for (int i = 0; i < kRows / 16; ++i) {
                const int line = warp_row + i * 16 + lane % 16, piece = kk * 2 + lane / 16;
                ldmatrix_x4(a_part[to][i], a_tile + line * TILE_K + (piece ^ line / (64 / TILE_K) % (TILE_K / 8)) * 8);
            }
            #pragma unroll
            for (int j = 0; j < kColumns / 16; ++j) {
                const int line = kk * 16 + lane / 8 % 2 * 8 + lane % 8, piece = (warp_column + j * 16) / 8 + lane / 16;
                ldmatrix_x4_trans(b_part[to][j], b_tile + line * TILE_N + (piece ^ line % (TILE_N < 64 ? TILE_N / 8 : 8)) * 8);
            }
        };
        const Index slices = (depth + TILE_K - 1) / TILE_K;
        for (int s = 0; s < STAGES - 1; ++s) {
            if (s < slices) copy_slice(s);
            else commit_copies();
        }
        wait_copies<STAGES - 2>();
        __syncthreads();
        load_parts(0, 0, 0);
        for (Index slice = 0; slice < slices; ++slice) {
            #pragma unroll
            for (int kk = 0; kk < kSteps; ++kk) {
                if (kk + 1 == kSteps) {
                    wait_copies<STAGES - 2>();  // the next slice has arrived,
                    __syncthreads();            // for all threads, and all have read this one
                }
                if (kk == 0) {
                    if (slice + STAGES - 1 < slices) copy_slice(slice + STAGES - 1);
                    else commit_copies();
                }
                // The parts of the next step are on their way while this one multiplies.
                load_parts(slice + (kk + 1) / kSteps, (kk + 1) % kSteps, (kk + 1) % 2);
                #pragma unroll
                for (int i = 0; i < kRows / 16; ++i) {
                    #pragma unroll
                    for (int j = 0; j < kColumns / 8; ++j) {
                        const unsigned* const b_of = b_part[kk % 2][j / 2] + j % 2 * 2;
                        mma_bf16(sums[i][j], a_part[kk % 2][i], b_of[0], b_of[1]);
                    }
                }
            }
        }
        wait_copies<0>();
        __syncthreads();  // the tiles are free for the next block of the result
        #pragma unroll
        for (int i = 0; i < kRows / 8; ++i) {
            const Index row = row0 + warp_row + i * 8 + lane / 4;
            if (row >= rows) continue;
            const Index m = row;
            #pragma unroll
            for (int j = 0; j < kColumns / 8; ++j) {
                const Index column0_of_pair = column0 + warp_column + j * 8 + lane % 4 * 2;
                if (column0_of_pair >= columns) continue;
                Pack<bf16, 2> pair;
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const Index column = column0_of_pair + e;
                    const Index n = column;
                    pair.at[e] = to_bf16(sums[i / 2][j][i % 2 * 2 + e]);
                }
                const Index column = column0_of_pair;
                const Index n = column;
                store_pack(&y[m * N + n], pair);
            }
        }
    }
}

// A block computes a square tile; each of its 256 threads keeps PER x PER of the sums in registers.
extern "C" __global__ void __launch_bounds__(256) matmul_kernel_any(
        const bf16* __restrict__ a, const bf16* __restrict__ w, bf16* __restrict__ y, Index K, Index N, Index M) {
    constexpr int kThreads = 256, kTile = 16 * PER, kDepth = 16, kEach = kTile * kDepth / kThreads;
    __shared__ float a_tile[kDepth][kTile + 4], b_tile[kDepth][kTile + 4];
    const int thread = threadIdx.x, thread_row = thread / 16, thread_column = thread % 16;
    const Index rows = M, columns = N, depth = K;
    const Index tiles_m = (rows + kTile - 1) / kTile, tiles_n = (columns + kTile - 1) / kTile;
    for (Index block = blockIdx.x; block < tiles_m * tiles_n; block += gridDim.x) {
        // Eight rows of tiles at a time: what they read of both factors fits the L2 cache.
        const Index tile = block;
        const Index first = tile / (8 * tiles_n) * 8, height = tiles_m - first < 8 ? tiles_m - first : 8;
        const Index row0 = (first + tile % (8 * tiles_n) % height) * kTile;
        const Index column0 = tile % (8 * tiles_n) / height * kTile;
        float sums[PER][PER] = {}, a_next[kEach], b_next[kEach];
        // The elements of the next slice are on their way from memory while this one is worked on.
        const auto fetch = [&](Index depth0) {
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                const Index side = row0 + cell / kDepth, deep = depth0 + cell % kDepth;
                a_next[i] = 0;
                if (side < rows && deep < depth) {
                    const Index m = side;
                    const Index k = deep;
                    const float a_value = to_float(a[m * K + k]);
                    a_next[i] = a_value;
                }
            }
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                const Index side = column0 + cell % kTile, deep = depth0 + cell / kTile;
                b_next[i] = 0;
                if (side < columns && deep < depth) {
                    const Index n = side;
                    const Index k = deep;
                    const float w_value = to_float(w[k * N + n]);
                    b_next[i] = w_value;
                }
            }
        };
        fetch(0);
        for (Index depth0 = 0; depth0 < depth; depth0 += kDepth) {
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                a_tile[cell % kDepth][cell / kDepth] = a_next[i];
            }
            #pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int cell = i * kThreads + thread;
                b_tile[cell / kTile][cell % kTile] = b_next[i];
            }
            __syncthreads();
            if (depth0 + kDepth < depth) fetch(depth0 + kDepth);
            #pragma unroll
            for (int kk = 0; kk < kDepth; ++kk) {
                float a_part[PER], b_part[PER];
                #pragma unroll
                for (int i = 0; i < PER; ++i) a_part[i] = a_tile[kk][thread_row * PER + i];
                #pragma unroll
                for (int j = 0; j < PER; ++j) b_part[j] = b_tile[kk][thread_column * 4 + j % 4 + j / 4 * 64];
                #pragma unroll
                for (int i = 0; i < PER; ++i) {
                    #pragma unroll
                    for (int j = 0; j < PER; ++j) sums[i][j] += a_part[i] * b_part[j];
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            const Index row = row0 + thread_row * PER + i;
            if (row >= rows) break;
            #pragma unroll
            for (int j = 0; j < PER; ++j) {
                const Index column = column0 + thread_column * 4 + j % 4 + j / 4 * 64;
                if (column >= columns) continue;
                const Index m = row;
                const Index n = column;
                y[m * N + n] = to_bf16(sums[i][j]);
            }
        }
    }
}

