"""matmul: Matrix product of the last two dims, broadcast over the dims before them.

    y[m,n] = sum[k](a[m,k] * w[k,n])

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    w_ptr,
    y_ptr,
    M,
    K,
    N,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    # Programs that run at the same time go over GROUP_M rows of blocks, column by column, so that
    # they share what they read in the L2 cache.
    pid_m, pid_n = tl.swizzle2d(pid // blocks_n, pid % blocks_n, blocks_m, blocks_n, GROUP_M)
    m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(INDEX)
    n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)
    acc = tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32)
    for start in range(0, K, BLOCK_K):
        k = (start + tl.arange(0, BLOCK_K)).to(INDEX)
        mask = (m[:, None] < M) & (k[None, :] < K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=mask, other=0.0)
        mask_1 = (k[:, None] < K) & (n[None, :] < N)
        b = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=mask_1, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=mask)


def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


def matmul(a, w):
    """Matrix product of the last two dims, broadcast over the dims before them."""
    _expect("matmul: a", a, torch.float32, 2)
    _expect("matmul: w", w, torch.float32, 2)
    device = a.device
    M, K = a.shape
    _, N = w.shape
    if w.shape != (K, N):
        raise ValueError(f"matmul: w must have the shape {(K, N)}, but has {tuple(w.shape)}.")
    a = a.contiguous()
    w = w.contiguous()
    y = torch.empty((M, N), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(a.numel(), w.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_M = min(triton.next_power_of_2(max(M, 16)), 64)
    BLOCK_N = min(triton.next_power_of_2(max(N, 16)), 64)
    BLOCK_K = min(triton.next_power_of_2(max(K, 16)), 32)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_kernel[grid](
        a,
        w,
        y,
        M,
        K,
        N,
        INDEX=INDEX,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        GROUP_M=8,
        num_warps=8 if BLOCK_M * BLOCK_N >= 128 * 128 else 4,
        num_stages=3,
    )
    return y


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def _fold(operation, body, axes, grid, initial):
    """Folds body, spread over the grid, along axes that stay with an extent of 1."""
    return operation(np.broadcast_to(body, grid), axis=axes, keepdims=True, initial=initial)


def reference(a, w, M, K, N):
    """The declaration in NumPy, equation by equation, in float64."""
    m, n, k = np.ogrid[:M, :N, :K]
    y = _whole(
        _fold(np.sum, (a[m, k] * w[k, n]), (2,), (M, N, K), 0), (M, N, 1), (M, N), np.float64
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for M, K, N in [
        (1, 1, 1),
        (2, 3, 5),
        (19, 17, 13),
        (3, 3, 3),
        (33, 3, 5),
        (129, 3, 5),
        (2, 33, 5),
        (2, 129, 5),
    ]:
        a = torch.randn((M, K))
        w = torch.randn((K, N))
        expected = reference(a.double().numpy(), w.double().numpy(), M, K, N)
        results = (matmul(a.to(device), w.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("matmul: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
