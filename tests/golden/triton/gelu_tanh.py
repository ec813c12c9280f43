"""gelu_tanh: The approximation of GELU by tanh.

    y[i0,i1] = 0.5 * x[i0,i1] * (1 + tanh(0.7978846 * (x[i0,i1] + 0.044715 * x[i0,i1] * x[i0,i1] *
        x[i0,i1])))

Written by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks itself
against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.
"""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _await_earlier(EARLY: tl.constexpr):
    # Begins a kernel that may be launched before the one ahead of it in the stream has ended: what that one wrote can be
    # read, and what it read be overwritten, from here on. The next one may do the same. (Not tl.extra.cuda.gdc_wait,
    # which Triton 3.4 has and cannot compile.)
    if EARLY:
        tl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def _copysign(x, y):
    # |x| with the sign bit of y, which a comparison with 0 would not see in -0.
    if x.dtype == tl.float64:
        bits = tl.abs(x).to(tl.int64, bitcast=True) | (y.to(tl.int64, bitcast=True) & (-1 << 63))
        return bits.to(tl.float64, bitcast=True)
    else:
        bits = tl.abs(x).to(tl.int32, bitcast=True) | (y.to(tl.int32, bitcast=True) & (-1 << 31))
        return bits.to(tl.float32, bitcast=True)


@triton.jit
def _div(a, b):
    # Correctly rounded: `/` on float32 is an approximation of 2 ulps.
    if b.dtype == tl.float64:
        return a / b
    else:
        return tl.div_rn(a, b)


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
def _expm1(x):
    # Kahan: for u = exp(x), (u - 1) * x / log(u) loses nothing to the rounding of u. 4 ulps.
    u = _exp(x)
    near = (u - 1.0) * _div(x, tl.log(u))
    return tl.where(u == 1.0, x, tl.where(tl.abs(x) < 1.0, near, u - 1.0))


@triton.jit
def _tanh(x):
    # t / (t + 2) for t = exp(2 |x|) - 1, which is 1 to the last bit from 20 on. 4 ulps.
    a = tl.abs(x)
    t = _expm1(2.0 * a)
    return _copysign(tl.where(a > 20.0, 1.0, _div(t, t + 2.0)), x)


@triton.jit
def gelu_tanh_kernel(
    x_ptr, y_ptr, I0_I1, INDEX: tl.constexpr, EARLY: tl.constexpr, BLOCK_I0I1: tl.constexpr
):
    _await_earlier(EARLY)
    i0i1 = tl.program_id(0).to(INDEX) * BLOCK_I0I1 + tl.arange(0, BLOCK_I0I1)
    mask = i0i1 < I0_I1
    x = tl.load(x_ptr + i0i1, mask=mask)
    y = 0.5 * x * (1.0 + _tanh(0.7978846 * (x + 0.044715 * x * x * x)))
    tl.store(y_ptr + i0i1, y, mask=mask)


def _on_nvidia(kernel):
    """Whether the kernel is compiled for an NVIDIA GPU; under Triton's interpreter it is no JITFunction."""
    return isinstance(kernel, triton.JITFunction) and torch.version.cuda is not None


def _early(kernel, device):
    """Options by which a kernel that awaits what is ahead of it in the stream is launched before that has ended.

    From compute capability 9.0 on (programmatic dependent launch).
    """
    early = _on_nvidia(kernel) and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}


def gelu_tanh(x):
    """The approximation of GELU by tanh."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(
            f"gelu_tanh: x must be torch.float32 with 2 dims, but is {x.dtype} with {x.dim()}."
        )
    device = x.device
    I0, I1 = x.shape
    I0_I1 = I0 * I1
    x = x.contiguous()
    y = torch.empty((I0, I1), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_I0I1 = min(triton.next_power_of_2(max(I0_I1, 1)), 1024)
    grid = (triton.cdiv(I0_I1, BLOCK_I0I1),)
    gelu_tanh_kernel[grid](
        x,
        y,
        I0_I1,
        INDEX=INDEX,
        BLOCK_I0I1=BLOCK_I0I1,
        num_warps=min(max(BLOCK_I0I1 // 128, 1), 16),
        **_early(gelu_tanh_kernel, device),
    )
    return y


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def reference(x, I0, I1):
    """The declaration in NumPy, equation by equation, in float64."""
    i0, i1 = np.ogrid[:I0, :I1]
    y = _whole(
        (0.5 * x[i0, i1])
        * (
            1.0
            + np.tanh(
                0.7978845834732056
                * (x[i0, i1] + (((0.044714998453855515 * x[i0, i1]) * x[i0, i1]) * x[i0, i1]))
            )
        ),
        (I0, I1),
        (I0, I1),
        np.float64,
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for I0, I1 in [(1, 1), (2, 3), (19, 17), (3, 3), (33, 3), (129, 3), (2, 33), (2, 129)]:
        x = torch.randn((I0, I1))
        expected = reference(x.double().numpy(), I0, I1)
        results = (gelu_tanh(x.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("gelu_tanh: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
