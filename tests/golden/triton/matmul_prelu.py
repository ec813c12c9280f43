"""matmul_prelu: Linear layer without bias, then PReLU with one slope a column.

    z[m,n] = sum[k](x[m,k] * w[n,k])
    y[m,n] = select(z[m,n] >= 0,z[m,n],a[n] * z[m,n])

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_prelu_kernel(
    x_ptr,
    w_ptr,
    a_ptr,
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
        a = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=mask, other=0.0)
        mask_1 = (k[:, None] < K) & (n[None, :] < N)
        b = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=mask_1, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    n_mask = n < N
    a = tl.load(a_ptr + n, mask=n_mask)
    y = tl.where(acc >= 0.0, acc, a[None, :] * acc)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], y, mask=mask)


def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


def matmul_prelu(x, w, a):
    """Linear layer without bias, then PReLU with one slope a column."""
    _expect("matmul_prelu: x", x, torch.float32, 2)
    _expect("matmul_prelu: w", w, torch.float32, 2)
    _expect("matmul_prelu: a", a, torch.float32, 1)
    device = x.device
    M, K = x.shape
    N, _ = w.shape
    if w.shape != (N, K):
        raise ValueError(f"matmul_prelu: w must have the shape {(N, K)}, but has {tuple(w.shape)}.")
    if a.shape != (N,):
        raise ValueError(f"matmul_prelu: a must have the shape {(N,)}, but has {tuple(a.shape)}.")
    x = x.contiguous()
    w = w.contiguous()
    a = a.contiguous()
    y = torch.empty((M, N), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), w.numel(), a.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_M = min(triton.next_power_of_2(max(M, 16)), 64)
    BLOCK_N = min(triton.next_power_of_2(max(N, 16)), 64)
    BLOCK_K = min(triton.next_power_of_2(max(K, 16)), 32)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_prelu_kernel[grid](
        x,
        w,
        a,
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


def reference(x, w, a, M, K, N):
    """The declaration in NumPy, equation by equation, in float64."""
    m, n, k = np.ogrid[:M, :N, :K]
    z = _whole(
        _fold(np.sum, (x[m, k] * w[n, k]), (2,), (M, N, K), 0), (M, N, 1), (M, N), np.float64
    )
    m, n = np.ogrid[:M, :N]
    y = _whole(np.where((z[m, n] >= 0.0), z[m, n], (a[n] * z[m, n])), (M, N), (M, N), np.float64)
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
        x = torch.randn((M, K))
        w = torch.randn((N, K))
        a = torch.randn((N,))
        expected = reference(x.double().numpy(), w.double().numpy(), a.double().numpy(), M, K, N)
        results = (matmul_prelu(x.to(device), w.to(device), a.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("matmul_prelu: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
