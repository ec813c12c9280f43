"""gather: Slices of x at the given places along a dim.

    y[j0,j1,b0] = x[select(at[j0,j1] < 0,at[j0,j1] + n,at[j0,j1]),b0]

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
def _report(error_ptr, wrong, CODE: tl.constexpr):
    # Every thread that sees the error writes the same number to the same place.
    tl.store(error_ptr + wrong.to(tl.int32) * 0, CODE, mask=wrong)


@triton.jit
def gather_kernel(
    x_ptr,
    at_ptr,
    y_ptr,
    error_ptr,
    X_0,
    B0,
    J1,
    INDEX: tl.constexpr,
    EARLY: tl.constexpr,
    BLOCK_B0: tl.constexpr,
    BLOCK_J1: tl.constexpr,
):
    _await_earlier(EARLY)
    pid = tl.program_id(0).to(INDEX)
    b0 = pid % tl.cdiv(B0, BLOCK_B0) * BLOCK_B0 + tl.arange(0, BLOCK_B0)
    pid = pid // tl.cdiv(B0, BLOCK_B0)
    j1 = pid % tl.cdiv(J1, BLOCK_J1) * BLOCK_J1 + tl.arange(0, BLOCK_J1)
    j0 = pid // tl.cdiv(J1, BLOCK_J1)
    j1_mask = j1 < J1
    at = tl.load(at_ptr + j0 * J1 + j1, mask=j1_mask)
    at_1 = tl.where(at < 0, at + tl.cast(X_0, tl.int64), at)
    _report(error_ptr, j1_mask & ((at_1 < 0) | (at_1 >= X_0)), 1)
    mask = (j1[:, None] < J1) & (b0[None, :] < B0)
    y = tl.load(
        x_ptr + at_1[:, None] * B0 + b0[None, :], mask=mask & ((at_1 >= 0) & (at_1 < X_0))[:, None]
    )
    tl.store(y_ptr + (j0 * J1 + j1[:, None]) * B0 + b0[None, :], y, mask=mask)


def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


def _on_nvidia(kernel):
    """Whether the kernel is compiled for an NVIDIA GPU; under Triton's interpreter it is no JITFunction."""
    return isinstance(kernel, triton.JITFunction) and torch.version.cuda is not None


def _early(kernel, device):
    """Options by which a kernel that awaits what is ahead of it in the stream is launched before that has ended.

    From compute capability 9.0 on (programmatic dependent launch).
    """
    early = _on_nvidia(kernel) and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}


def gather(x, at, *, check_indices=True):
    """Slices of x at the given places along a dim."""
    _expect("gather: x", x, torch.float32, 2)
    _expect("gather: at", at, torch.int64, 2)
    device = x.device
    X_0, B0 = x.shape
    J0, J1 = at.shape
    x = x.contiguous()
    at = at.contiguous()
    y = torch.empty((J0, J1, B0), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), at.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    error = torch.zeros(1, dtype=torch.int32, device=device)
    BLOCK_B0 = min(triton.next_power_of_2(max(B0, 1)), 1024)
    BLOCK_J1 = min(triton.next_power_of_2(max(J1, 1)), max(1024 // BLOCK_B0, 1))
    grid = (J0 * triton.cdiv(J1, BLOCK_J1) * triton.cdiv(B0, BLOCK_B0),)
    gather_kernel[grid](
        x,
        at,
        y,
        error,
        X_0,
        B0,
        J1,
        INDEX=INDEX,
        BLOCK_B0=BLOCK_B0,
        BLOCK_J1=BLOCK_J1,
        num_warps=min(max(BLOCK_B0 * BLOCK_J1 // 512, 1), 16),
        **_early(gather_kernel, device),
    )
    if check_indices and error.item():
        raise IndexError("gather: an index lies outside dim 0 of x")
    return y


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


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


def reference(x, at, X_0, B0, J0, J1):
    """The declaration in NumPy, equation by equation, in float64."""
    j0, j1, b0 = np.ogrid[:J0, :J1, :B0]
    y = _whole(
        _read(x, [np.where((at[j0, j1] < 0), (at[j0, j1] + X_0), at[j0, j1]), b0], "clamp"),
        (J0, J1, B0),
        (J0, J1, B0),
        np.float64,
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for X_0, B0, J0, J1 in [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (19, 17, 13, 11),
        (3, 3, 3, 3),
        (33, 3, 5, 7),
        (129, 3, 5, 7),
        (2, 33, 5, 7),
        (2, 129, 5, 7),
    ]:
        x = torch.randn((X_0, B0))
        at = torch.randint(0, X_0, (J0, J1)).to(torch.int64)
        expected = reference(x.double().numpy(), at.numpy(), X_0, B0, J0, J1)
        results = (gather(x.to(device), at.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("gather: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
