#!/usr/bin/env python3
"""Seconds until something can run: operators, long graphs, Fibonacci-shaped graphs, transformers as exporters spell them,
real models; cold and from the cache.

    .venv/bin/python bench/compile_time.py [--json] [--repeats N] [--only WORD] [MODEL.onnx...]

Minima over the repeats. "Cold" compiles everything anew; "cached" finds its objects on disk. Each figure ends when the
first result is there. The processor time of all threads, which other work on the machine hardly changes, stands beside it.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
UNARY = ["Relu", "Neg", "Abs", "Sqrt", "Floor", "Sign", "Ceil"]


def model(nodes, inputs, output):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "k"])
    graph = helper.make_graph(nodes, "g", [value(i) for i in inputs], [value(output)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def chain(n):
    """n operators, each on the one before; no two stretches of it are alike."""
    names = ["x", *(f"v{i}" for i in range(n))]
    nodes = [helper.make_node(UNARY[(i * i // 3 + i // 5) % 7], [names[i]], [names[i + 1]]) for i in range(n)]
    return model(nodes, ["x"], names[-1]), {"x": X}


def fibonacci(n):
    """y[i+1] = y[i] + y[i-1]."""
    names = ["a", "b", *(f"v{i}" for i in range(n))]
    nodes = [helper.make_node("Add", [names[i + 1], names[i]], [names[i + 2]]) for i in range(n)]
    return model(nodes, ["a", "b"], names[-1]), {"a": X, "b": X}


def transformer(nodes, width=64, heads=4):
    """About so many nodes of a GPT-like decoder, every layer norm and GELU spelled out, each layer with weights of its own."""
    rng = np.random.default_rng(7)
    made, weights = [], []

    def weight(*shape, value=None):
        array = np.asarray(value if value is not None else 0.1 * rng.standard_normal(shape), dtype=np.float32)
        weights.append(onnx.numpy_helper.from_array(array, f"w{len(weights)}"))
        return weights[-1].name

    def integers(*values):
        weights.append(onnx.numpy_helper.from_array(np.array(values, dtype=np.int64), f"w{len(weights)}"))
        return weights[-1].name

    def add(op, *inputs, outputs=1, **attributes):
        names = [f"v{len(made)}_{i}" for i in range(outputs)]
        made.append(helper.make_node(op, list(inputs), names, name=f"{op}_{len(made)}", **attributes))
        return names[0] if outputs == 1 else names

    def norm(x):
        centred = add("Sub", x, add("ReduceMean", x, axes=[-1]))
        variance = add("ReduceMean", add("Mul", centred, centred), axes=[-1])
        scaled = add("Div", centred, add("Sqrt", add("Add", variance, weight(value=1e-5))))
        return add("Add", add("Mul", scaled, weight(width)), weight(width))

    def linear(x, to, of=width):
        return add("Add", add("MatMul", x, weight(of, to)), weight(to))

    x = "x"
    while len(made) < nodes - 10:
        parts = add("Split", linear(norm(x), 3 * width), integers(width, width, width), outputs=3, axis=-1)
        shape, order = integers(0, 0, heads, width // heads), [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]]
        q, k, v = (add("Transpose", add("Reshape", p, shape), perm=o) for p, o in zip(parts, order))
        scores = add("Mul", add("MatMul", q, k), weight(value=(width // heads) ** -0.5))
        mixed = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = add("Add", x, linear(add("Reshape", mixed, integers(0, 0, width)), width))
        hidden = linear(norm(x), 4 * width)
        bell = add("Add", add("Erf", add("Div", hidden, weight(value=2**0.5))), weight(value=1))
        x = add("Add", x, linear(add("Mul", add("Mul", hidden, bell), weight(value=0.5)), width, 4 * width))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "t", width])
    graph = helper.make_graph(made, "g", [value("x")], [value(x)], weights)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    return data, {"x": rng.standard_normal((1, 16, width), dtype=np.float32)}, len(made)


def cases(models):
    from opwright_session import Operator, Session

    def operator(name, *arrays, attributes=""):
        return lambda cache: Operator(None, name, attributes, cache=int(cache))(*arrays)

    def session(data, inputs):
        return lambda cache: Session(data, cache=int(cache)).run(None, inputs)

    rng = np.random.default_rng(1)
    square = rng.random((64, 64), dtype=np.float32)
    picture = rng.random((1, 3, 32, 32), dtype=np.float32)
    yield "relu", operator("relu", X)
    yield "softmax", operator("softmax", X, attributes="axes = [1]")
    yield "matmul", operator("matmul", square, square)
    yield "layer_norm", operator("layer_norm", square, square[0], square[1])
    yield "conv", operator("conv", picture, rng.random((8, 3, 3, 3), dtype=np.float32))
    for n in (250, 500, 1000):
        yield f"chain of {n} operators", session(*chain(n))
    for n in (50, 100, 200):
        yield f"Fibonacci, {n} deep", session(*fibonacci(n))
    for n in (500, 1000, 2000):
        data, inputs, count = transformer(n)
        yield f"transformer, {count} nodes", session(data, inputs)
    for path in models:
        yield Path(path).stem, session(path, random_inputs(path))
    magika = Path(importlib.util.find_spec("magika").submodule_search_locations[0]) / "models/standard_v3_3/model.onnx"
    yield "magika", session(str(magika), {"bytes": rng.integers(0, 256, (1, 2048), dtype=np.int32)})


def random_inputs(path):
    """Of the shapes that the model states; sizes that it leaves open are 1."""
    graph = onnx.load(path, load_external_data=False).graph
    rng, weights = np.random.default_rng(1), {w.name for w in graph.initializer}
    shapes = {i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in graph.input if i.name not in weights}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def best(run, repeats):
    """Least milliseconds on the wall, and of processor time."""
    times = []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return [1e3 * min(t) for t in zip(*times)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx", help="with float inputs; bench/models.py exports some")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPWRIGHT_CACHE_DIR"] = folder
        for name, compile_and_run in cases(args.models):
            if args.only not in name:
                continue
            cold = best(lambda: compile_and_run(False), args.repeats)
            compile_and_run(True)  # fills the cache
            cached = best(lambda: compile_and_run(True), args.repeats)
            rows.append(
                {"name": name, "cold_ms": cold[0], "cold_cpu_ms": cold[1], "cached_ms": cached[0], "cached_cpu_ms": cached[1]}
            )
            if not args.json:
                print(
                    f"  {name:<26} cold {cold[0]:8.1f} ms (processor {cold[1]:8.1f})   "
                    f"cached {cached[0]:7.1f} ms ({cached[1]:7.1f})",
                    flush=True,
                )
    if args.json:
        print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
