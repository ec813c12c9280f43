#!/usr/bin/env python3
"""Convolution layers, f32: Opwright against torch's conv2d and its oneDNN, the layers of ResNet-18, ResNet-50 and MobileNetV2.

    .venv/bin/python bench/conv.py [--json] [--threads N] [--processor-time] [--seconds S] [--only TEXT]

Needs torch: scripts/setup.sh --bench. Each distinct layer of a network at 224 x 224, one picture, bias included, is an
ONNX model of one node for Opwright (weights are constants, as in a network). Both take the faster of two memory
formats, contiguous and channels last, and torch the faster of conv2d and of oneDNN called directly, its weights brought into
the form that it wants once: conv2d does that in every call, and gives some 1x1 layers to MKL. Candidates take turns; each figure is the least of many runs. The peak of fused
multiply-adds is measured in the same run. --processor-time takes the calling
thread's time in place of the clock's, for one thread on a busy machine. Values are seeded random numbers.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

# (input channels, output channels, groups, size of the picture, taps, stride)
RESNET18 = [
    (3, 64, 1, 224, 7, 2), (64, 64, 1, 56, 3, 1), (64, 128, 1, 56, 3, 2), (64, 128, 1, 56, 1, 2),
    (128, 128, 1, 28, 3, 1), (128, 256, 1, 28, 3, 2), (128, 256, 1, 28, 1, 2), (256, 256, 1, 14, 3, 1),
    (256, 512, 1, 14, 3, 2), (256, 512, 1, 14, 1, 2), (512, 512, 1, 7, 3, 1),
]  # fmt: skip
RESNET50 = [
    (64, 64, 1, 56, 1, 1), (64, 256, 1, 56, 1, 1), (256, 64, 1, 56, 1, 1), (256, 128, 1, 56, 1, 1),
    (128, 128, 1, 56, 3, 2), (128, 512, 1, 28, 1, 1), (256, 512, 1, 56, 1, 2), (512, 128, 1, 28, 1, 1),
    (512, 256, 1, 28, 1, 1), (256, 256, 1, 28, 3, 2), (256, 1024, 1, 14, 1, 1), (512, 1024, 1, 28, 1, 2),
    (1024, 256, 1, 14, 1, 1), (1024, 512, 1, 14, 1, 1), (512, 512, 1, 14, 3, 2), (512, 2048, 1, 7, 1, 1),
    (1024, 2048, 1, 14, 1, 2), (2048, 512, 1, 7, 1, 1),
]  # fmt: skip
MOBILENET_V2 = [
    (3, 32, 1, 224, 3, 2), (32, 32, 32, 112, 3, 1), (32, 16, 1, 112, 1, 1), (16, 96, 1, 112, 1, 1),
    (96, 96, 96, 112, 3, 2), (96, 24, 1, 56, 1, 1), (24, 144, 1, 56, 1, 1), (144, 144, 144, 56, 3, 1),
    (144, 24, 1, 56, 1, 1), (144, 144, 144, 56, 3, 2), (144, 32, 1, 28, 1, 1), (32, 192, 1, 28, 1, 1),
    (192, 192, 192, 28, 3, 1), (192, 32, 1, 28, 1, 1), (192, 192, 192, 28, 3, 2), (192, 64, 1, 14, 1, 1),
    (64, 384, 1, 14, 1, 1), (384, 384, 384, 14, 3, 1), (384, 64, 1, 14, 1, 1), (384, 96, 1, 14, 1, 1),
    (96, 576, 1, 14, 1, 1), (576, 576, 576, 14, 3, 1), (576, 96, 1, 14, 1, 1), (576, 576, 576, 14, 3, 2),
    (576, 160, 1, 7, 1, 1), (160, 960, 1, 7, 1, 1), (960, 960, 960, 7, 3, 1), (960, 160, 1, 7, 1, 1),
    (960, 320, 1, 7, 1, 1), (320, 1280, 1, 7, 1, 1),
]  # fmt: skip
NETWORKS = {"ResNet-18": RESNET18, "ResNet-50": RESNET50, "MobileNetV2": MOBILENET_V2}


def name_of(layer):
    c, m, g, size, taps, stride = layer
    kind = "depthwise" if g == c else f"{c} -> {m}"
    return f"{taps}x{taps} {kind}{f' {c}' if g == c else ''}, {size}" + (f", stride {stride}" if stride > 1 else "")


def onnx_model(layer, weight, bias, folder, last):
    import onnx
    from onnx import helper, numpy_helper

    c, m, g, size, taps, stride = layer
    pad = taps // 2
    out = (size + 2 * pad - taps) // stride + 1
    ends = ["x", "y"] if not last else ["inner_x", "inner_y"]
    nodes = [helper.make_node("Conv", [ends[0], "w", "b"], ends[1:], group=g, pads=[pad] * 4, strides=[stride] * 2)]
    x_shape, y_shape = [1, c, size, size], [1, m, out, out]
    if last:  # transposes to and from channels last, which become the convolution's own way of reading and writing
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["inner_x"], perm=[0, 3, 1, 2]))
        nodes.append(helper.make_node("Transpose", ["inner_y"], ["y"], perm=[0, 2, 3, 1]))
        x_shape, y_shape = [1, size, size, c], [1, out, out, m]
    f32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", f32, x_shape)],
        [helper.make_tensor_value_info("y", f32, y_shape)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    path = Path(folder) / f"layer-{last}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path), out


def measure(layer, threads, seconds, clock):
    import numpy as np
    import torch
    from opwright_session import Session

    torch.set_num_threads(threads)
    c, m, g, size, taps, stride = layer
    rng = np.random.default_rng(c + m + size)
    x = rng.standard_normal((1, c, size, size), dtype=np.float32)
    weight = rng.standard_normal((m, c // g, taps, taps), dtype=np.float32)
    bias = rng.standard_normal(m, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for form in (False, True):
            path, out = onnx_model(layer, weight, bias, folder, form)
            sessions[form] = Session(path, threads=threads)
    feeds = {False: {"x": x}, True: {"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1))}}
    last = torch.channels_last
    tx, tw, tb = (torch.from_numpy(t) for t in (x, weight, bias))
    lx, lw = tx.contiguous(memory_format=last), tw.contiguous(memory_format=last)
    conv, packed = torch.nn.functional.conv2d, torch.ops.mkldnn._convolution_pointwise
    how = [taps // 2] * 2, [stride] * 2, [1, 1], g
    prepared = torch._C._nn.mkldnn_reorder_conv2d_weight(tw.to_mkldnn(), *how, list(tx.shape))
    runs = {
        "opwright": lambda: sessions[False].run(None, feeds[False])[0],
        "opwright, channels last": lambda: sessions[True].run(None, feeds[True])[0].transpose(0, 3, 1, 2),
        "contiguous": lambda: conv(tx, tw, tb, stride, taps // 2, 1, g),
        "channels last": lambda: conv(lx, lw, tb, stride, taps // 2, 1, g),
        "packed": lambda: packed(tx, prepared, tb, *how, "none", [], ""),
        "packed, channels last": lambda: packed(lx, prepared, tb, *how, "none", [], ""),
    }
    with torch.inference_mode():
        want = conv(tx.double(), tw.double(), tb.double(), stride, taps // 2, 1, g).numpy()
        for name, run in runs.items():
            difference = float(np.max(np.abs(np.asarray(run()) - want)) / np.max(np.abs(want)))
            assert difference < 1e-5, f"{name_of(layer)}, {name}: wrong by {difference}"
        best = {name: math.inf for name in runs}
        end, rounds = time.perf_counter() + seconds, 0
        while rounds < 4 or time.perf_counter() < end:
            for name, run in runs.items():
                for _ in range(3):
                    start = clock()
                    run()
                    best[name] = min(best[name], clock() - start)
            rounds += 1
    flops = 2.0 * m * (c // g) * taps * taps * out * out
    theirs = min((name for name in runs if not name.startswith("opwright")), key=best.get)
    ours = min(best["opwright"], best["opwright, channels last"])
    return {
        "layer": name_of(layer),
        "gflops": flops / ours * 1e-9,
        "gflops_contiguous": flops / best["opwright"] * 1e-9,
        "gflops_channels_last": flops / best["opwright, channels last"] * 1e-9,
        "torch_gflops": flops / best[theirs] * 1e-9,
        "torch_format": theirs,
        "ratio": best[theirs] / ours,
        "ms": ours * 1e3,
        "rounds": rounds,
    }


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.5, help="measuring time a layer")
    parser.add_argument("--only", default="", help="layers whose network or name holds this text")
    args = parser.parse_args()
    clock = time.thread_time if args.processor_time else time.perf_counter
    if args.processor_time and args.threads != 1:
        sys.exit("--processor-time counts the calling thread alone: use it with one thread.")
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    try:
        import torch
    except ImportError:
        sys.exit("torch is not installed. Run scripts/setup.sh --bench first.")
    from opwright_session import doctor

    peak = max(m["flops_f32"] for m in doctor()["measured"] if m["threads"] == args.threads) * 1e-9
    results = {}
    if not args.json:
        print(f"f32, {args.threads} thread(s), GFLOP/s; peak {peak:.0f}; torch {torch.__version__}")
    for network, layers in NETWORKS.items():
        rows = []
        for layer in layers:
            if args.only not in network and args.only not in name_of(layer):
                continue
            rows.append(r := measure(layer, args.threads, args.seconds, clock))
            if not args.json:
                print(
                    f"  {network:12} {r['layer']:32} {r['gflops_contiguous']:6.1f}, channels last"
                    f" {r['gflops_channels_last']:6.1f} ({100 * r['gflops'] / peak:3.0f} % of peak)"
                    f"  torch {r['torch_gflops']:7.1f} ({r['torch_format']})  ratio {r['ratio']:.2f}",
                    flush=True,
                )
        if rows:
            results[network] = rows
            if not args.json:
                print(f"  {network:12} geometric mean {mean([r['ratio'] for r in rows]):.2f}", flush=True)
    ratios = [r["ratio"] for rows in results.values() for r in rows]
    if args.json:
        print(json.dumps({"threads": args.threads, "peak_gflops": peak, "torch": torch.__version__, "networks": results,
                          "geometric_mean": mean(ratios) if ratios else None}, indent=1))  # fmt: skip
    elif ratios:
        print(f"geometric mean of {len(ratios)} layers: {mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
