"""The error of every function of src/target/triton/python/functions.py, against NumPy in extended precision.

Run by `./test triton`. Values of all magnitudes, and the special ones; each error must lie within its bound, all
of which lie within what src/math/functions.cpp promises.
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

# function of functions.py, NumPy's, largest error in ulps for float32 and float64 (None: no float64 form)
ONE = [
    ("_exp", np.exp, 2, 2),
    ("_expm1", np.expm1, 4, 3),
    ("_log1p", np.log1p, 4, 3),
    ("_tan", np.tan, 3, 3),
    ("_sinh", np.sinh, 4, 3),
    ("_cosh", np.cosh, 3, 2),
    ("_tanh", np.tanh, 4, 3),
    ("_atan", np.arctan, 3, 2),
    ("_asin", np.arcsin, 3.5, 2.5),
    ("_acos", np.arccos, 3, 2.5),
    ("_asinh", np.arcsinh, 3.5, 2.5),
    ("_acosh", np.arccosh, 3, 2.5),
    ("_atanh", np.arctanh, 4, 3),
    ("_round", np.rint, 0, 0),
    ("_trunc", np.trunc, 0, 0),
]


def floor_mod(a, b):
    r = np.fmod(a, b)
    return np.where(r == 0, np.copysign(r, b), np.where((r < 0) != (b < 0), r + b, r))


TWO = [
    ("_pow", np.power, 1, None),
    ("_pow64", np.power, None, 2),
    ("_atan2", np.arctan2, 3, 2.5),
    ("_fmod", np.fmod, 0, None),
    ("_fmod64", np.fmod, None, 0),
    ("_floor_mod", floor_mod, 1, 1),
]


@triton.jit
def one_kernel(x_ptr, y_ptr, n, f: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, f(tl.load(x_ptr + i, mask=i < n, other=1.0)), mask=i < n)


@triton.jit
def two_kernel(x_ptr, z_ptr, y_ptr, n, f: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    z = tl.load(z_ptr + i, mask=i < n, other=1.0)
    tl.store(y_ptr + i, f(x, z), mask=i < n)


def values(dtype, seed):
    r = np.random.default_rng(seed)
    n = 8192
    special = [
        0,
        -0.0,
        1,
        -1,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        -0.5,
        1.5,
        2.5,
        0.49999997,
        3,
        -3,
        1e30,
        -1e30,
    ]
    parts = [s * r.standard_normal(n) for s in (1, 10, 80)]
    parts += [
        10.0 ** r.uniform(-30, 30, n) * r.choice([-1, 1], n),
        10.0 ** r.uniform(-8, 0, n),
        r.uniform(-1, 1, n),
    ]
    return np.concatenate(parts + [np.array(special), np.floor(r.uniform(-9, 9, n))]).astype(dtype)


def worst(got, wanted, dtype):
    """The largest error in ulps; infinite where an infinity, a NaN or the sign of a zero is wrong."""
    rounded = wanted.astype(dtype)
    bad = (np.isnan(rounded) != np.isnan(got)) | (np.isinf(rounded) != np.isinf(got))
    bad |= (rounded == 0) & (got == 0) & (np.signbit(rounded) != np.signbit(got))
    if bad.any():
        return np.inf
    finite = np.isfinite(rounded)
    ulp = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(dtype).tiny))
    return float(np.max(np.abs(got[finite] - wanted[finite]) / ulp, initial=0))


def main():
    failed = 0
    for dtype, column in ((np.float32, 2), (np.float64, 3)):
        x, z = values(dtype, 1), np.random.default_rng(2).permutation(values(dtype, 3))
        block = triton.next_power_of_2(len(x))
        wide = [np.longdouble(v) for v in (x, z)]
        for case in ONE + TWO:
            if case[column] is None:
                continue
            y = torch.empty(len(x), dtype=torch.from_numpy(x).dtype)
            f = getattr(functions, case[0])
            if case in ONE:
                one_kernel[(1,)](torch.from_numpy(x), y, len(x), f=f, BLOCK=block)
                error = worst(y.numpy(), case[1](wide[0]), dtype)
            else:
                two_kernel[(1,)](
                    torch.from_numpy(x), torch.from_numpy(z), y, len(x), f=f, BLOCK=block
                )
                error = worst(y.numpy(), case[1](*wide), dtype)
            print(f"{case[0]:<12} {np.dtype(dtype).name} {error:5.2f} ulps, bound {case[column]}")
            failed += error > case[column]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
