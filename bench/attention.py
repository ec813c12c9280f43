#!/usr/bin/env python3
"""Attention as exporters spell it (product, scale, softmax, product) against torch and ONNX Runtime.

    .venv/bin/python bench/attention.py [--json] [--threads N] [--seconds S] [LENGTH...]

8 heads of 64, f32, as many keys as queries. torch is its scaled_dot_product_attention. Candidates take turns, the least of many
runs counts; bytes are Opwright's for intermediate results. Needs torch: scripts/setup.sh --bench. Values are seeded random.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
HEADS, DEPTH = 8, 64


def write_model(path, length):
    import onnx
    from onnx import helper, numpy_helper

    def value(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, HEADS, length, DEPTH])

    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    scale = numpy_helper.from_array(np.array(DEPTH**-0.5, np.float32), "scale")
    graph = helper.make_graph(nodes, "attention", [value(n) for n in "qkv"], [value("y")], [scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def measure(length, threads, seconds):
    import torch
    from models import onnxruntime_session
    from opwright_session import Session

    torch.set_num_threads(threads)
    rng = np.random.default_rng(length)
    feed = {n: rng.standard_normal((1, HEADS, length, DEPTH), dtype=np.float32) for n in "qkv"}
    tensors = [torch.from_numpy(feed[n]) for n in "qkv"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attention.onnx"
        write_model(path, length)
        ours, theirs = Session(str(path), threads=threads), onnxruntime_session(path, threads)
        shown = subprocess.run([ROOT / "build/opwright", "profile", path, "--repeats", "1", "--warmup", "1"], capture_output=True, text=True).stdout
    runs = {
        "opwright": lambda: ours.run(None, feed)[0],
        "torch": lambda: torch.nn.functional.scaled_dot_product_attention(*tensors).numpy(),
        "onnxruntime": lambda: theirs.run(None, feed)[0],
    }
    results = {name: run() for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            time.sleep(0.1)  # other libraries' workers spin for a while after a run
            for _ in range(3):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    difference = max(float(np.abs(results["opwright"] - results[n]).max()) for n in ("torch", "onnxruntime"))
    memory = re.search(r"memory: ([\d.]+ \w+) for intermediate", shown)
    return {"length": length, **{f"{n}_ms": t * 1e3 for n, t in best.items()}, "intermediate": memory[1] if memory else "0 B", "difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", nargs="*", type=int, default=[128, 512, 1024, 4096])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time a length")
    args = parser.parse_args()
    rows = [measure(n, args.threads, args.seconds) for n in args.lengths]
    if args.json:
        print(json.dumps({"threads": args.threads, "rows": rows}, indent=1))
        return
    print(f"Attention, {HEADS} heads of {DEPTH}, f32, {args.threads} thread(s), milliseconds; ratios above 1: Opwright is faster")
    for r in rows:
        print(
            f"  {r['length']:6}   Opwright {r['opwright_ms']:9.3f}   torch {r['torch_ms']:9.3f} ({r['torch_ms'] / r['opwright_ms']:.2f})   "
            f"ONNX Runtime {r['onnxruntime_ms']:9.3f} ({r['onnxruntime_ms'] / r['opwright_ms']:.2f})   "
            f"intermediate {r['intermediate']:>8}   difference {r['difference']:.1e}"
        )


if __name__ == "__main__":
    main()
