"""Row softmax in Triton by hand: once right, and with a mask missing, a stride ignored, an accumulator of f16.

Runs on a GPU, or under Triton's interpreter where there is none:
    opwright verify examples/verify/softmax.op --against examples/verify/softmax_triton.py:softmax
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x, y, n, stride, column, MASKED: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    place = x + row * stride + j * column
    if MASKED:
        v = tl.load(place, mask=j < n, other=float("-inf"))
    else:
        v = tl.load(place)
    e = tl.exp(v - tl.max(v, 0))
    if HALF:
        total = tl.sum(e.to(tl.float16), 0).to(tl.float32)
    else:
        total = tl.sum(e, 0)
    tl.store(y + row * n + j, e / total, mask=j < n)


def _launch(x, stride, column, masked=True, half=False):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        _rows[(m,)](x, y, n, stride, column, masked, half, triton.next_power_of_2(n))
    return y


def softmax(x):
    return _launch(x, x.stride(0), x.stride(1))


def softmax_unmasked(x):
    return _launch(x, x.stride(0), x.stride(1), masked=False)


def softmax_dense(x):
    return _launch(x, x.shape[1], 1)


def softmax_half(x):
    return _launch(x, x.stride(0), x.stride(1), half=True)
