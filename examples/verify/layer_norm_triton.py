"""Layer norm in Triton by hand: once right, and with a mask missing where deviations are squared, the stride of x
ignored, sums of f16.

Runs on a GPU, or under Triton's interpreter where there is none:
    opwright verify examples/verify/layer_norm.op --against examples/verify/layer_norm_triton.py:layer_norm
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x, scale, bias, y, n, row, column, sc, bi, MASKED: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    inside = j < n
    v = tl.load(x + i * row + j * column, mask=inside, other=0.0)
    if HALF:
        mean = tl.sum(v.to(tl.float16), 0).to(tl.float32) / n
    else:
        mean = tl.sum(v, 0) / n
    d = v - mean
    if MASKED:
        d = tl.where(inside, d, 0.0)
    variance = tl.sum(d * d, 0) / n
    factor = tl.load(scale + j * sc, mask=inside, other=0.0)
    term = tl.load(bias + j * bi, mask=inside, other=0.0)
    tl.store(y + i * n + j, d / tl.sqrt_rn(variance + 1e-5) * factor + term, mask=inside)


def _launch(x, scale, bias, strides, masked=True, half=False):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        _rows[(m,)](
            x, scale, bias, y, n, *strides, scale.stride(0), bias.stride(0), masked, half, triton.next_power_of_2(n)
        )
    return y


def layer_norm(x, scale, bias):
    return _launch(x, scale, bias, x.stride())


def layer_norm_unmasked(x, scale, bias):
    return _launch(x, scale, bias, x.stride(), masked=False)


def layer_norm_dense(x, scale, bias):
    return _launch(x, scale, bias, (x.shape[1], 1))


def layer_norm_half(x, scale, bias):
    return _launch(x, scale, bias, x.stride(), half=True)
