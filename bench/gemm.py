#!/usr/bin/env python3
"""Matrix products: Opwright against torch's (MKL, oneDNN) and, in f32, the OpenBLAS that NumPy brings.

    .venv/bin/python bench/gemm.py [--dtype f32|bf16|int8] [--json] [--threads N] [--processor-time] [--seconds S] [--openblas KERNEL] [SIZE...]

SIZE is N or MxNxK; without one, squares from 64 to 2048 and skinny shapes. Needs torch: scripts/setup.sh --bench. Candidates
take turns, on several threads of some milliseconds each; each figure is that of the least of many runs, with the median
beside it. Opwright is called through its C interface from Python, some microseconds, and makes its result anew each time;
bench_kernels measures without. bf16 products are bf16 matrices, added up in f32, against torch.mm; int8 ones i8 matrices
whose product is i32, against torch._int_mm. The peak of fused multiply-adds in f32 is measured in the same run.
--processor-time takes the calling thread's time in place of the clock's, for one thread on a busy machine. Values are seeded
random numbers.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

FLOATS = "op mm(x: T[m,k], w: T[k,n]) -> y: T[m,n] where T in float:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n"
BYTES = "op mm(x: i8[m,k], w: i8[k,n]) -> y: i32[m,n]:\n    y[m,n] = sum[k](cast(x[m,k], i32) * cast(w[k,n], i32))\n"


SQUARES = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
SKINNY = ["4x1024x1024", "16x1024x1024", "48x2048x512", "1024x16x1024", "1024x64x512", "1024x1024x16", "512x512x64",
          "64x64x4096", "197x768x768"]  # fmt: skip


def shape_of(size):
    parts = [int(x) for x in str(size).split("x")]
    return tuple(parts * 3) if len(parts) == 1 else tuple(parts)


def candidates(dtype, m, n, k, threads):
    import ml_dtypes
    import numpy as np
    import torch
    import opwright_session as session
    from prepared import PreparedCall

    torch.set_num_threads(threads)
    rng = np.random.default_rng(n)
    shapes = (m, k), (k, n)
    if dtype == "int8":
        x, w = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in shapes)
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        theirs = {"torch": lambda: torch._int_mm(tx, tw)}
    elif dtype == "bf16":
        x, w = (rng.standard_normal(shape, dtype=np.float32).astype(ml_dtypes.bfloat16) for shape in shapes)
        tx, tw = (torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) for a in (x, w))
        tout = torch.empty(m, n, dtype=torch.bfloat16)
        theirs = {"torch": lambda: torch.mm(tx, tw, out=tout)}
    else:
        x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        out, tout = np.empty((m, n), np.float32), torch.empty(m, n)
        theirs = {"torch": lambda: torch.mm(tx, tw, out=tout), "numpy": lambda: np.matmul(x, w, out=out)}
    ours = session.Operator(session.Library(BYTES if dtype == "int8" else FLOATS), "mm", threads=threads)
    want = x.astype(np.float64) @ w.astype(np.float64)
    difference = float(np.max(np.abs(ours(x, w)[0].astype(np.float64) - want)) / np.max(np.abs(want)))
    assert difference <= {"f32": 1e-5, "bf16": 4e-3, "int8": 0}[dtype], f"{m} x {n} x {k}: wrong by {difference}"
    return {"opwright": PreparedCall(session, ours, [x, w])} | theirs


def measure(dtype, m, n, k, threads, seconds, clock):
    runs = candidates(dtype, m, n, k, threads)
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    end = time.perf_counter() + seconds
    while len(times["torch"]) < 5 or time.perf_counter() < end:
        for name, run in runs.items():
            for _ in range(turn(threads, times[name])):
                start = clock()
                run()
                times[name].append(clock() - start)
    gflops = 2e-9 * m * n * k
    least = {name: min(t) for name, t in times.items()}
    return {
        "m": m,
        "n": n,
        "k": k,
        "gflops": {name: gflops / t for name, t in least.items()},
        "median_gflops": {name: gflops / statistics.median(t) for name, t in times.items()},
        "of_the_faster": min(t for name, t in least.items() if name != "opwright") / least["opwright"],
        "rounds": len(times["torch"]),
    }


def turn(threads, times):
    """Runs in a row. Threads of each library spin for a while after a run, and would take processors from the next one's:
    with several threads a turn begins after a pause and takes some milliseconds."""
    if threads == 1:
        return 1
    time.sleep(0.1)
    return 5 if not times else max(5, int(0.01 / min(times)))


def peak(threads):
    from opwright_session import doctor

    return max(m["flops_f32"] for m in doctor()["measured"] if m["threads"] == threads) * 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=SQUARES + SKINNY)
    parser.add_argument("--dtype", choices=["f32", "bf16", "int8"], default="f32")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0, help="measuring time a size")
    parser.add_argument("--openblas", metavar="KERNEL", help="OpenBLAS's kernel: SkylakeX where there is AVX-512, else Haswell")
    args = parser.parse_args()
    if args.processor_time and args.threads != 1:
        sys.exit("--processor-time counts the calling thread alone: use it with one thread.")
    clock = time.thread_time if args.processor_time else time.perf_counter
    # Read when NumPy is first imported, so set before anything that does.
    assert "numpy" not in sys.modules, "NumPy is loaded: its OpenBLAS has chosen a kernel already"
    for name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
        del os.environ[name]  # what the machine is set to may be slower
    os.environ["OPENBLAS_CORETYPE"] = args.openblas or ("SkylakeX" if "avx512f" in Path("/proc/cpuinfo").read_text() else "Haswell")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    try:
        import torch
    except ImportError:
        sys.exit("torch is not installed. Run scripts/setup.sh --bench first.")
    ceiling = peak(args.threads)
    rows = [measure(args.dtype, *shape_of(size), args.threads, args.seconds, clock) for size in args.sizes]
    mean = math.exp(sum(math.log(r["of_the_faster"]) for r in rows) / len(rows))
    least = min(r["of_the_faster"] for r in rows)
    if args.json:
        print(json.dumps({"dtype": args.dtype, "threads": args.threads, "peak_gflops": ceiling, "torch": torch.__version__,
                          "rows": rows, "geometric_mean": mean, "least": least}, indent=1))  # fmt: skip
        return
    print(f"{args.dtype}, {args.threads} thread(s), GFLOP/s of the least run (of the median run); peak in f32 {ceiling:.0f};"
          f" torch {torch.__version__}")  # fmt: skip
    names = list(rows[0]["gflops"])
    print("       m x n x k" + "".join(f"{name:>18}" for name in names) + "   of peak   of the faster")
    for r in rows:
        cells = "".join(f"{r['gflops'][k]:10.1f} ({r['median_gflops'][k]:5.1f})" for k in names)
        of_peak = 100 * r["gflops"]["opwright"] / ceiling
        print(f"{r['m']:6}x{r['n']:4}x{r['k']:4}{cells}   {of_peak:5.0f} %   {r['of_the_faster']:8.2f}")
    print(f"of the faster: geometric mean {mean:.2f}, least {least:.2f}")


if __name__ == "__main__":
    main()
