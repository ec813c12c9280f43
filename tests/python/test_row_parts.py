"""Folds across rows, of few columns: threads share them in parts that follow from the sizes alone."""

import numpy as np
import pytest
from opwright_session import Library, Operator

SHAPES = [(0, 5), (3, 0), (1, 70000), (17, 65536), (10007, 17), (1048583, 1), (65537, 8), (5000, 2049), (300, 6000), (2049, 64)]


@pytest.mark.parametrize("fold, reference", [("sum", np.sum), ("max", np.max)])
def test_parts_agree_with_the_reference_and_between_threads(fold, reference):
    library = Library(f"op f(x[m,n]) -> y[n]:\n    y[n] = {fold}[m](x[m,n])\n")
    one, two = (Operator(library, "f", threads=threads) for threads in (1, 2))
    for m, n in SHAPES:
        if fold == "max" and m == 0:
            continue
        x = np.random.default_rng(m + n).standard_normal((m, n), dtype=np.float32)
        if fold == "max":
            x[m // 2, n // 2 :] = np.nan
        got = one(x)[0]
        np.testing.assert_array_equal(got, two(x)[0], err_msg=f"{m} x {n}")
        want = reference(x.astype(np.float64), axis=0)
        if fold == "max":
            np.testing.assert_array_equal(got, want.astype(np.float32), err_msg=f"{m} x {n}")
        else:
            terms = np.abs(x.astype(np.float64)).sum(axis=0)
            assert np.all(np.abs(got - want) <= 64 * np.sqrt(m) * 2.0**-24 * terms), f"{m} x {n}"
