#!/usr/bin/env python3
"""Whole models against ONNX Runtime: same inputs, same number of threads, interleaved, minima of many runs.

    .venv/bin/python bench/models.py [--json] [--threads N] [--seconds S] [--winograd] [NAME...]

NAME is one of magika-1, magika-32, det, rec, cls, resnet18, resnet50, mobilenetv2, minilm-1x128, minilm-8x128; all of them without
a name. The first five are models that the magika and rapidocr packages bring; bench/exported_models.py exports the others,
for which `scripts/setup.sh --bench` installs torch. Inputs are seeded random values, never zeros.
"""

import argparse
import importlib.util
import json
import math
import sys
import time
from pathlib import Path

import exported_models
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))


def package_folder(name):
    return Path(importlib.util.find_spec(name).submodule_search_locations[0])


def cases():
    """Yields (name, a function that gives the model's path, inputs by name)."""
    rng = np.random.default_rng(7)
    magika = package_folder("magika") / "models/standard_v3_3/model.onnx"
    ocr = package_folder("rapidocr") / "models"

    def picture(*shape):
        return {"": rng.standard_normal(shape, dtype=np.float32)}

    def text(batch, length):
        ids = rng.integers(1000, 20000, (batch, length), dtype=np.int64)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    yield "magika-1", lambda: magika, {"": rng.integers(0, 256, (1, 2048), dtype=np.int32)}
    yield "magika-32", lambda: magika, {"": rng.integers(0, 256, (32, 2048), dtype=np.int32)}
    yield "det", lambda: ocr / "PP-OCRv6_det_small.onnx", picture(1, 3, 640, 640)
    yield "rec", lambda: ocr / "PP-OCRv6_rec_small.onnx", picture(1, 3, 48, 320)
    yield "cls", lambda: ocr / "ch_ppocr_mobile_v2.0_cls_mobile.onnx", picture(1, 3, 48, 192)
    yield "resnet18", lambda: exported_models.path_of("resnet18"), picture(1, 3, 224, 224)
    yield "resnet50", lambda: exported_models.path_of("resnet50"), picture(1, 3, 224, 224)
    yield "mobilenetv2", lambda: exported_models.path_of("mobilenetv2"), picture(1, 3, 224, 224)
    yield "minilm-1x128", lambda: exported_models.path_of("minilm"), text(1, 128)
    yield "minilm-8x128", lambda: exported_models.path_of("minilm"), text(8, 128)


def onnxruntime_session(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure(name, path, inputs, threads, seconds, winograd):
    from opwright_session import Session

    start = time.perf_counter()
    ours = Session(str(path), threads=threads, winograd=int(winograd))
    theirs_start = time.perf_counter()
    theirs = onnxruntime_session(path, threads)
    theirs_ready = time.perf_counter()
    feed = {n or theirs.get_inputs()[0].name: array for n, array in inputs.items()}
    first_start = time.perf_counter()
    got = ours.run(None, feed)[0]
    first_end = time.perf_counter()
    want = theirs.run(None, feed)[0]
    best = [float("inf"), float("inf")]
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for i, session in enumerate((ours, theirs)):
            time.sleep(0.2)  # workers of ONNX Runtime spin for 40 ms after a run, on the processors that the other one needs
            for _ in range(5):
                t = time.perf_counter()
                session.run(None, feed)
                best[i] = min(best[i], time.perf_counter() - t)
        rounds += 1
    return {
        "name": name,
        "threads": threads,
        "input": [list(array.shape) for array in inputs.values()],
        "opwright_ms": best[0] * 1e3,
        "onnxruntime_ms": best[1] * 1e3,
        "speed_ratio": best[1] / best[0],
        "rounds": rounds,
        "load_ms": (theirs_start - start) * 1e3,
        "first_run_ms": (first_end - first_start) * 1e3,
        "onnxruntime_load_ms": (theirs_ready - theirs_start) * 1e3,
        "max_abs_difference": float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time a model")
    parser.add_argument("--winograd", action="store_true", help="Opwright's 3x3 convolutions in Winograd's form (docs/numerics.md)")
    args = parser.parse_args()
    known = [name for name, _, _ in cases()]
    for name in args.names:
        if name not in known:
            parser.error(f"no model is called {name!r}; there are {', '.join(known)}")
    rows = []
    if not args.json:
        print(f"Models, {args.threads} thread(s); ratio = time of ONNX Runtime / time of Opwright (above 1: Opwright is faster)")
    for name, path, inputs in cases():
        if args.names and name not in args.names:
            continue
        row = measure(name, path(), inputs, args.threads, args.seconds, args.winograd)
        rows.append(row)
        if not args.json:
            print(
                f"  {name:<12} {row['opwright_ms']:9.2f} ms   ONNX Runtime {row['onnxruntime_ms']:9.2f} ms   "
                f"ratio {row['speed_ratio']:.2f}   load {row['load_ms']:.0f} + {row['first_run_ms']:.0f} ms   "
                f"difference {row['max_abs_difference']:.1e}",
                flush=True,
            )
    if not args.json and len(rows) > 1:
        print(f"  geometric mean of the ratios {math.exp(sum(math.log(r['speed_ratio']) for r in rows) / len(rows)):.2f}")
    if args.json:
        print(json.dumps({"threads": args.threads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
