#!/usr/bin/env python3
"""Matrix products, f32: Opwright against torch's mm and the OpenBLAS that NumPy brings.

    .venv/bin/python bench/gemm.py [--json] [--threads N] [--seconds S] [SIZE...]

Needs torch: scripts/setup.sh --bench. Candidates take turns; each figure is that of the least of many runs, with the
median beside it; those of Opwright include its Python call, some 30 us. The peak of fused multiply-adds is measured in the same run. Values are seeded random numbers.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

SOURCE = "op mm(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n"


def candidates(n, threads):
    import numpy as np
    import torch
    from opwright_session import Library, Operator

    torch.set_num_threads(threads)
    rng = np.random.default_rng(n)
    x, w = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    out, tout = np.empty((n, n), np.float32), torch.empty(n, n)
    ours = Operator(Library(SOURCE), "mm", threads=threads)
    want = x.astype(np.float64) @ w.astype(np.float64)
    difference = float(np.max(np.abs(ours(x, w)[0] - want)) / np.max(np.abs(want)))
    assert difference < 1e-5, f"n = {n}: wrong by {difference}"
    return {
        "opwright": lambda: ours(x, w),
        "torch": lambda: torch.mm(tx, tw, out=tout),
        "numpy": lambda: np.matmul(x, w, out=out),
    }


def measure(n, threads, seconds):
    runs = candidates(n, threads)
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    end = time.perf_counter() + seconds
    while len(times["torch"]) < 5 or time.perf_counter() < end:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    gflops = 2e-9 * n**3
    return {
        "n": n,
        "gflops": {name: gflops / min(t) for name, t in times.items()},
        "median_gflops": {name: gflops / statistics.median(t) for name, t in times.items()},
        "rounds": len(times["torch"]),
    }


def peak(threads):
    from opwright_session import doctor

    return max(m["flops_f32"] for m in doctor()["measured"] if m["threads"] == threads) * 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[256, 512, 768, 1024, 1536, 2048])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="measuring time a size")
    args = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    try:
        import torch
    except ImportError:
        sys.exit("torch is not installed. Run scripts/setup.sh --bench first.")
    ceiling = peak(args.threads)
    rows = [measure(n, args.threads, args.seconds) for n in args.sizes]
    if args.json:
        print(json.dumps({"threads": args.threads, "peak_gflops": ceiling, "torch": torch.__version__, "rows": rows}, indent=1))
        return
    print(f"f32, {args.threads} thread(s), GFLOP/s of the least run (of the median run); peak {ceiling:.0f}; torch {torch.__version__}")
    print("     n          Opwright             torch             NumPy   of peak   of torch")
    for r in rows:
        cells = "".join(f"{r['gflops'][k]:10.1f} ({r['median_gflops'][k]:5.1f})" for k in r["gflops"])
        ours = r["gflops"]["opwright"]
        print(f"{r['n']:6}{cells}   {100 * ours / ceiling:5.0f} %   {ours / r['gflops']['torch']:8.2f}")


if __name__ == "__main__":
    main()
