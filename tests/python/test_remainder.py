"""`%` and fmod of floats are NumPy's remainder and fmod to the bit, the sign of a zero too, compiled and by the reference."""

import ml_dtypes
import numpy as np
import pytest
from opwright_session import Operator

INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 4, -4, 0.5, -0.5, 5.5, -5.5, 7, -7, 1000, -1000, INF, -INF, NAN]
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
RULES = {"mod": np.remainder, "fmod": np.fmod}


def pairs(dtype):
    """All pairs of special values, and many whose remainder is zero."""
    random = np.random.default_rng(5)
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    divisor = random.integers(1, 12, 500) * random.choice([-1.0, 1.0], 500)
    return [
        np.concatenate([a.ravel(), divisor * random.integers(-12, 12, 500)]).astype(dtype),
        np.concatenate([b.ravel(), divisor]).astype(dtype),
    ]


def expected(operator, a, b):
    """16-bit floats are computed in f32 and rounded once."""
    wide = np.float32 if a.dtype.itemsize == 2 else a.dtype
    with np.errstate(invalid="ignore"):
        return RULES[operator](a.astype(wide), b.astype(wide)).astype(a.dtype)


def assert_same(got, want):
    assert got.dtype == want.dtype
    number = ~np.isnan(want)
    assert np.array_equal(np.isnan(got), ~number)
    assert np.array_equal(got[number], want[number])
    assert np.array_equal(np.signbit(got[number]), np.signbit(want[number]))
    zeros = want[want == 0]
    assert np.signbit(zeros).any() and not np.signbit(zeros).all(), "both zeros are met"


@pytest.mark.parametrize("vector", ["baseline", "auto"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", RULES)
def test_compiled(operator, dtype, vector):
    a, b = pairs(TYPES[dtype])
    [y] = Operator(None, operator, vector=vector)(a, b)
    assert_same(y, expected(operator, a, b))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("operator", RULES)
def test_by_the_reference(opwright, tmp_path, operator, dtype):
    a, b = pairs(TYPES[dtype])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    code, _, error = opwright(
        "run", operator, "--input", "a=a.npy", "--input", "b=b.npy", "--output", "y=y.npy", "--engine", "reference"
    )
    assert code == 0, error
    assert_same(np.load(tmp_path / "y.npy"), expected(operator, a, b))
