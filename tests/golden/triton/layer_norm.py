"""layer_norm: Layer normalisation over the dims from `axis` on, computed in `stash`; also delivers the mean and 1/deviation.

    centre[a0] = sum[r0](x[a0,r0]) / cast(r0, f32)
    inv_std[a0] = 1 / sqrt(sum[r0]((x[a0,r0] - centre[a0]) * (x[a0,r0] - centre[a0])) / cast(r0,
        f32) + 1e-05)
    y[a0,r0] = (x[a0,r0] - centre[a0]) * inv_std[a0] * scale[r0] + bias[r0]

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


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
def _div(a, b):
    # Correctly rounded: `/` on float32 is an approximation of 2 ulps.
    if b.dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a, b)


@triton.jit
def _in_lane(left, LANES: tl.constexpr, V: tl.constexpr):
    # How many of the next LANES * V elements of a row fall to each lane, where `left` are left.
    return tl.minimum(tl.maximum(left - V * tl.arange(0, LANES), 0), V)


@triton.jit
def _add_deviations(total, squares, x, start, extent, V: tl.constexpr):
    # One walk for the sum of x and the squared deviations from the mean. V neighbours, which lie in one thread, have a
    # sum and squared deviations of their own; the square of what the means differ by joins them to those of the lane
    # so far (Chan, Golub and LeVeque). x is 0 beyond the extent. Equal whole numbers deviate by exactly 0.
    RANK: tl.constexpr = len(total.shape)
    LANES: tl.constexpr = total.shape[RANK - 1]
    before = tl.cast(start // (LANES * V) * V, total.dtype)
    n = _in_lane(extent - start, LANES, V)
    if RANK == 2:
        n = n[None, :]
    if V > 1:
        inside = tl.arange(0, V) < tl.expand_dims(n, RANK)
        if RANK == 1:
            x = tl.reshape(x, [LANES, V])
        else:
            x = tl.reshape(x, [total.shape[0], LANES, V])
        more = tl.sum(x, RANK)
        d = x - tl.expand_dims(_div(more, tl.maximum(n, 1).to(total.dtype)), RANK)
        d = tl.where(inside, d, 0.0)
        squares += tl.sum(d * d, RANK)
    else:
        more = x
        squares += x - x  # NaN where it is infinite
    # Scaled, so that products of large sums do not overflow.
    n = n.to(total.dtype) * (1.0 / 4096)
    before = before * (1.0 / 4096)
    away = more * before - total * n
    away *= away / tl.maximum(n * before * (n + before) * 4096.0, 1e-30)
    # An infinite sum stays: what overflows with it would make it NaN.
    return total + more, tl.where(squares == float("inf"), squares, squares + away)


@triton.jit
def _deviations_from(total, squares, extent, centre, V: tl.constexpr):
    # The squared deviations of each lane's elements from `centre`: by n times the square of what their mean is away
    # from it more than from their mean. Where a sum overflowed, so did the row's: then the centre is infinite.
    RANK: tl.constexpr = len(total.shape)
    LANES: tl.constexpr = total.shape[RANK - 1]
    n = extent // (LANES * V) * V + _in_lane(extent % (LANES * V), LANES, V)
    if RANK == 2:
        n = n[None, :]
    away = _div(total, tl.maximum(n, 1).to(total.dtype)) - centre
    away = tl.where(tl.abs(total) == float("inf"), centre, away)
    return tl.where((n > 0) & (squares != float("inf")), squares + n * (away * away), squares)


@triton.jit
def layer_norm_rows_kernel(
    x_ptr,
    scale_ptr,
    bias_ptr,
    y_ptr,
    centre_ptr,
    inv_std_ptr,
    A0,
    R0,
    INDEX: tl.constexpr,
    BLOCK_R0: tl.constexpr,
    BLOCK_A0: tl.constexpr,
):
    a0 = tl.program_id(0).to(INDEX) * BLOCK_A0 + tl.arange(0, BLOCK_A0)
    r0 = tl.arange(0, BLOCK_R0).to(INDEX)
    mask = (a0[:, None] < A0) & (r0[None, :] < R0)
    x = tl.load(x_ptr + a0[:, None] * R0 + r0[None, :], mask=mask, other=0.0)
    total = tl.sum(x, 1)
    centre = tl.div_rn(total, tl.cast(R0, tl.float32))
    a0_mask = a0 < A0
    tl.store(centre_ptr + a0, centre, mask=a0_mask)
    t = x - centre[:, None]
    sum_term = t * t
    r0_mask = r0 < R0
    total_1 = tl.sum(tl.where(r0_mask[None, :], sum_term, 0.0), 1)
    inv_std = tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(total_1, tl.cast(R0, tl.float32)) + 1e-05))
    tl.store(inv_std_ptr + a0, inv_std, mask=a0_mask)
    scale = tl.load(scale_ptr + r0, mask=r0_mask)
    bias = tl.load(bias_ptr + r0, mask=r0_mask)
    y = t * inv_std[:, None] * scale[None, :] + bias[None, :]
    tl.store(y_ptr + a0[:, None] * R0 + r0[None, :], y, mask=mask)


@triton.jit
def layer_norm_shared_kernel(
    x_ptr,
    scale_ptr,
    bias_ptr,
    y_ptr,
    centre_ptr,
    inv_std_ptr,
    words_ptr,
    A0,
    R0,
    INDEX: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_R0: tl.constexpr,
):
    part = tl.program_id(0) % PARTS
    for row in range(tl.program_id(0) // PARTS, A0, tl.num_programs(0) // PARTS):
        a0 = tl.cast(row, INDEX)
        words = words_ptr + row * (2 * PARTS)
        x_pieces = ()
        total = tl.full([BLOCK_R0], 0.0, tl.float32)
        for piece in tl.static_range(4):
            r0 = ((part * 4 + piece) * BLOCK_R0 + tl.arange(0, BLOCK_R0)).to(INDEX)
            mask = r0 < R0
            x = tl.load(x_ptr + a0 * R0 + r0, mask=mask, other=0.0, eviction_policy="evict_first")
            x_pieces = x_pieces + (x,)
            total += x
        total_1 = tl.sum(_every_part(tl.sum(total, 0), words, part, PARTS, 0.0), 0)
        centre = tl.div_rn(total_1, tl.cast(R0, tl.float32))
        tl.store(centre_ptr + a0, centre)
        total_2 = tl.full([BLOCK_R0], 0.0, tl.float32)
        for piece in tl.static_range(4):
            r0 = ((part * 4 + piece) * BLOCK_R0 + tl.arange(0, BLOCK_R0)).to(INDEX)
            x = x_pieces[piece]
            t = x - centre
            sum_term = t * t
            mask = r0 < R0
            total_2 += tl.where(mask, sum_term, 0.0)
        total_3 = tl.sum(_every_part(tl.sum(total_2, 0), words + PARTS, part, PARTS, 0.0), 0)
        inv_std = tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(total_3, tl.cast(R0, tl.float32)) + 1e-05))
        tl.store(inv_std_ptr + a0, inv_std)
        for piece in tl.static_range(4):
            r0 = ((part * 4 + piece) * BLOCK_R0 + tl.arange(0, BLOCK_R0)).to(INDEX)
            x = x_pieces[piece]
            mask = r0 < R0
            scale = tl.load(scale_ptr + r0, mask=mask)
            bias = tl.load(bias_ptr + r0, mask=mask)
            y = (x - centre) * inv_std * scale + bias
            tl.store(y_ptr + a0 * R0 + r0, y, mask=mask, cache_modifier=".cs")


@triton.jit
def layer_norm_steps_kernel(
    x_ptr,
    scale_ptr,
    bias_ptr,
    y_ptr,
    centre_ptr,
    inv_std_ptr,
    R0,
    R0_REST,
    INDEX: tl.constexpr,
    BLOCK_R0_HELD: tl.constexpr,
    BLOCK_R0: tl.constexpr,
):
    a0 = tl.program_id(0).to(INDEX)
    r0_held = tl.arange(0, BLOCK_R0_HELD).to(INDEX)
    x = tl.load(x_ptr + a0 * R0 + r0_held)
    total = tl.sum(x, 0)
    total_1 = tl.full([BLOCK_R0 // 4], 0.0, tl.float32)
    deviations = tl.full([BLOCK_R0 // 4], 0.0, tl.float32)
    for start in range(0, R0_REST, BLOCK_R0):
        r0 = (start + tl.arange(0, BLOCK_R0)).to(INDEX)
        mask = r0 < R0_REST
        x_1 = tl.load(
            x_ptr + a0 * R0 + (r0 + 32768), mask=mask, other=0.0, eviction_policy="evict_last"
        )
        total_1, deviations = _add_deviations(total_1, deviations, x_1, start, R0_REST, V=4)
    total_2 = tl.sum(total_1, 0)
    centre = tl.div_rn(total + total_2, tl.cast(R0, tl.float32))
    tl.store(centre_ptr + a0, centre)
    t = x - centre
    sum_term = t * t
    total_3 = tl.sum(sum_term, 0)
    squares = tl.sum(_deviations_from(total_1, deviations, R0_REST, centre, V=4), 0)
    inv_std = tl.div_rn(
        1.0, tl.sqrt_rn(tl.div_rn(total_3 + squares, tl.cast(R0, tl.float32)) + 1e-05)
    )
    tl.store(inv_std_ptr + a0, inv_std)
    scale = tl.load(scale_ptr + r0_held)
    bias = tl.load(bias_ptr + r0_held)
    y = t * inv_std * scale + bias
    tl.store(y_ptr + a0 * R0 + r0_held, y, cache_modifier=".cs")
    end = (tl.cdiv(R0_REST, BLOCK_R0) - 1) * BLOCK_R0
    for start in range(0, R0_REST, BLOCK_R0):
        r0 = (end - start + tl.arange(0, BLOCK_R0)).to(INDEX)
        mask = r0 < R0_REST
        x_1 = tl.load(x_ptr + a0 * R0 + (r0 + 32768), mask=mask, eviction_policy="evict_first")
        scale_1 = tl.load(scale_ptr + r0 + 32768, mask=mask, cache_modifier=".cg")
        bias_1 = tl.load(bias_ptr + r0 + 32768, mask=mask, cache_modifier=".cg")
        y_1 = (x_1 - centre) * inv_std * scale_1 + bias_1
        tl.store(y_ptr + a0 * R0 + (r0 + 32768), y_1, mask=mask, cache_modifier=".cs")


def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


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


def layer_norm(x, scale, bias):
    """Layer normalisation over the dims from `axis` on, computed in `stash`; also delivers the
    mean and 1/deviation.
    """
    _expect("layer_norm: x", x, torch.float32, 2)
    _expect("layer_norm: scale", scale, torch.float32, 1)
    _expect("layer_norm: bias", bias, torch.float32, 1)
    device = x.device
    A0, R0 = x.shape
    if scale.shape != (R0,):
        raise ValueError(
            f"layer_norm: scale must have the shape {(R0,)}, but has {tuple(scale.shape)}."
        )
    if bias.shape != (R0,):
        raise ValueError(
            f"layer_norm: bias must have the shape {(R0,)}, but has {tuple(bias.shape)}."
        )
    R0_REST = R0 - 32768
    x = x.contiguous()
    scale = scale.contiguous()
    bias = bias.contiguous()
    y = torch.empty((A0, R0), dtype=torch.float32, device=device)
    centre = torch.empty((A0,), dtype=torch.float32, device=device)
    inv_std = torch.empty((A0,), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(
        x.numel(), scale.numel(), bias.numel(), y.numel(), centre.numel(), inv_std.numel()
    )
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    if R0 <= 32768:
        # A row fits on the chip: it is read once.
        BLOCK_R0 = triton.next_power_of_2(max(R0, 1))
        BLOCK_A0 = min(triton.next_power_of_2(max(A0, 1)), max(1024 // BLOCK_R0, 1))
        grid = (triton.cdiv(A0, BLOCK_A0),)
        # With 64 registers a thread, two programs share a processor: one computes while the other
        # waits.
        options = {"maxnreg": 64} if BLOCK_R0 * BLOCK_A0 > 8192 and torch.version.cuda else {}
        layer_norm_rows_kernel[grid](
            x,
            scale,
            bias,
            y,
            centre,
            inv_std,
            A0,
            R0,
            INDEX=INDEX,
            BLOCK_R0=BLOCK_R0,
            BLOCK_A0=BLOCK_A0,
            num_warps=min(
                max(BLOCK_R0 * BLOCK_A0 // 512, 1), 16 if BLOCK_R0 * BLOCK_A0 <= 16384 else 32
            ),
            **options,
        )
    elif 40960 < R0 <= 262144 and _resident(layer_norm_shared_kernel, device, 2) >= 16:
        # Programs that run at the same time share a row, which is read once: each holds a part of
        # it.
        PARTS = triton.cdiv(R0, 16384)
        grid = (min(A0, _resident(layer_norm_shared_kernel, device, 2) // PARTS) * PARTS,)
        words = torch.zeros(A0 * 2 * PARTS, dtype=torch.int64, device=device)
        layer_norm_shared_kernel[grid](
            x,
            scale,
            bias,
            y,
            centre,
            inv_std,
            words,
            A0,
            R0,
            INDEX=INDEX,
            PARTS=PARTS,
            BLOCK_R0=4096,
            num_warps=8,
            maxnreg=128,
            launch_cooperative_grid=True,
        )
    else:
        # Rows are walked in steps, as often as folds need them and once for the result; their
        # beginning stays on the chip.
        BLOCK_R0 = min(triton.next_power_of_2(max(R0_REST, 4)), 8192)
        grid = (A0,)
        layer_norm_steps_kernel[grid](
            x,
            scale,
            bias,
            y,
            centre,
            inv_std,
            R0,
            R0_REST,
            INDEX=INDEX,
            BLOCK_R0_HELD=32768,
            BLOCK_R0=BLOCK_R0,
            num_warps=16,
        )
    return y, centre, inv_std


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def _fold(operation, body, axes, grid, initial):
    """Folds body, spread over the grid, along axes that stay with an extent of 1."""
    return operation(np.broadcast_to(body, grid), axis=axes, keepdims=True, initial=initial)


def reference(x, scale, bias, A0, R0):
    """The declaration in NumPy, equation by equation, in float64."""
    a0, r0 = np.ogrid[:A0, :R0]
    centre = _whole(
        _fold(np.sum, x[a0, r0], (1,), (A0, R0), 0) / np.float64(R0), (A0, 1), (A0,), np.float64
    )
    inv_std = _whole(
        1.0
        / np.sqrt(
            (
                _fold(
                    np.sum, (x[a0, r0] - centre[a0]) * (x[a0, r0] - centre[a0]), (1,), (A0, R0), 0
                )
                / np.float64(R0)
            )
            + 9.999999747378752e-06
        ),
        (A0, 1),
        (A0,),
        np.float64,
    )
    y = _whole(
        (((x[a0, r0] - centre[a0]) * inv_std[a0]) * scale[r0]) + bias[r0],
        (A0, R0),
        (A0, R0),
        np.float64,
    )
    return (y, centre, inv_std)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for A0, R0 in [(1, 1), (2, 3), (19, 17), (3, 3), (33, 3), (129, 3), (2, 33), (2, 129)]:
        x = torch.randn((A0, R0))
        scale = torch.randn((R0,))
        bias = torch.randn((R0,))
        expected = reference(
            x.double().numpy(), scale.double().numpy(), bias.double().numpy(), A0, R0
        )
        results = layer_norm(x.to(device), scale.to(device), bias.to(device))
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("layer_norm: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
