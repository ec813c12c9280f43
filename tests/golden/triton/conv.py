"""conv: Convolution with every output channel reading every input channel.

    z[n,m,p0,p1] = sum[c,k0,k1](x[n,c,p0 + k0 - 1,p1 + k1 - 1] outside (0) * w[m,c,k0,k1])
    y[n,m,p0,p1] = z[n,m,p0,p1] + bias[m]

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    C,
    X_2,
    X_3,
    M,
    K0,
    K1,
    P0,
    P1,
    P0_P1,
    K0_K1,
    C_K0_K1,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(P0_P1, BLOCK_N)
    pid = tl.program_id(0)
    batch = (pid // (blocks_m * blocks_n)).to(INDEX)
    pid = pid % (blocks_m * blocks_n)
    # Programs that run at the same time go over GROUP_M rows of blocks, column by column, so that
    # they share what they read in the L2 cache.
    pid_m, pid_n = tl.swizzle2d(pid // blocks_n, pid % blocks_n, blocks_m, blocks_n, GROUP_M)
    m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(INDEX)
    p0_p1 = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)
    p1 = p0_p1 % P1
    p0 = p0_p1 // P1
    acc = tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32)
    for start in range(0, C_K0_K1, BLOCK_K):
        c_k0_k1 = (start + tl.arange(0, BLOCK_K)).to(INDEX)
        k1 = c_k0_k1 % K1
        k0 = (c_k0_k1 // K1) % K0
        c = c_k0_k1 // K0_K1
        mask = (m[:, None] < M) & (c_k0_k1[None, :] < C_K0_K1)
        a = tl.load(
            w_ptr + ((m[:, None] * C + c[None, :]) * K0 + k0[None, :]) * K1 + k1[None, :],
            mask=mask,
            other=0.0,
        )
        at = p0[None, :] + k0[:, None] - 1
        at_1 = p1[None, :] + k1[:, None] - 1
        mask_1 = (c_k0_k1[:, None] < C_K0_K1) & (p0_p1[None, :] < P0_P1)
        b = tl.load(
            x_ptr + ((batch * C + c[:, None]) * X_2 + at) * X_3 + at_1,
            mask=mask_1 & (at >= 0) & (at < X_2) & (at_1 >= 0) & (at_1 < X_3),
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    m_mask = m < M
    bias = tl.load(bias_ptr + m, mask=m_mask)
    y = acc + bias[:, None]
    mask = (m[:, None] < M) & (p0_p1[None, :] < P0_P1)
    tl.store(y_ptr + ((batch * M + m[:, None]) * P0 + p0[None, :]) * P1 + p1[None, :], y, mask=mask)


def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


def conv(x, w, bias):
    """Convolution with every output channel reading every input channel."""
    _expect("conv: x", x, torch.float32, 4)
    _expect("conv: w", w, torch.float32, 4)
    _expect("conv: bias", bias, torch.float32, 1)
    device = x.device
    N, C, X_2, X_3 = x.shape
    M, _, K0, K1 = w.shape
    if w.shape != (M, C, K0, K1):
        raise ValueError(f"conv: w must have the shape {(M, C, K0, K1)}, but has {tuple(w.shape)}.")
    if bias.shape != (M,):
        raise ValueError(f"conv: bias must have the shape {(M,)}, but has {tuple(bias.shape)}.")
    P0 = X_2 - K0 + 3
    P1 = X_3 - K1 + 3
    P0_P1 = P0 * P1
    K0_K1 = K0 * K1
    C_K0_K1 = C * K0 * K1
    if P0 < 0:
        raise ValueError(
            "conv: In `conv`, the range of `p` has the extent h0 - k0 + 3, which must not be negative."
        )
    if P1 < 0:
        raise ValueError(
            "conv: In `conv`, the range of `p` has the extent h1 - k1 + 3, which must not be negative."
        )
    x = x.contiguous()
    w = w.contiguous()
    bias = bias.contiguous()
    y = torch.empty((N, M, P0, P1), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), w.numel(), bias.numel(), y.numel(), X_2, X_3)
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_M = min(triton.next_power_of_2(max(M, 16)), 64)
    BLOCK_N = min(triton.next_power_of_2(max(P0_P1, 16)), 64)
    BLOCK_K = min(triton.next_power_of_2(max(C_K0_K1, 16)), 32)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(P0_P1, BLOCK_N) * N,)
    conv_kernel[grid](
        x,
        w,
        bias,
        y,
        C,
        X_2,
        X_3,
        M,
        K0,
        K1,
        P0,
        P1,
        P0_P1,
        K0_K1,
        C_K0_K1,
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


def _inside(x, at):
    """Where x has an element at the given indices."""
    r = np.bool_(True)
    for i, n in zip(at, x.shape):
        r = r & (i >= 0) & (i < n)
    return r


def _read(x, at, outside, fill=0):
    """Elements of x at the given indices; `outside` says what stands for those that it does not have."""
    inside = _inside(x, at)
    folded = []
    for i, n in zip(at, x.shape):
        if outside == "wrap":
            i = i % max(n, 1)
        elif outside == "reflect":
            i = n - 1 - np.abs(n - 1 - i % max(2 * n - 2, 1))
        elif outside == "mirror":
            i = i % max(2 * n, 1)
            i = np.where(i < n, i, 2 * n - 1 - i)
        folded.append(np.clip(i, 0, max(n - 1, 0)))
    if x.size == 0:
        return np.broadcast_to(fill, np.broadcast_shapes(*(np.shape(i) for i in at)))
    element = x[tuple(folded)]
    return np.where(inside, element, fill) if outside == "value" else element


def reference(x, w, bias, N, C, X_2, X_3, M, K0, K1):
    """The declaration in NumPy, equation by equation, in float64."""
    n, m, p0, p1, c, k0, k1 = np.ogrid[:N, :M, : X_2 - K0 + 3, : X_3 - K1 + 3, :C, :K0, :K1]
    z = _whole(
        _fold(
            np.sum,
            _read(x, [n, c, (p0 + k0) - 1, (p1 + k1) - 1], "value", 0.0) * w[m, c, k0, k1],
            (4, 5, 6),
            (N, M, X_2 - K0 + 3, X_3 - K1 + 3, C, K0, K1),
            0,
        ),
        (N, M, X_2 - K0 + 3, X_3 - K1 + 3, 1, 1, 1),
        (N, M, X_2 - K0 + 3, X_3 - K1 + 3),
        np.float64,
    )
    n, m, p0, p1 = np.ogrid[:N, :M, : X_2 - K0 + 3, : X_3 - K1 + 3]
    y = _whole(
        (z[n, m, p0, p1] + bias[m]),
        (N, M, X_2 - K0 + 3, X_3 - K1 + 3),
        (N, M, X_2 - K0 + 3, X_3 - K1 + 3),
        np.float64,
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for N, C, X_2, X_3, M, K0, K1 in [
        (1, 1, 1, 1, 1, 1, 1),
        (3, 3, 3, 3, 3, 3, 3),
        (0, 4, 4, 4, 4, 4, 4),
        (4, 0, 4, 4, 4, 4, 4),
        (4, 4, 4, 4, 0, 4, 4),
        (4, 4, 4, 4, 4, 0, 4),
        (4, 4, 4, 4, 4, 4, 0),
    ]:
        x = torch.randn((N, C, X_2, X_3))
        w = torch.randn((M, C, K0, K1))
        bias = torch.randn((M,))
        expected = reference(
            x.double().numpy(), w.double().numpy(), bias.double().numpy(), N, C, X_2, X_3, M, K0, K1
        )
        results = (conv(x.to(device), w.to(device), bias.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("conv: the results at 7 sizes agree with the reference")


if __name__ == "__main__":
    check()
