"""Folds that take one walk, as the functions of src/target/triton/python/functions.py compute them, against two walks.

Run by `./test triton`. Rows of all lengths around the edges of blocks and of what a lane holds, special values among
them: results must be those of two walks in the same type, NaN and infinities included.
"""

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "src" / "target" / "triton" / "python"))

import functions
import numpy as np
import torch
import triton
import triton.language as tl
import worker

np.seterr(all="ignore")
worker.correct_interpreter()
_maximum = functions._maximum
_add_exponentials = functions._add_exponentials
_rescaled = functions._rescaled
_add_deviations = functions._add_deviations
_deviations_from = functions._deviations_from


@triton.jit
def exponentials_kernel(
    x_ptr, m_ptr, s_ptr, M, N, V: tl.constexpr, B: tl.constexpr, R: tl.constexpr
):
    m = tl.arange(0, R)
    largest = tl.full([R, B // V], float("-inf"), tl.float32)
    total = tl.full([R, B // V], 0.0, tl.float32)
    for start in range(0, N, B):
        n = start + tl.arange(0, B)
        mask = (m[:, None] < M) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask, other=float("-inf"))
        largest, total = _add_exponentials(largest, total, x, V=V)
    h = tl.reduce(largest, 1, _maximum)
    s = tl.where(N > 0, tl.sum(_rescaled(largest, total, h[:, None]), 1) + (h - h), 0.0)
    tl.store(m_ptr + m, h, mask=m < M)
    tl.store(s_ptr + m, s, mask=m < M)


@triton.jit
def deviations_kernel(x_ptr, c_ptr, v_ptr, N, V: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0)
    total = tl.full([B // V], 0.0, tl.float32)
    squares = tl.full([B // V], 0.0, tl.float32)
    for start in range(0, N, B):
        n = start + tl.arange(0, B)
        x = tl.load(x_ptr + m * N + n, mask=n < N, other=0.0)
        total, squares = _add_deviations(total, squares, x, start, N, V=V)
    c = tl.sum(total, 0) / N
    tl.store(c_ptr + m, c)
    tl.store(v_ptr + m, tl.sum(_deviations_from(total, squares, N, c, V=V), 0))


def rows(n):
    """Rows of n elements, one a kind of special values."""
    r = np.random.default_rng(n)
    x = r.standard_normal((12, n)).astype(np.float32)
    top = np.finfo(np.float32).max
    kinds = [[], [-np.inf], [np.inf], [np.nan], [top], [top, -top], [-np.inf, -top], [1e20]]
    kinds.append([0.0, -0.0])
    for row, kind in enumerate(kinds):
        if kind:
            at = r.random(n) < 0.3
            x[row, at] = r.choice(np.array(kind, np.float32), at.sum())
    x[9] = -np.inf
    x[10] = 3
    x[11] += 1000
    return x


def same(got, wanted, tolerance):
    exact = (np.isnan(got) & np.isnan(wanted)) | (got == wanted)
    return exact | (np.isfinite(wanted) & (np.abs(got - wanted) <= tolerance))


def main():
    failed = 0
    for v in (1, 4, 8):
        for n in (1, 3, 4, 31, 32, 33, 63, 64, 65, 100, 128, 200, 257):
            x = rows(n)
            t = torch.from_numpy(x)
            m, s, c, q = (torch.empty(len(x)) for _ in range(4))
            exponentials_kernel[(1,)](t, m, s, len(x), n, V=v, B=64, R=16)
            deviations_kernel[(len(x),)](t, c, q, n, V=v, B=64)
            h = np.max(x, 1)
            e = np.sum(np.exp(x - h[:, None]), 1)
            centre = c.numpy()
            d = x.astype(np.float64) - centre[:, None]
            with np.errstate(all="ignore"):
                squares = np.sum((d * d).astype(np.float32), 1)
            size = np.max(np.where(np.isfinite(x), np.abs(x), 0), 1).astype(np.float64)
            rounding = n * (4e-7 * size) ** 2
            # Partial sums that overflow to both infinities.
            unsure = np.isnan(centre) & np.isfinite(x).all(1)
            for what, ok in (
                ("largest", same(m.numpy(), h, 0)),
                ("sum of exponentials", same(s.numpy(), e, 1e-5 * np.abs(e))),
                ("squared deviations", same(q.numpy(), squares, 1e-4 * squares + rounding) | unsure),
                ("of equal whole numbers", q.numpy()[10] == 0),
            ):
                if not np.all(ok):
                    failed += 1
                    print(f"{what}, rows of {n}, {v} neighbours: wrong in rows {np.flatnonzero(~np.atleast_1d(ok))}")
                    print(m.numpy(), h, s.numpy(), e, q.numpy(), squares, sep="\n")
    print("folds that take one walk: as two walks" if not failed else f"{failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
