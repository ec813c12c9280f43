"""max_pool: Maximum of each window.

    y[n,c,p0,p1] = max[k0,k1](x[n,c,2 * p0 + k0,2 * p1 + k1] outside (-inf))

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    # NaN wins, as it does in torch.maximum.
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def max_pool_kernel(
    x_ptr,
    y_ptr,
    X_2,
    X_3,
    P1,
    P0,
    INDEX: tl.constexpr,
    BLOCK_P1: tl.constexpr,
    BLOCK_P0: tl.constexpr,
):
    pid = tl.program_id(0).to(INDEX)
    p1 = pid % tl.cdiv(P1, BLOCK_P1) * BLOCK_P1 + tl.arange(0, BLOCK_P1)
    pid = pid // tl.cdiv(P1, BLOCK_P1)
    p0 = pid % tl.cdiv(P0, BLOCK_P0) * BLOCK_P0 + tl.arange(0, BLOCK_P0)
    nc = pid // tl.cdiv(P0, BLOCK_P0)
    y = tl.full([BLOCK_P0, BLOCK_P1], float("-inf"), tl.float32)
    mask = (p0[:, None] < P0) & (p1[None, :] < P1)
    for step in tl.static_range(2):
        k0 = tl.cast(step, INDEX)
        for step_1 in tl.static_range(2):
            k1 = tl.cast(step_1, INDEX)
            at = 2 * p0 + k0
            at_1 = 2 * p1 + k1
            x = tl.load(
                x_ptr + (nc * X_2 + at[:, None]) * X_3 + at_1[None, :],
                mask=mask & (at < X_2)[:, None] & (at_1 < X_3)[None, :],
                other=float("-inf"),
            )
            y = _maximum(y, x)
    tl.store(y_ptr + (nc * P0 + p0[:, None]) * P1 + p1[None, :], y, mask=mask)


def max_pool(x):
    """Maximum of each window."""
    if x.dtype != torch.float32 or x.dim() != 4:
        raise ValueError(
            f"max_pool: x must be torch.float32 with 4 dims, but is {x.dtype} with {x.dim()}."
        )
    device = x.device
    N, C, X_2, X_3 = x.shape
    P1 = X_3 // 2
    P0 = X_2 // 2
    C_N = C * N
    x = x.contiguous()
    y = torch.empty((N, C, P0, P1), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), y.numel(), 2 * (X_2 // 2) - 1, 2 * (X_3 // 2) - 1)
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_P1 = min(triton.next_power_of_2(max(P1, 1)), 1024)
    BLOCK_P0 = min(triton.next_power_of_2(max(P0, 1)), max(1024 // BLOCK_P1, 1))
    grid = (C_N * triton.cdiv(P0, BLOCK_P0) * triton.cdiv(P1, BLOCK_P1),)
    max_pool_kernel[grid](
        x,
        y,
        X_2,
        X_3,
        P1,
        P0,
        INDEX=INDEX,
        BLOCK_P1=BLOCK_P1,
        BLOCK_P0=BLOCK_P0,
        num_warps=min(max(BLOCK_P1 * BLOCK_P0 // 512, 1), 16),
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


def reference(x, N, C, X_2, X_3):
    """The declaration in NumPy, equation by equation, in float64."""
    n, c, p0, p1, k0, k1 = np.ogrid[:N, :C, : X_2 // 2, : X_3 // 2, :2, :2]
    y = _whole(
        _fold(
            np.max,
            _read(x, [n, c, (2 * p0) + k0, (2 * p1) + k1], "value", -np.inf),
            (4, 5),
            (N, C, X_2 // 2, X_3 // 2, 2, 2),
            -np.inf,
        ),
        (N, C, X_2 // 2, X_3 // 2, 1, 1),
        (N, C, X_2 // 2, X_3 // 2),
        np.float64,
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for N, C, X_2, X_3 in [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (3, 3, 3, 3),
        (33, 3, 5, 7),
        (129, 3, 5, 7),
        (2, 33, 5, 7),
        (2, 129, 5, 7),
        (2, 3, 33, 7),
    ]:
        x = torch.randn((N, C, X_2, X_3))
        expected = reference(x.double().numpy(), N, C, X_2, X_3)
        results = (max_pool(x.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("max_pool: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
