"""scatter_elements: x with elements set to v at places along a dim, or combined with them: reduction none, add, mul, max or min.

    y[n,b0] = x[n,b0]
    y[select(at[k,f0] < 0,at[k,f0] + n,at[k,f0]),f0] := v[k,f0]

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
def scatter_elements_y_kernel(
    x_ptr,
    y_ptr,
    N,
    B0,
    INDEX: tl.constexpr,
    EARLY: tl.constexpr,
    BLOCK_B0: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    _await_earlier(EARLY)
    pid = tl.program_id(0).to(INDEX)
    b0 = pid % tl.cdiv(B0, BLOCK_B0) * BLOCK_B0 + tl.arange(0, BLOCK_B0)
    n = pid // tl.cdiv(B0, BLOCK_B0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (n[:, None] < N) & (b0[None, :] < B0)
    y = tl.load(x_ptr + n[:, None] * B0 + b0[None, :], mask=mask)
    tl.store(y_ptr + n[:, None] * B0 + b0[None, :], y, mask=mask)


@triton.jit
def scatter_elements_y_kernel_1(
    at_ptr, v_ptr, y_ptr, error_ptr, N, B0, K, F0, INDEX: tl.constexpr, BLOCK_F0: tl.constexpr
):
    f0 = tl.program_id(0).to(INDEX) * BLOCK_F0 + tl.arange(0, BLOCK_F0)
    for step in range(K):
        k = tl.cast(step, INDEX)
        mask = f0 < F0
        at = tl.load(at_ptr + k * F0 + f0, mask=mask)
        v = tl.load(v_ptr + k * F0 + f0, mask=mask)
        at_1 = tl.where(at < 0, at + tl.cast(N, tl.int64), at)
        _report(error_ptr, mask & ((at_1 < 0) | (at_1 >= N)), 1)
        tl.store(y_ptr + at_1 * B0 + f0, v, mask=mask & (at_1 >= 0) & (at_1 < N))


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


def scatter_elements(x, at, v, *, check_indices=True):
    """x with elements set to v at places along a dim, or combined with them: reduction none,
    add, mul, max or min.
    """
    _expect("scatter_elements: x", x, torch.float32, 2)
    _expect("scatter_elements: at", at, torch.int64, 2)
    _expect("scatter_elements: v", v, torch.float32, 2)
    device = x.device
    N, B0 = x.shape
    K, F0 = at.shape
    if v.shape != (K, F0):
        raise ValueError(
            f"scatter_elements: v must have the shape {(K, F0)}, but has {tuple(v.shape)}."
        )
    if min(K, F0) > 0 and F0 - 1 >= B0:
        raise ValueError("scatter_elements: f0 leaves dim 1 of y")
    x = x.contiguous()
    at = at.contiguous()
    v = v.contiguous()
    y = torch.empty((N, B0), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), at.numel(), v.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    error = torch.zeros(1, dtype=torch.int32, device=device)
    BLOCK_B0 = min(triton.next_power_of_2(max(B0, 1)), 1024)
    BLOCK_N = min(triton.next_power_of_2(max(N, 1)), max(1024 // BLOCK_B0, 1))
    grid = (triton.cdiv(N, BLOCK_N) * triton.cdiv(B0, BLOCK_B0),)
    scatter_elements_y_kernel[grid](
        x,
        y,
        N,
        B0,
        INDEX=INDEX,
        BLOCK_B0=BLOCK_B0,
        BLOCK_N=BLOCK_N,
        num_warps=min(max(BLOCK_B0 * BLOCK_N // 512, 1), 16),
        **_early(scatter_elements_y_kernel, device),
    )
    BLOCK_F0 = min(triton.next_power_of_2(max(F0, 1)), 1024)
    grid = (triton.cdiv(F0, BLOCK_F0),)
    scatter_elements_y_kernel_1[grid](
        at,
        v,
        y,
        error,
        N,
        B0,
        K,
        F0,
        INDEX=INDEX,
        BLOCK_F0=BLOCK_F0,
        num_warps=min(max(BLOCK_F0 // 512, 1), 16),
    )
    if check_indices and error.item():
        raise IndexError("scatter_elements: an index lies outside dim 0 of y")
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


def _update(operation, y, at, value, grid):
    """Combines elements of y with values at places that may meet, in row-major order; those outside are dropped."""
    at = [np.broadcast_to(i, grid) for i in at]
    keep = np.broadcast_to(_inside(y, at), grid)
    places = tuple(i[keep] for i in at)
    value = np.broadcast_to(value, grid)[keep]
    if operation is None:
        y[places] = value
    else:
        operation.at(y, places, value)


def reference(x, at, v, N, B0, K, F0):
    """The declaration in NumPy, equation by equation, in float64."""
    n, b0 = np.ogrid[:N, :B0]
    y = _whole(x[n, b0], (N, B0), (N, B0), np.float64)
    k, f0 = np.ogrid[:K, :F0]
    _update(None, y, [np.where((at[k, f0] < 0), (at[k, f0] + N), at[k, f0]), f0], v[k, f0], (K, F0))
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for N, B0, K, F0 in [
        (1, 1, 1, 1),
        (19, 17, 13, 11),
        (3, 3, 3, 3),
        (2, 33, 5, 7),
        (2, 129, 5, 7),
        (16, 16, 16, 16),
        (65, 65, 65, 65),
    ]:
        x = torch.randn((N, B0))
        at = torch.randint(0, N, (K, F0)).to(torch.int64)
        v = torch.randn((K, F0))
        expected = reference(x.double().numpy(), at.numpy(), v.double().numpy(), N, B0, K, F0)
        results = (scatter_elements(x.to(device), at.to(device), v.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("scatter_elements: the results at 7 sizes agree with the reference")


if __name__ == "__main__":
    check()
