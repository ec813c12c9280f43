"""Times emitted Triton functions beside torch and torch.compile: python triton_bench.py FOLDER OUT.json

FOLDER holds the files that bench/gpu/triton_emit.sh wrote. All figures are of one run: medians over rotating
buffers of at least twice the L2 cache (so that nothing is found there by luck), launches in a CUDA graph (so that
Python's share does not show), random data. Every result is compared with torch's before it is timed, and the copy
bandwidth and cuBLAS's bare product of the same run stand beside.
"""

import importlib.util
import json
import statistics
import sys
from pathlib import Path

import torch

L2 = 60 << 20
LAUNCHES = 20


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, Path(folder) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seconds(call, sets, repeats=9):
    """Median seconds of one call; `sets` are argument tuples to go round."""
    for arguments in sets[:2]:
        call(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(LAUNCHES):
            call(*sets[i % len(sets)])
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / LAUNCHES)
    return statistics.median(times)


def rotating(make):
    first = make()
    size = sum(t.numel() * t.element_size() for t in first)
    return [first] + [make() for _ in range(min(max(2 * L2 // max(size, 1), 1), 15))]


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.results = []

    def run(
        self, case, name, make, torch_function, bytes_moved=0, flops=0, tolerance=2e-2, bare=None
    ):
        row = {"case": case, "file": f"{name}.py"}
        try:
            module = load(self.folder, name)
            ours = getattr(module, name)
            sets = rotating(make)
            got, wanted = ours(*sets[0]), torch_function(*sets[0])
            got = got[0] if isinstance(got, tuple) else got
            torch.testing.assert_close(got.float(), wanted.float(), rtol=tolerance, atol=tolerance)
            row["triton"] = seconds(ours, sets)
            row["eager"] = seconds(torch_function, sets)
            try:
                row["inductor"] = seconds(torch.compile(torch_function, dynamic=False), sets)
            except Exception as error:
                row["inductor_error"] = str(error)[:200]
            if bare:
                row["cublas"] = seconds(bare, sets)
                row["of_cublas"] = row["cublas"] / row["triton"]
            if bytes_moved:
                row["bandwidth"] = bytes_moved / row["triton"]
                row["of_copy"] = row["bandwidth"] / self.copy
            if flops:
                row["flops"] = flops / row["triton"]
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:600]
        self.results.append(row)
        print(json.dumps(row), flush=True)


def main(folder, out):
    device = "cuda"
    torch.manual_seed(0)
    b = Bench(folder)
    x = torch.randn(1 << 28, device=device)
    y = torch.empty_like(x)
    # By a kernel: a copy in a CUDA graph goes to the copy engine, which is slower.
    b.copy = 2 * x.numel() * 4 / seconds(lambda: torch.neg(x, out=y), [()])
    del x, y
    print(f"copy: {b.copy / 1e12:.2f} TB/s", flush=True)

    for log2 in (20, 22, 24, 26):
        n = 1 << log2
        for dtype, tag, name in ((torch.float32, "f32", "chain"), (torch.bfloat16, "bf16", "chain_bf16")):
            make = lambda: tuple(torch.randn(n, device=device).to(dtype) for _ in range(3))  # noqa: E731
            b.run(
                f"relu(a + b) * c, {tag}, 2^{log2}",
                name,
                make,
                lambda a, b, c: torch.relu(a + b) * c,
                bytes_moved=4 * dtype.itemsize * n,
            )
    functional = torch.nn.functional
    for dtype, tag, tolerance in ((torch.float32, "f32", 1e-4), (torch.bfloat16, "bf16", 3e-2)):
        for rows, cols in (
            (32768, 256),
            (32768, 1024),
            (16384, 4096),
            (8192, 8192),
            (4096, 16384),
            (4096, 32768),
            (2048, 65536),
        ):
            size = rows * cols * (4 if dtype is torch.float32 else 2)
            one = lambda: (torch.randn(rows, cols, device=device).to(dtype),)  # noqa: E731
            b.run(
                f"softmax {rows}x{cols} {tag}",
                f"softmax_{tag}",
                one,
                lambda x: torch.softmax(x, 1),
                bytes_moved=2 * size,
                tolerance=tolerance,
            )
            weight = torch.randn(cols, device=device).to(dtype)
            bias = torch.randn(cols, device=device).to(dtype)
            three = lambda: (
                torch.randn(rows, cols, device=device).to(dtype),
                weight,
                bias,
            )  # noqa: E731
            b.run(
                f"layer norm {rows}x{cols} {tag}",
                f"layer_norm_{tag}",
                three,
                lambda x, w, c: functional.layer_norm(x, (x.shape[1],), w, c),
                bytes_moved=2 * size,
                tolerance=tolerance,
            )
            two = lambda: (torch.randn(rows, cols, device=device).to(dtype), weight)  # noqa: E731
            b.run(
                f"RMS norm {rows}x{cols} {tag}",
                f"rms_norm_{tag}",
                two,
                lambda x, w: functional.rms_norm(x, (x.shape[1],), w, 1e-5),
                bytes_moved=2 * size,
                tolerance=tolerance,
            )
    for m, n, k in (
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (2048, 4096, 1024),
        (1024, 1024, 1024),
        (512, 4096, 4096),
        (128, 4096, 4096),
        (16, 4096, 4096),
    ):
        slope = torch.randn(n, device=device).to(torch.bfloat16)
        make = lambda: (
            torch.randn(m, k, device=device).to(torch.bfloat16),  # noqa: E731
            torch.randn(n, k, device=device).to(torch.bfloat16),
            slope,
        )

        def prelu(x, w, a):
            z = x @ w.T
            return torch.where(z >= 0, z, a * z)

        b.run(
            f"matmul + PReLU {m}x{n}x{k} bf16",
            "matmul_prelu_bf16",
            make,
            prelu,
            flops=2 * m * n * k,
            tolerance=0.3,
            bare=lambda x, w, a: x @ w.T,
        )
    report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "copy": b.copy,
        "results": b.results,
    }
    Path(out).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:3])
