"""sobel: Edge magnitude by the Sobel filter.

    v[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k[m,n])
    u[h,w] = sum[m,n](x[h + m - 1,w + n - 1] outside mirror * k_2[m,n])
    y[h,w] = sqrt((v[h,w] * v[h,w] + u[h,w] * u[h,w]) * 0.5)

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
def _mirror(i, n):
    # b a | a b c | c b
    r = i % (2 * n)
    r = tl.where(r < 0, r + 2 * n, r)
    return tl.where(r < n, r, 2 * n - 1 - r)


@triton.jit
def sobel_kernel(
    x_ptr,
    y_ptr,
    H,
    W,
    INDEX: tl.constexpr,
    EARLY: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    _await_earlier(EARLY)
    pid = tl.program_id(0).to(INDEX)
    w = pid % tl.cdiv(W, BLOCK_W) * BLOCK_W + tl.arange(0, BLOCK_W)
    h = pid // tl.cdiv(W, BLOCK_W) * BLOCK_H + tl.arange(0, BLOCK_H)
    h_inside = _mirror(h - 1, H)
    w_inside = _mirror(w - 1, W)
    mask = (h[:, None] < H) & (w[None, :] < W)
    x = tl.load(x_ptr + h_inside[:, None] * W + w_inside[None, :], mask=mask)
    x_1 = tl.load(x_ptr + h_inside[:, None] * W + w[None, :], mask=mask)
    w_inside_1 = _mirror(w + 1, W)
    x_2 = tl.load(x_ptr + h_inside[:, None] * W + w_inside_1[None, :], mask=mask)
    x_3 = tl.load(x_ptr + h[:, None] * W + w_inside[None, :], mask=mask)
    x_4 = tl.load(x_ptr + h[:, None] * W + w[None, :], mask=mask)
    x_5 = tl.load(x_ptr + h[:, None] * W + w_inside_1[None, :], mask=mask)
    h_inside_1 = _mirror(h + 1, H)
    x_6 = tl.load(x_ptr + h_inside_1[:, None] * W + w_inside[None, :], mask=mask)
    x_7 = tl.load(x_ptr + h_inside_1[:, None] * W + w[None, :], mask=mask)
    x_8 = tl.load(x_ptr + h_inside_1[:, None] * W + w_inside_1[None, :], mask=mask)
    t = x * -0.25
    t_1 = x_4 * 0.0
    t_2 = x_8 * 0.25
    t_3 = t + x_1 * -0.5 + x_2 * -0.25 + x_3 * 0.0 + t_1 + x_5 * 0.0 + x_6 * 0.25 + x_7 * 0.5 + t_2
    t_4 = t + x_1 * 0.0 + x_2 * 0.25 + x_3 * -0.5 + t_1 + x_5 * 0.5 + x_6 * -0.25 + x_7 * 0.0 + t_2
    y = tl.sqrt_rn((t_3 * t_3 + t_4 * t_4) * 0.5)
    tl.store(y_ptr + h[:, None] * W + w[None, :], y, mask=mask)


def _on_nvidia(kernel):
    """Whether the kernel is compiled for an NVIDIA GPU; under Triton's interpreter it is no JITFunction."""
    return isinstance(kernel, triton.JITFunction) and torch.version.cuda is not None


def _early(kernel, device):
    """Options by which a kernel that awaits what is ahead of it in the stream is launched before that has ended.

    From compute capability 9.0 on (programmatic dependent launch).
    """
    early = _on_nvidia(kernel) and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}


def sobel(x):
    """Edge magnitude by the Sobel filter."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(
            f"sobel: x must be torch.float32 with 2 dims, but is {x.dtype} with {x.dim()}."
        )
    device = x.device
    H, W = x.shape
    x = x.contiguous()
    y = torch.empty((H, W), dtype=torch.float32, device=device)
    # Offsets are int32 where they fit, which takes fewer registers and instructions.
    elements = max(x.numel(), y.numel())
    INDEX = tl.int64 if elements >= 2**31 else tl.int32
    BLOCK_W = min(triton.next_power_of_2(max(W, 1)), 1024)
    BLOCK_H = min(triton.next_power_of_2(max(H, 1)), max(1024 // BLOCK_W, 1))
    grid = (triton.cdiv(H, BLOCK_H) * triton.cdiv(W, BLOCK_W),)
    sobel_kernel[grid](
        x,
        y,
        H,
        W,
        INDEX=INDEX,
        BLOCK_W=BLOCK_W,
        BLOCK_H=BLOCK_H,
        num_warps=min(max(BLOCK_W * BLOCK_H // 512, 1), 16),
        **_early(sobel_kernel, device),
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


def reference(x, H, W):
    """The declaration in NumPy, equation by equation, in float64."""
    k = np.array([-0.25, -0.5, -0.25, 0, 0, 0, 0.25, 0.5, 0.25], np.float64).reshape((3, 3))
    k_2 = np.array([-0.25, 0, 0.25, -0.5, 0, 0.5, -0.25, 0, 0.25], np.float64).reshape((3, 3))
    h, w, m, n = np.ogrid[:H, :W, :3, :3]
    v = _whole(
        _fold(
            np.sum,
            _read(x, [(h + m) - 1, (w + n) - 1], "mirror") * k[m, n],
            (2, 3),
            (H, W, 3, 3),
            0,
        ),
        (H, W, 1, 1),
        (H, W),
        np.float64,
    )
    u = _whole(
        _fold(
            np.sum,
            _read(x, [(h + m) - 1, (w + n) - 1], "mirror") * k_2[m, n],
            (2, 3),
            (H, W, 3, 3),
            0,
        ),
        (H, W, 1, 1),
        (H, W),
        np.float64,
    )
    h, w = np.ogrid[:H, :W]
    y = _whole(
        np.sqrt(((v[h, w] * v[h, w]) + (u[h, w] * u[h, w])) * 0.5), (H, W), (H, W), np.float64
    )
    return (y,)


def check():
    """Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    for H, W in [(1, 1), (2, 3), (19, 17), (3, 3), (33, 3), (129, 3), (2, 33), (2, 129)]:
        x = torch.randn((H, W))
        expected = reference(x.double().numpy(), H, W)
        results = (sobel(x.to(device)),)
        for result, wanted in zip(results, expected):
            result = result.cpu()
            result = (result.double() if result.is_floating_point() else result).numpy()
            np.testing.assert_allclose(result, wanted, rtol=4e-06, atol=4e-06)
    print("sobel: the results at 8 sizes agree with the reference")


if __name__ == "__main__":
    check()
