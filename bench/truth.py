#!/usr/bin/env python3
"""Is the advice true? Plants known slowness, asks `opwright profile` for its cause and what a change would gain, makes the
change, and measures what that gained.

    .venv/bin/python bench/truth.py [--rounds N] [--json] [NAME...]

Slow and changed form are profiled in turns; times are the least over all rounds, and the estimate is that of the round with
the least time. The last column is the estimate over what was measured: 1 is the truth.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
OPWRIGHT = ROOT / "build" / "opwright"


def opwright(*arguments):
    done = subprocess.run([OPWRIGHT, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def profile(arguments):
    return json.loads(opwright("profile", *arguments, "--json", "--warmup", 3, "--repeats", 50))


def named(p, cause):
    """(whether the cause is the first that the costliest row names, seconds that all rows would gain by it)."""
    rows = sorted(p["operators"], key=lambda o: -o["min_ms"])
    if cause == "fusion":
        gains = [c["gain_ms"] for c in p["fusion"] if not c["taken"]]
        return bool(gains) and any(c["cause"] == cause for o in rows for c in o.get("changes", [])[:1]), sum(gains)
    of = lambda o: sum(c["gain_ms"] for c in o.get("changes", []) if c["cause"] == cause)
    first = [o.get("changes", [{}])[0].get("cause") for o in rows if o.get("changes")]
    return cause in first[:2], sum(of(o) for o in rows)


def operator(folder, name, source):
    path = folder / f"{name}.op"
    path.write_text(source)
    return path


def model(folder, name, nodes, inputs, output, weights=()):
    value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    tensors = [numpy_helper.from_array(w, n) for n, w in weights]
    graph = helper.make_graph(nodes, name, [value(*i) for i in inputs], [value(*output)], tensors)
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def strided(folder):
    slow = operator(folder, "strided", "op f(x[n,m]) -> y[n]:\n    y[n] = x[n, 0] * 2\n")
    fast = operator(folder, "dense", "op f(x[n]) -> y[n]:\n    y[n] = x[n] * 2\n")
    return [slow, "--size", "n=2000000,m=16", "--threads", 1], [fast, "--size", "n=2000000", "--threads", 1], 1


def scalar(folder):
    source = operator(folder, "map", "op f(x[n]) -> y[n]:\n    y[n] = x[n] * x[n] + max(x[n], 0.5) * 3\n")
    fast = [source, "--size", "n=60000", "--threads", 1]
    schedule = json.loads(opwright("explain", *fast, "--level", "schedule", "--json"))["schedule"]
    for nest in schedule["nests"]:
        for equation in nest["equations"]:
            for field in ("lane", "lanes", "unroll"):  # without them: one element at a time
                equation.pop(field, None)
    (folder / "scalar.json").write_text(json.dumps(schedule))
    return [*fast, "--schedule", folder / "scalar.json"], fast, 1


def unfused(folder):
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"{op}_{i}") for i, op in enumerate(["Relu", "Abs", "Neg", "Relu", "Abs"])]
    size = 400_000  # within the last cache: others that use the memory do not show
    path = model(folder, "chain", nodes, [("v0", [size])], ("v5", [size]))
    return [path, "--threads", 1, "--no-fuse"], [path, "--threads", 1], 1


def conversion(folder):
    weight = [("w", np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32))]
    product = helper.make_node("MatMul", ["x", "w"], ["a"], name="product")
    turn = helper.make_node("Transpose", ["a"], ["y"], name="turn", perm=[0, 2, 1])
    shape = [16, 2000, 16]
    slow = model(folder, "turned", [product, turn], [("x", shape)], ("y", [16, 16, 2000]), weight)
    fast = model(folder, "straight", [product], [("x", shape)], ("a", shape), weight)
    return [slow, "--threads", 1], [fast, "--threads", 1], 1


def one_thread(folder):
    one = operator(folder, "one", "op f(x[n]) -> y[]:\n    y[] = sum[n](exp(x[n]))\n")
    many = operator(folder, "many", "op f(x[m,n]) -> y[m]:\n    y[m] = sum[n](exp(x[m,n]))\n")
    return [one, "--size", "n=2000000", "--threads", 2], [many, "--size", "m=64,n=31250", "--threads", 2], 1


def small(folder):
    source = operator(folder, "small", "op f(x[n]) -> y[n]:\n    y[n] = x[n] + 1\n")
    # A batch of so many in one kernel, of which one takes its share.
    batch = 4096
    return [source, "--size", "n=16", "--threads", 1], [source, "--size", f"n={16 * batch}", "--threads", 1], batch


CASES = {
    "strided read": ("strides", strided, "elements side by side"),
    "missing vectorisation": ("no vectors", scalar, "the default schedule"),
    "unfused chain": ("fusion", unfused, "fusion on"),
    "layout conversion": ("layout conversion", conversion, "no transposition"),
    "one-thread loop": ("threads", one_thread, "64 sums in place of one"),
    "too small a kernel": ("start", small, "a batch of 4,096"),
}


def measure(name, rounds, folder):
    cause, plant, change = CASES[name]
    slow, fast, batch = plant(folder)
    slows, fasts = [], []
    for _ in range(rounds):
        slows.append(profile(slow))
        fasts.append(profile(fast))
    best = min(slows, key=lambda p: p["min_ms"])
    kernels = lambda p: sum(o["min_ms"] for o in p["operators"])
    before, after = min(map(kernels, slows)), min(map(kernels, fasts)) / batch
    hits = [named(p, cause) for p in slows]
    first, gain = named(best, cause)
    measured = before - after
    return {
        "name": name, "cause": cause, "change": change, "named": sum(h[0] for h in hits), "rounds": rounds,
        "before_ms": before, "after_ms": after, "estimated_ms": gain, "measured_ms": measured,
        "ratio": gain / measured if measured > 0 else float("inf"),
        "ratios": statistics.median(h[1] for h in hits) / measured if measured > 0 else float("inf"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    a = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            if not a.names or any(n in name for n in a.names):
                results.append(measure(name, a.rounds, Path(folder)))
    if a.json:
        print(json.dumps(results, indent=2))
        return
    print("| Planted | Named first | Before | After | Gain estimated | measured | Ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ms = lambda t: f"{t:.3g} ms" if t >= 0.1 else f"{1e3 * t:.3g} µs"
    for r in results:
        print(f"| {r['name']} | {r['cause']}, {r['named']} of {r['rounds']} | {ms(r['before_ms'])} | {ms(r['after_ms'])} ({r['change']}) |"
              f" {ms(r['estimated_ms'])} | {ms(r['measured_ms'])} | {r['ratio']:.2f} |")


if __name__ == "__main__":
    main()
