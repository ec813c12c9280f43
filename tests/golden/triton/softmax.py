"""softmax: exp(x) over its sum along `axes`, shifted by the maximum so that nothing overflows.

    m[o0] = max[r0](x[o0,r0])
    e[o0,r0] = exp(x[o0,r0] - m[o0])
    s[o0] = sum[r0](e[o0,r0])
    y[o0,r0] = e[o0,r0] / s[o0]

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
def _every_part(value, words_ptr, part, PARTS: tl.constexpr, rest: tl.constexpr):
    # What the parts of a row fold to, of which each of PARTS programs has one: `value` is that of `part`. They run at the
    # same time, and each awaits the others. A word tells by its upper half that the value in its lower half is there; words
    # are 0 at the launch, and nobody writes one twice. A lane of a warp reads one, so that all threads of the warp await
    # the same; `rest` fills the lanes up.
    word = value.to(tl.uint32, bitcast=True).to(tl.int64) | (1 << 32)
    tl.atomic_xchg(words_ptr + part, word, sem="relaxed")
    parts = tl.arange(0, 32)
    of_parts = words_ptr + tl.minimum(parts, PARTS - 1)
    words = tl.load(of_parts, volatile=True)
    while tl.min(words, 0) == 0:
        words = tl.load(of_parts, volatile=True)
    return tl.where(parts < PARTS, words.to(tl.uint32).to(tl.float32, bitcast=True), rest)


@triton.jit
def _exp(x):
    # tl.exp rounds x / ln 2, which costs |x| / 2 ulps. Here what the rounded t leaves of x, found by fused
    # multiply-adds with ln 2 in two parts, is put back: exp(x) = 2**t * exp(rest), and exp(rest) = 1 + rest. 2 ulps.
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        # Beyond these ends the result is 0 or infinity; NaN stays.
        x = tl.maximum(x, -104.0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, 88.72284, propagate_nan=tl.PropagateNan.ALL)
        t = x * 1.44269504
        rest = tl.fma(t, 1.90465432e-9, tl.fma(t, -0.693147182, x))
        power = tl.exp2(t)
        return tl.fma(power, rest, power)


@triton.jit
def _short_exp(x):
    # About 18 bits of exp, for results of 16: a quarter of its instructions.
    return tl.exp2(x * 1.44269504)


@triton.jit
def _share(e, total):
    # e / total, correctly rounded, for 0 <= e <= 1 <= total: one division a row, and for each element what its product
    # leaves, put back (Markstein). The general division costs a dozen instructions an element.
    inverse = tl.div_rn(1.0, total)
    q = e * inverse
    return tl.fma(tl.fma(0.0 - q, total, e), inverse, q)


@triton.jit
def _not_below_lowest(m):
    # -inf as the lowest finite number, from which -inf differs by -inf: -inf - -inf would be NaN. NaN stays.
    if m.dtype == tl.float64:
        return tl.maximum(m, -1.7976931348623157e308, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.maximum(m, -3.4028234663852886e38, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _power(x, SCALE: tl.constexpr, BASE_2: tl.constexpr, SHORT: tl.constexpr):
    if SCALE != 1.0:
        x = x * SCALE
    if BASE_2:
        return tl.exp2(x)
    elif SHORT:
        return _short_exp(x)
    else:
        return _exp(x)


@triton.jit
def _add_exponentials(
    largest,
    total,
    x,
    V: tl.constexpr,
    SCALE: tl.constexpr = 1.0,
    BASE_2: tl.constexpr = False,
    SHORT: tl.constexpr = False,
):
    # One walk for the largest x and the sum of exp(x - largest): where a larger x comes, the sum is rescaled to it. V
    # neighbours, which lie in one thread, share a sum, so that there is little to rescale.
    if V == 1:
        top = _maximum(largest, x)
        shift = _not_below_lowest(top)
        more = _power(x - shift, SCALE, BASE_2, SHORT)
    else:
        LAST: tl.constexpr = len(largest.shape)
        if LAST == 1:
            x = tl.reshape(x, [largest.shape[0], V])
        else:
            x = tl.reshape(x, [largest.shape[0], largest.shape[1], V])
        top = _maximum(largest, tl.reduce(x, LAST, _maximum))
        shift = _not_below_lowest(top)
        more = tl.sum(_power(x - tl.expand_dims(shift, LAST), SCALE, BASE_2, SHORT), LAST)
    return top, total * _power(largest - shift, SCALE, BASE_2, SHORT) + more


@triton.jit
def _rescaled(
    largest,
    total,
    top,
    SCALE: tl.constexpr = 1.0,
    BASE_2: tl.constexpr = False,
    SHORT: tl.constexpr = False,
):
    # Sums of exp(x - largest) as those of exp(x - top).
    return total * _power(largest - _not_below_lowest(top), SCALE, BASE_2, SHORT)


@triton.jit
def softmax_rows_kernel(
    x_ptr, y_ptr, O0, R0, INDEX: tl.constexpr, BLOCK_R0: tl.constexpr, BLOCK_O0: tl.constexpr
):
    o0 = tl.program_id(0).to(INDEX) * BLOCK_O0 + tl.arange(0, BLOCK_O0)
    r0 = tl.arange(0, BLOCK_R0).to(INDEX)
    mask = (o0[:, None] < O0) & (r0[None, :] < R0)
    x = tl.load(x_ptr + o0[:, None] * R0 + r0[None, :], mask=mask, other=float("-inf"))
    m = tl.reduce(x, 1, _maximum)
    e = _exp(x - m[:, None])
    s = tl.sum(e, 1)
    y = _share(e, s[:, None])
    tl.store(y_ptr + o0[:, None] * R0 + r0[None, :], y, mask=mask)


@triton.jit
def softmax_shared_kernel(
    x_ptr,
    y_ptr,
    words_ptr,
    O0,
    R0,
    INDEX: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_R0: tl.constexpr,
):
    part = tl.program_id(0) % PARTS
    r0 = (part * BLOCK_R0 + tl.arange(0, BLOCK_R0)).to(INDEX)
    mask = r0 < R0
    for row in range(tl.program_id(0) // PARTS, O0, tl.num_programs(0) // PARTS):
        o0 = tl.cast(row, INDEX)
        words = words_ptr + row * (2 * PARTS)
        x = tl.load(
            x_ptr + o0 * R0 + r0, mask=mask, other=float("-inf"), eviction_policy="evict_first"
        )
        m = tl.reduce(
            _every_part(tl.reduce(x, 0, _maximum), words, part, PARTS, float("-inf")), 0, _maximum
        )
        e = _exp(x - m)
        s = tl.sum(_every_part(tl.sum(e, 0), words + PARTS, part, PARTS, 0.0), 0)
        y = _share(e, s)
        tl.store(y_ptr + o0 * R0 + r0, y, mask=mask, cache_modifier=".cs")


@triton.jit
def softmax_steps_kernel(
    x_ptr, y_ptr, O0, R0, INDEX: tl.constexpr, BLOCK_R0: tl.constexpr, BLOCK_O0: tl.constexpr
):
    o0 = tl.program_id(0).to(INDEX) * BLOCK_O0 + tl.arange(0, BLOCK_O0)
    largest = tl.full([BLOCK_O0, BLOCK_R0 // 4], float("-inf"), tl.float32)
    total = tl.full([BLOCK_O0, BLOCK_R0 // 4], 0.0, tl.float32)
    for start in range(0, R0, BLOCK_R0):
        r0 = (start + tl.arange(0, BLOCK_R0)).to(INDEX)
        mask = (o0[:, None] < O0) & (r0[None, :] < R0)
        x = tl.load(
            x_ptr + o0[:, None] * R0 + r0[None, :],
            mask=mask,
            other=float("-inf"),
            eviction_policy="evict_last",
        )
        largest, total = _add_exponentials(largest, total, x, V=4)
    m = tl.reduce(largest, 1, _maximum)
    s = tl.where(R0 > 0, tl.sum(_rescaled(largest, total, m[:, None]), 1) + (m - m), 0.0)
    end = (tl.cdiv(R0, BLOCK_R0) - 1) * BLOCK_R0
    for start in range(0, R0, BLOCK_R0):
        r0 = (end - start + tl.arange(0, BLOCK_R0)).to(INDEX)
        mask = (o0[:, None] < O0) & (r0[None, :] < R0)
        x = tl.load(
            x_ptr + o0[:, None] * R0 + r0[None, :], mask=mask, eviction_policy="evict_first"
        )
        y = _share(_exp(x - m[:, None]), s[:, None])
        tl.store(y_ptr + o0[:, None] * R0 + r0[None, :], y, mask=mask, cache_modifier=".cs")


def _on_nvidia(kernel):
    """Whether the kernel is compiled for an NVIDIA GPU; under Triton's interpreter it is no JITFunction."""
    return isinstance(kernel, triton.JITFunction) and torch.version.cuda is not None


def _resident(kernel, device, programs):
    """How many programs of a kernel run at the same time, where a multiprocessor's registers suffice for so many.

    0 where they are not launched so that each can await the others: cooperative launches pay, by measurement, from compute
    capability 9.0 on.
    """
    if not _on_nvidia(kernel) or torch.cuda.get_device_capability(device) < (9, 0):
        return 0
    return programs * torch.cuda.get_device_properties(device).multi_processor_count


def softmax(x):
    """exp(x) over its sum along `axes`, shifted by the maximum so that nothing overflows."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(
            f"softmax: x must be torch.float32 with 2 dims, but is {x.dtype} with {x.dim()}."
        )
    device = x.device
    O0, R0 = x.shape
    x = x.contiguous()
    y = torch.empty((O0, R0), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    if R0 <= 32768:
        # A row fits on the chip: it is read once.
        BLOCK_R0 = triton.next_power_of_2(max(R0, 1))
        BLOCK_O0 = min(triton.next_power_of_2(max(O0, 1)), max(1024 // BLOCK_R0, 1))
        grid = (triton.cdiv(O0, BLOCK_O0),)
        # With 64 registers a thread, two programs share a processor: one computes while the other
        # waits.
        options = {"maxnreg": 64} if BLOCK_R0 * BLOCK_O0 > 8192 and torch.version.cuda else {}
        softmax_rows_kernel[grid](
            x,
            y,
            O0,
            R0,
            INDEX=INDEX,
            BLOCK_R0=BLOCK_R0,
            BLOCK_O0=BLOCK_O0,
            num_warps=min(
                max(BLOCK_R0 * BLOCK_O0 // 512, 1), 16 if BLOCK_R0 * BLOCK_O0 <= 16384 else 32
            ),
            **options,
        )
    elif 49152 < R0 <= 262144 and _resident(softmax_shared_kernel, device, 2) >= 16:
        # Programs that run at the same time share a row, which is read once: each holds a part of
        # it.
        PARTS = triton.cdiv(R0, 16384)
        grid = (min(O0, _resident(softmax_shared_kernel, device, 2) // PARTS) * PARTS,)
        words = torch.zeros(O0 * 2 * PARTS, dtype=torch.int64, device=device)
        softmax_shared_kernel[grid](
            x,
            y,
            words,
            O0,
            R0,
            INDEX=INDEX,
            PARTS=PARTS,
            BLOCK_R0=16384,
            num_warps=8,
            maxnreg=128,
            launch_cooperative_grid=True,
        )
    else:
        # Rows are walked in steps, as often as folds need them and once for the result.
        BLOCK_R0 = min(triton.next_power_of_2(max(R0, 4)), 8192)
        BLOCK_O0 = min(triton.next_power_of_2(max(O0, 1)), 1024, max(8192 // BLOCK_R0, 1))
        grid = (triton.cdiv(O0, BLOCK_O0),)
        softmax_steps_kernel[grid](
            x,
            y,
            O0,
            R0,
            INDEX=INDEX,
            BLOCK_R0=BLOCK_R0,
            BLOCK_O0=BLOCK_O0,
            num_warps=min(max(BLOCK_R0 * BLOCK_O0 // 256, 1), 16 if R0 <= 32768 else 32),
        )
    return y


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def _fold(operation, body, axes, grid, initial):
    """Folds body, spread over the grid, along axes that stay with an extent of 1."""
    return operation(np.broadcast_to(body, grid), axis=axes, keepdims=True, initial=initial)


def reference(x, O0, R0):
    """The declaration in NumPy, equation by equation, in float64."""
    o0, r0 = np.ogrid[:O0, :R0]
    m = _whole(_fold(np.max, x[o0, r0], (1,), (O0, R0), -np.inf), (O0, 1), (O0,), np.float64)
    e = _whole(np.exp((x[o0, r0] - m[o0])), (O0, R0), (O0, R0), np.float64)
    s = _whole(_fold(np.sum, e[o0, r0], (1,), (O0, R0), 0), (O0, 1), (O0,), np.float64)
    y = _whole((e[o0, r0] / s[o0]), (O0, R0), (O0, R0), np.float64)
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for O0, R0 in [(1, 1), (2, 3), (19, 17), (3, 3), (33, 3), (129, 3), (2, 33), (2, 129)]:
        x = torch.randn((O0, R0))
        expected = reference(x.double().numpy(), O0, R0)
        results = (softmax(x.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("softmax: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
