"""A matrix product in Triton by hand, by blocks: once right, and with a mask missing along the depth, the strides of the
second factor taken for those of a dense one, an accumulator of f16.

Runs on a GPU, or under Triton's interpreter where there is none:
    opwright verify examples/verify/matmul.op --against examples/verify/matmul_triton.py:matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _block(
    a, b, y, m, n, k, am, ak, bk, bn, MASKED: tl.constexpr, HALF: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    l = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), tl.float16 if HALF else tl.float32)
    for start in range(0, k, DEPTH):
        depth = start + l
        inside = depth < k if MASKED else depth < k + DEPTH
        left = tl.load(a + i[:, None] * am + depth[None, :] * ak, mask=(i[:, None] < m) & inside[None, :], other=0.0)
        right = tl.load(b + depth[:, None] * bk + j[None, :] * bn, mask=inside[:, None] & (j[None, :] < n), other=0.0)
        product = tl.dot(left, right, input_precision="ieee")
        total += product.to(tl.float16) if HALF else product
    tl.store(y + i[:, None] * n + j[None, :], total.to(tl.float32), mask=(i[:, None] < m) & (j[None, :] < n))


def _launch(a, b, strides, masked=True, half=False):
    (m, k), n = a.shape, b.shape[1]
    y = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if y.numel():
        grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
        _block[grid](a, b, y, m, n, k, *a.stride(), *strides, masked, half, 16, 16, 16)
    return y


def matmul(a, b):
    return _launch(a, b, b.stride())


def matmul_unmasked(a, b):
    return _launch(a, b, b.stride(), masked=False)


def matmul_dense(a, b):
    return _launch(a, b, (b.shape[1], 1))


def matmul_half(a, b):
    return _launch(a, b, b.stride(), half=True)
