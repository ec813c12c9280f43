"""arg_max: Position of the maximum along a dim: the first of equals, or the last.

    y[a0,b0] = argmax[n](x[a0,n,b0])

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import math

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    # NaN wins, as it does in torch.maximum.
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _better(x, at, best, best_at, LARGEST: tl.constexpr, FIRST: tl.constexpr):
    # Whether x at place `at` wins over the best so far: NaN wins over all numbers, of equals the first (or the last).
    if FIRST:
        before = at < best_at
    else:
        before = at > best_at
    if LARGEST:
        ahead = x > best
    else:
        ahead = x < best
    same = (x == best) | ((x != x) & (best != best))
    return ahead | ((x != x) & (best == best)) | (same & before)


@triton.jit
def arg_max_kernel(
    x_ptr, y_ptr, N, B0, INDEX: tl.constexpr, BLOCK_B0: tl.constexpr, BLOCK_N: tl.constexpr
):
    pid = tl.program_id(0).to(INDEX)
    b0 = pid % tl.cdiv(B0, BLOCK_B0) * BLOCK_B0 + tl.arange(0, BLOCK_B0)
    a0 = pid // tl.cdiv(B0, BLOCK_B0)
    best = tl.full([BLOCK_N, BLOCK_B0], float("-inf"), tl.float32)
    best_at = tl.full([BLOCK_N, BLOCK_B0], N, INDEX)
    for start in range(0, N, BLOCK_N):
        n = (start + tl.arange(0, BLOCK_N)).to(INDEX)
        mask = (n[:, None] < N) & (b0[None, :] < B0)
        x = tl.load(x_ptr + (a0 * N + n[:, None]) * B0 + b0[None, :], mask=mask)
        n_mask = n < N
        better = n_mask[:, None] & _better(x, n[:, None], best, best_at, LARGEST=True, FIRST=True)
        best_at = tl.where(better, n[:, None], best_at)
        best = tl.where(better, x, best)
    largest = tl.reduce(best, 0, _maximum)
    at = tl.min(tl.where((best == largest[None, :]) | (best != best), best_at, N), 0)
    place = at.to(tl.int64)
    mask = b0 < B0
    tl.store(y_ptr + a0 * B0 + b0, place, mask=mask)


def arg_max(x):
    """Position of the maximum along a dim: the first of equals, or the last."""
    if x.dtype != torch.float32 or x.dim() != 3:
        raise ValueError(
            f"arg_max: x must be torch.float32 with 3 dims, but is {x.dtype} with {x.dim()}."
        )
    device = x.device
    A0, N, B0 = x.shape
    x = x.contiguous()
    y = torch.empty((A0, B0), dtype=torch.int64, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_B0 = min(triton.next_power_of_2(max(B0, 1)), 1024)
    BLOCK_N = min(triton.next_power_of_2(max(N, 1)), 16, max(1024 // BLOCK_B0, 1))
    grid = (A0 * triton.cdiv(B0, BLOCK_B0),)
    arg_max_kernel[grid](
        x,
        y,
        N,
        B0,
        INDEX=INDEX,
        BLOCK_B0=BLOCK_B0,
        BLOCK_N=BLOCK_N,
        num_warps=min(max(BLOCK_B0 * BLOCK_N // 256, 1), 16 if N <= 32768 else 32),
    )
    return y


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def _position(operation, body, axes, grid, last):
    """The row-major position of the extreme element along axes that stay with an extent of 1; 0 of nothing."""
    body = np.moveaxis(np.broadcast_to(body, grid), axes, range(-len(axes), 0))
    kept = body.shape[: body.ndim - len(axes)]
    count = math.prod(body.shape[len(kept) :])
    body = body.reshape(*kept, count)
    if count == 0:
        at = np.zeros(kept, np.int64)
    elif last:
        at = count - 1 - operation(body[..., ::-1], axis=-1)
    else:
        at = operation(body, axis=-1)
    return np.expand_dims(at, axes)


def reference(x, A0, N, B0):
    """The declaration in NumPy, equation by equation, in float64."""
    a0, b0, n = np.ogrid[:A0, :B0, :N]
    y = _whole(
        _position(np.argmax, x[a0, n, b0], (2,), (A0, B0, N), False),
        (A0, B0, 1),
        (A0, B0),
        np.int64,
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for A0, N, B0 in [
        (1, 1, 1),
        (2, 3, 5),
        (19, 17, 13),
        (3, 3, 3),
        (33, 3, 5),
        (129, 3, 5),
        (2, 33, 5),
        (2, 129, 5),
    ]:
        x = torch.randn((A0, N, B0))
        expected = reference(x.double().numpy(), A0, N, B0)
        results = (arg_max(x.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("arg_max: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
