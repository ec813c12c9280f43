"""Functions that NumPy lacks, or means otherwise, for the references that go with emitted files."""

import math

import numpy as np


def _whole(value, grid, shape, dtype):
    """A value over a grid as the tensor that it defines."""
    return np.broadcast_to(value, grid).reshape(shape).astype(dtype)


def _fold(operation, body, axes, grid, initial):
    """Folds body, spread over the grid, along axes that stay with an extent of 1."""
    return operation(np.broadcast_to(body, grid), axis=axes, keepdims=True, initial=initial)


def _position(operation, body, axes, grid, last):
    """The row-major position of the extreme element along axes that stay with an extent of 1; 0 of nothing."""
    body = np.moveaxis(np.broadcast_to(body, grid), axes, range(-len(axes), 0))
    kept = body.shape[: body.ndim - len(axes)]
    count = math.prod(body.shape[len(kept) :])
    body = body.reshape(*kept, count)
    if count == 0:
        at = np.zeros(kept, np.int64)
    elif last:
        at = count - 1 - operation(body[..., ::-1], axis=-1)
    else:
        at = operation(body, axis=-1)
    return np.expand_dims(at, axes)


def _running(operation, body, axis, grid, nothing, exclusive, backward):
    body = np.broadcast_to(body, grid)
    body = np.flip(body, axis) if backward else body
    result = operation(body, axis=axis)
    if exclusive:
        before = np.full_like(np.take(result, [0] if grid[axis] else [], axis), nothing)
        result = np.concatenate([before, np.take(result, range(grid[axis] - 1), axis)], axis)
    return np.flip(result, axis) if backward else result


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


def _divide(a, b):
    """Integers toward zero; 0 for a divisor of 0."""
    one = np.where(b == 0, np.ones_like(b), b)
    q = np.floor_divide(a, one)
    q = q + ((q * one != a) & (q < 0)).astype(q.dtype)
    return np.where(b == 0, np.zeros_like(q), q)


def _floor_divide(a, b):
    one = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a // one), a // one)


def _modulo(a, b):
    """The remainder with the divisor's sign; 0 for an integer divisor of 0."""
    if np.issubdtype(np.asarray(a).dtype, np.floating):
        return np.mod(a, b)
    one = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a % one), a % one)


def _remainder(a, b):
    """The remainder with the sign of a; 0 for an integer divisor of 0."""
    if np.issubdtype(np.asarray(a).dtype, np.floating):
        return np.fmod(a, b)
    one = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(np.fmod(a, one)), np.fmod(a, one))


def _power(x, n):
    """Powers of integers by squaring; a negative exponent leaves 1 and -1, and of all else 0."""
    x, n = np.broadcast_arrays(x, n)
    r, power, e = np.ones_like(x), x.copy(), n.astype(np.int64)
    while np.any(e > 0):
        r = np.where((e > 0) & (e & 1 != 0), r * power, r)
        power, e = power * power, e >> 1
    unit = np.where(x == 1, 1, np.where(x == -1, np.where(n & 1 != 0, -1, 1), 0))
    return np.where(n < 0, unit, r).astype(x.dtype)


def _shift(operation, a, b):
    bits = 8 * a.dtype.itemsize
    r = operation(a, np.clip(b, 0, bits - 1).astype(a.dtype))
    rest = (
        np.where(a < 0, -1, 0).astype(a.dtype) if operation is np.right_shift else np.zeros_like(a)
    )
    return np.where((b >= 0) & (b < bits), r, rest)


def _as_int(x, dtype):
    """Toward zero, saturating; NaN to 0."""
    x = np.asarray(x)
    info = np.iinfo(dtype)
    if np.issubdtype(x.dtype, np.floating):
        inside = (x >= info.min) & (x < float(info.max) + 1.0)
        r = np.where(inside, x, 0.0).astype(dtype)
        r = np.where(x < info.min, dtype(info.min), r)
        return np.where(x >= float(info.max) + 1.0, dtype(info.max), r)
    return np.clip(
        x, max(info.min, np.iinfo(x.dtype).min), min(info.max, np.iinfo(x.dtype).max)
    ).astype(dtype)


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


class _Bounded(np.lib.mixins.NDArrayOperatorsMixin):
    """Float64 values and, to first order, how far arithmetic that rounds to float32 may be from them."""

    def __init__(self, value, error=0.0):
        self.value = value
        self.error = np.broadcast_to(error, np.shape(value))

    def __array_ufunc__(self, function, method, *arguments):
        values = [a.value if isinstance(a, _Bounded) else a for a in arguments]
        with np.errstate(all="ignore"):
            result = function(*values)
            if result.dtype == bool:
                return result
            # 4 ulps of its own, and what it makes of the errors of its arguments.
            error = 2**-21 * np.abs(result)
            for i, a in enumerate(arguments):
                if isinstance(a, _Bounded):
                    ends = [
                        function(*values[:i], a.value + d, *values[i + 1 :])
                        for d in (-a.error, a.error)
                    ]
                    moved = np.maximum(*[np.abs(end - result) for end in ends])
                    surely = np.isnan(result) & np.isnan(ends[0]) & np.isnan(ends[1])
                    error = error + np.where(surely, 0.0, moved)
        return _Bounded(result, np.where(np.isnan(result) & (error == 0), 0.0, error))

    def __array_function__(self, function, types, arguments, options):
        # np.sum, np.max, np.min, np.broadcast_to, np.where: errors are summed, chosen and spread as values are.
        values = [a.value if isinstance(a, _Bounded) else a for a in arguments]
        errors = [a.error if isinstance(a, _Bounded) else a for a in arguments]
        if function is np.where:
            errors[1:] = [getattr(a, "error", 0.0) for a in arguments[1:]]
        value = function(*values, **options)
        if function in (np.max, np.min):
            return _Bounded(value, np.max(*errors[:1], **{**options, "initial": 0.0}))
        error = function(*errors, **options)
        if function is np.sum:
            terms = np.size(values[0]) // max(np.size(value), 1)
            error = error + terms * 2**-24 * np.sum(np.abs(values[0]), **options)
        return _Bounded(value, error)

    def __getitem__(self, at):
        return _Bounded(self.value[at], self.error[at])

    def reshape(self, shape):
        return _Bounded(self.value.reshape(shape), self.error.reshape(shape))

    def astype(self, dtype):
        return _Bounded(self.value.astype(dtype), self.error)


def _assert_within(result, wanted):
    """Asserts that the result lies within the bound. Where that is no number, nothing is known: it may be anything."""
    same = (result == wanted.value) | (np.isnan(result) & np.isnan(wanted.value))
    wrong = np.isfinite(wanted.error) & ~same & ~(np.abs(result - wanted.value) <= wanted.error)
    assert (
        not wrong.any()
    ), f"{result[wrong]} instead of {wanted.value[wrong]}, {wanted.error[wrong]} allowed"
