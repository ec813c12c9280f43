#!/usr/bin/env python3
"""Derived backward passes against PyTorch's own, on the CPU: minima of many runs, interleaved.

    python bench/gradients.py [--threads N] [--rounds R] [--seconds S] [NAME...]

Needs PyTorch (requirements-bench.txt). NAME is one of the cases below; all of them without a name. The gradient is what
`opwright grad --save` prints of a declaration whose window is a number, as a model's is, and whose other sizes are open: like PyTorch's, it is given what its forward pass saves.
PyTorch's is torch.autograd.grad of the same operator, its forward pass not counted. glibc is told to keep freed memory:
otherwise it may give every gradient back to the system, whose page faults then double PyTorch's time, or not, as the heap
happens to lie (Opwright keeps its own). `of floor` is the share that the
machine's own floor (bytes over copy bandwidth or operations over peak, measured on this machine) has in our time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KEEP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
if __name__ == "__main__" and not KEEP.keys() <= os.environ.keys():
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP})

import torch

F = torch.nn.functional
ROOT = Path(__file__).resolve().parent.parent
IMAGE, ROWS = (4, 64, 56, 56), (4096, 1024)


def case(header, call, parameters, function):
    """A declaration that makes one call of the library, the shapes to run it at, and PyTorch's operator."""
    sizes = ", ".join(f"{name} = f32[{','.join(map(str, shape))}]" for name, shape in parameters.items())
    return f"op c({header} where T in float:\n    {call}\n    example {sizes}\n", list(parameters.values()), function


def conv(kernel, stride=1):
    w = (64, 64, kernel, kernel)
    return case(f"x[n, i, h, v], w[o, i, {kernel}, {kernel}]) -> y[n, o, p, q]", f"y = conv(x, w; stride = {stride}, pad_begin = {kernel // 2}, pad_end = {kernel // 2})",
                {"x": IMAGE, "w": w}, lambda x, w: F.conv2d(x, w, stride=stride, padding=kernel // 2))


def pool(name, function, kernel, stride, pad, extra=""):
    return case("x[n, c, h, v]) -> y[n, c, p, q]", f"y = {name}(x; kernel = [{kernel}, {kernel}], stride = {stride}, pad_begin = {pad}, pad_end = {pad}{extra})",
                {"x": (8, 64, 56, 56)}, lambda x: function(x, kernel, stride, pad))


def map_of(name, function):
    return case("x[i]) -> y[i]", f"y = {name}(x)", {"x": (1 << 22,)}, function)


CASES = {
    "conv 1x1": conv(1),
    "conv 3x3": conv(3),
    "conv 3x3 stride 2": conv(3, 2),
    "conv 3x3 depthwise": case("x[n, c, h, v], w[c, 3, 3]) -> y[n, c, p, q]", "y = conv_depthwise(x, w; pad_begin = 1, pad_end = 1)", {"x": IMAGE, "w": (64, 3, 3)},
                               lambda x, w: F.conv2d(x, w.unsqueeze(1), padding=1, groups=64)),
    "max pool 2x2": pool("max_pool", F.max_pool2d, 2, 2, 0),
    "max pool 3x3 stride 2": pool("max_pool", F.max_pool2d, 3, 2, 1),
    "average pool 2x2": pool("average_pool", F.avg_pool2d, 2, 2, 0),
    "average pool 3x3": pool("average_pool", F.avg_pool2d, 3, 1, 1, ", include_pad = true"),
    "softmax": case("x[m, n]) -> y[m, n]", "y = softmax(x; axes = [1])", {"x": ROWS}, lambda x: torch.softmax(x, 1)),
    "log softmax": case("x[m, n]) -> y[m, n]", "y = log_softmax(x; axes = [1])", {"x": ROWS}, lambda x: torch.log_softmax(x, 1)),
    "layer norm": case("x[m, n], scale[n], bias[n]) -> y[m, n]", "y, _, _ = layer_norm(x, scale, bias; axis = 1)", {"x": ROWS, "scale": (1024,), "bias": (1024,)},
                       lambda x, s, b: F.layer_norm(x, (1024,), s, b)),
    "RMS norm": case("x[m, n], scale[n]) -> y[m, n]", "y = rms_norm(x, scale; axis = 1)", {"x": ROWS, "scale": (1024,)}, lambda x, s: F.rms_norm(x, (1024,), s, 1e-5)),
    "batch norm": case("x[n, c, h, v], scale[c], bias[c]) -> y[n, c, h, v]", "zero[c] = 0 * scale[c]\n    y, _, _ = batch_norm_training(x, scale, bias, zero, zero)",
                       {"x": (8, 64, 56, 56), "scale": (64,), "bias": (64,)}, lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True)),
    "GELU": map_of("gelu", F.gelu),
    "GELU by tanh": map_of("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    "SiLU": map_of("silu", F.silu),
    "softplus": map_of("softplus", F.softplus),
}


class Ours:
    """The gradient of a declaration, run by `opwright profile`."""

    def __init__(self, opwright, text, folder, threads):
        source, self.gradient = folder / "c.op", folder / "g.op"
        source.write_text(text)
        printed = subprocess.run([opwright, "grad", source, "--save"], check=True, capture_output=True, text=True).stdout
        self.gradient.write_text(printed)
        self.command = [opwright, "profile", self.gradient, "--op", "c_gradient", "--threads", str(threads), "--repeats", "10", "--json"]

    def measure(self):
        """Seconds of the fastest run, and of the machine's floor."""
        r = json.loads(subprocess.run(self.command, check=True, capture_output=True, text=True).stdout)
        return r["min_ms"] / 1e3, sum(max(o["floors_ms"].values()) for o in r["operators"]) / 1e3


class Theirs:
    def __init__(self, function, shapes):
        self.tensors = [torch.randn(s, requires_grad=True) for s in shapes]
        self.y = function(*self.tensors)
        self.dy = torch.randn_like(self.y)

    def measure(self, seconds):
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            torch.autograd.grad(self.y, self.tensors, self.dy, retain_graph=True)
            best = min(best, time.perf_counter() - start)
        return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="turns that each side has, alternating")
    parser.add_argument("--seconds", type=float, default=0.5, help="of one turn")
    parser.add_argument("--opwright", default=ROOT / "build/opwright")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    print(f"{'backward of':22} {'PyTorch ms':>11} {'Opwright ms':>12} {'ours / theirs':>14} {'of floor':>9}")
    for name in a.names or CASES:
        text, shapes, function = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = Ours(a.opwright, text, Path(folder), a.threads), Theirs(function, shapes)
            turns = [(theirs.measure(a.seconds), *ours.measure()) for _ in range(a.rounds)]
        them, us, floor = (min(t[i] for t in turns) for i in range(3))
        print(f"{name:22} {them * 1e3:11.3f} {us * 1e3:12.3f} {us / them:14.2f} {floor / us:8.0%}", flush=True)


if __name__ == "__main__":
    main()
