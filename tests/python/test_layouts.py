"""Arrays of every layout reach compiled kernels through the NumPy wrapper as what they show, and are left as they were."""

import numpy as np
import pytest

from opwright_session import Operator

rng = np.random.default_rng(5)


def laid_out(shape, layout, dtype=np.float32):
    """An array of this layout, and the memory that it lies in."""
    if layout == "transposed":
        memory = rng.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype)
        return np.swapaxes(memory, -1, -2), memory
    if layout == "sliced":
        memory = rng.standard_normal((*shape[:-1], shape[-1] + 3)).astype(dtype)
        return memory[..., 1 : 1 + shape[-1]], memory
    if layout == "every second":
        memory = rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)
        return memory[..., ::2], memory
    if layout == "expanded":
        memory = rng.standard_normal(shape[1:]).astype(dtype)
        return np.broadcast_to(memory, shape), memory
    if layout == "reversed":
        memory = rng.standard_normal(shape).astype(dtype)
        return memory[..., ::-1], memory
    if layout == "odd address":
        memory = np.zeros(np.prod(shape) * np.dtype(dtype).itemsize + 1, np.uint8)
        view = memory[1:].view(dtype).reshape(shape)
        view[...] = rng.standard_normal(shape)
        return view, memory
    memory = rng.standard_normal(shape).astype(dtype)
    return memory, memory


LAYOUTS = ["dense", "transposed", "sliced", "every second", "expanded", "reversed", "odd address"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("softmax", [(5, 37)]),
        ("matmul", [(33, 17), (17, 40)]),
        ("add", [(4, 9, 33), (4, 9, 33)]),
        ("relu", [(3, 65)]),
    ],
)
def test_every_layout_gives_the_same_bits_as_dense_arrays(operator, shapes, layout):
    arrays, memories = zip(*(laid_out(s, layout) for s in shapes))
    before = [m.copy() for m in memories]
    kernel = Operator(None, operator, "axes = [1]" if operator == "softmax" else "")
    got = kernel(*arrays)
    want = kernel(*(np.ascontiguousarray(a) for a in arrays))
    for a, b in zip(got, want):
        assert a.tobytes() == b.tobytes()
    for m, b in zip(memories, before):
        assert np.array_equal(m, b)
