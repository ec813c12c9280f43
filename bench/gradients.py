#!/usr/bin/env python3
"""Derived backward passes against PyTorch's own, on the CPU: minima of many runs, interleaved.

    python bench/gradients.py [--threads N] [--seconds S] [NAME...]

Needs PyTorch (requirements-bench.txt). NAME is one of the cases below; all of them without a name. The gradient is what
`opwright grad` prints of a declaration with these sizes; PyTorch's is torch.autograd.grad of the same operator, its forward
pass not counted. What is computed again of the forward pass counts for us.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import torch

F = torch.nn.functional
ROOT = Path(__file__).resolve().parent.parent

CONV = """op c(x[n, i, h, v], w[o, i, k, l]) -> y[n, o, p, q] where T in float:
    p in 0..(h + {two} - k) // {stride} + 1
    q in 0..(v + {two} - l) // {stride} + 1
    y[n, o, p, q] = sum[i, k, l](x[n, i, {stride} * p + k - {pad}, {stride} * q + l - {pad}] outside zero * w[o, i, k, l])
    example x = f32[{x}], w = f32[{w}]
"""
POOL = """op c(x[n, c, h, v]) -> y[n, c, p, q] where T in float:
    p in 0..(h - 2) // 2 + 1
    q in 0..(v - 2) // 2 + 1
    y[n, c, p, q] = {body}
    example x = f32[{x}]
"""
SOFTMAX = """op c(x[m, n]) -> y[m, n] where T in float:
    y = softmax(x; axes = [1])
    example x = f32[{x}]
"""
NORM = """op c(x[m, n], scale[n], bias[n]) -> y[m, n] where T in float:
    y, _, _ = layer_norm(x, scale, bias; axis = 1)
    example x = f32[{x}], scale = f32[1024], bias = f32[1024]
"""


def conv(stride, x, w):
    text = CONV.format(two=2, pad=1, stride=stride, x=",".join(map(str, x)), w=",".join(map(str, w)))
    return text, [x, w], lambda a, b: F.conv2d(a, b, stride=stride, padding=1)


CASES = {
    "conv 3x3": conv(1, (4, 64, 56, 56), (64, 64, 3, 3)),
    "conv 3x3 stride 2": conv(2, (4, 64, 56, 56), (64, 64, 3, 3)),
    "max pool 2x2": (POOL.format(x="8,64,56,56", body="max[k in 0..2, l in 0..2](x[n, c, 2 * p + k, 2 * q + l])"), [(8, 64, 56, 56)], lambda x: F.max_pool2d(x, 2)),
    "average pool 2x2": (POOL.format(x="8,64,56,56", body="mean[k in 0..2, l in 0..2](x[n, c, 2 * p + k, 2 * q + l])"), [(8, 64, 56, 56)], lambda x: F.avg_pool2d(x, 2)),
    "softmax": (SOFTMAX.format(x="4096,1024"), [(4096, 1024)], lambda x: torch.softmax(x, 1)),
    "layer norm": (NORM.format(x="4096,1024"), [(4096, 1024), (1024,), (1024,)], lambda x, s, b: F.layer_norm(x, (1024,), s, b)),
}


def ours(opwright, text, folder, threads):
    """Seconds of the fastest run of the gradient, by `opwright profile`."""
    source, gradient = folder / "c.op", folder / "g.op"
    source.write_text(text)
    gradient.write_text(subprocess.run([opwright, "grad", source], check=True, capture_output=True, text=True).stdout)
    done = subprocess.run([opwright, "profile", gradient, "--threads", str(threads), "--repeats", "10", "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["min_ms"] / 1e3


def theirs(function, shapes, seconds):
    tensors = [torch.randn(s, requires_grad=True) for s in shapes]
    y = function(*tensors)
    dy = torch.randn_like(y)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.autograd.grad(y, tensors, dy, retain_graph=True)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of measuring, each side and case")
    parser.add_argument("--opwright", default=ROOT / "build/opwright")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    print(f"{'backward of':20} {'PyTorch ms':>11} {'Opwright ms':>12} {'ours / theirs':>14}")
    for name in a.names or CASES:
        text, shapes, function = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            both = [(theirs(function, shapes, a.seconds / 2), ours(a.opwright, text, Path(folder), a.threads)) for _ in range(2)]
        them, us = min(b[0] for b in both), min(b[1] for b in both)
        print(f"{name:20} {them * 1e3:11.3f} {us * 1e3:12.3f} {us / them:14.2f}", flush=True)


if __name__ == "__main__":
    main()
