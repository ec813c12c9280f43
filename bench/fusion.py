#!/usr/bin/env python3
"""Whole models with fusion and without: same inputs, same threads, interleaved, minima of many runs.

    .venv/bin/python bench/fusion.py [--json] [--threads N] [--seconds S] [NAME...]

NAME is one of the models of bench/models.py; all of them without a name. Ratio = time without fusion / time with it: below
1 fusion would make a model slower. The largest difference of the results is shown beside it.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]


def measure(name, path, feed, threads, seconds):
    from opwright_session import Session

    sessions = [Session(str(path), threads=threads, fuse=fuse) for fuse in (1, 0)]
    inputs = {name or sessions[0].inputs[0].name: array for name, array in feed.items()}  # "": the only input
    results = [session.run(None, inputs) for session in sessions]
    difference = max(
        float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0)) for a, b in zip(*results)
    )
    best, end, rounds = [float("inf")] * 2, time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        for i, session in enumerate(sessions):
            for _ in range(3):
                start = time.perf_counter()
                session.run(None, inputs)
                best[i] = min(best[i], time.perf_counter() - start)
        rounds += 1
    return {
        "name": name,
        "threads": threads,
        "fused_ms": best[0] * 1e3,
        "unfused_ms": best[1] * 1e3,
        "speed_ratio": best[1] / best[0],
        "rounds": rounds,
        "max_abs_difference": difference,
    }


def main():
    from models import cases

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time a model")
    args = parser.parse_args()
    known = [case[0] for case in cases()]
    for name in args.names:
        if name not in known:
            parser.error(f"no model is called {name!r}; there are {', '.join(known)}")
    rows = []
    if not args.json:
        print(f"Fusion on and off, {args.threads} thread(s); ratio = time off / time on (above 1: fusion is faster)")
    for name, path_of, feed in cases():
        if args.names and name not in args.names:
            continue
        row = measure(name, path_of(), feed, args.threads, args.seconds)
        rows.append(row)
        if not args.json:
            print(
                f"  {name:<12} on {row['fused_ms']:9.2f} ms   off {row['unfused_ms']:9.2f} ms   "
                f"ratio {row['speed_ratio']:.2f}   difference {row['max_abs_difference']:.1e}"
            )
    if args.json:
        print(json.dumps({"threads": args.threads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
