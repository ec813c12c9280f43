#!/usr/bin/env python3
"""Operators that memory bounds, f32: Opwright against PyTorch eager and Inductor's C++, with the copy of the same run.

    .venv/bin/python bench/memory.py [--json] [--threads N] [--seconds S] [--sizes N,N] [--no-inductor] [CASE...]

Needs torch: scripts/setup.sh --bench. CASE is part of a name below, or a group: chains, rows, layouts. All candidates are
called from Python with their arguments prepared, make a fresh output each time, and take turns; a figure is that of the
least of many samples, a sample so many calls that the clock's own cost does not count. With several threads a turn begins after
a pause and takes some milliseconds: each library's threads spin for a while after a call, on the others' processors. On one thread the clock is that
thread's own, which stands still while other processes have the processor. `of copy` is the rate of the bytes
that must move over that of torch's copy_ between tensors as large as the first input, on as many threads, in the same run.
Inductor compiles once a case, for any size; without a C++ compiler its column is left out, with a message.
"""

import argparse
import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

from prepared import PreparedCall

ROOT = Path(__file__).resolve().parent.parent
K, M = 1 << 10, 1 << 20
SIZES = [K, 4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M]
ROW_SIZES = [64 * K, M, 16 * M]
ROWS = [64, 256, 1000, 4096, 16384, 65536]


def flat(name, body, function, inputs=1):
    """A chain over n elements: inputs x0, x1, ... of one length."""
    names = [f"x{i}" for i in range(inputs)]
    source = f"op f({', '.join(f'{n}[i]' for n in names)}) -> y[i]:\n    y[i] = {body}\n"
    return {"name": name, "group": "chains", "source": source, "function": function,
            "shapes": lambda size, row: [(size,)] * inputs, "rows": [0], "bytes": lambda size, row: 4 * size * (inputs + 1)}


def by_row(name, call, function, parameters=0, group="rows", out=None, header=None):
    """An operator on [m, n] with `parameters` vectors of length n; `call` computes y from x, p0, p1."""
    names = "".join(f", p{i}[n]" for i in range(parameters))
    source = f"op f(x[m,n]{names}) -> {header or 'y[m,n]'}:\n    {call}\n"
    result = out or (lambda m, n: m * n)
    return {"name": name, "group": group, "source": source, "function": function,
            "shapes": lambda size, row: [(max(1, size // row), row)] + [(row,)] * parameters, "rows": ROWS,
            "bytes": lambda size, row: 4 * (max(1, size // row) * row + parameters * row + result(max(1, size // row), row))}


def cases(torch):
    F = torch.nn.functional
    return [
        flat("relu", "max(x0[i], 0)", lambda x: F.relu(x)),
        flat("relu(a*b + c)", "max(x0[i] * x1[i] + x2[i], 0)", lambda a, b, c: F.relu(a * b + c), 3),
        flat("silu + bias", "x0[i] / (1 + exp(-x0[i])) + x1[i]", lambda x, b: F.silu(x) + b, 2),
        flat("gelu", "0.5 * x0[i] * (1 + erf(x0[i] * 0.7071067811865476))", lambda x: F.gelu(x)),
        flat("gelu by tanh", "0.5 * x0[i] * (1 + tanh(0.7978845608028654 * (x0[i] + 0.044715 * x0[i] * x0[i] * x0[i])))",
             lambda x: F.gelu(x, approximate="tanh")),
        by_row("softmax", "y = softmax(x; axes = [1])", lambda x: torch.softmax(x, 1)),
        by_row("log softmax", "y = log_softmax(x; axes = [1])", lambda x: torch.log_softmax(x, 1)),
        by_row("layer norm", "y, _, _ = layer_norm(x, p0, p1; axis = 1)", lambda x, s, b: F.layer_norm(x, s.shape, s, b), 2),
        by_row("RMS norm", "y = rms_norm(x, p0; axis = 1)", lambda x, s: F.rms_norm(x, s.shape, s, 1e-5), 1),
        by_row("row sum", "y[m] = sum[n](x[m,n])", lambda x: x.sum(1), group="layouts", out=lambda m, n: m, header="y[m]"),
        by_row("column sum", "y[n] = sum[m](x[m,n])", lambda x: x.sum(0), group="layouts", out=lambda m, n: n, header="y[n]"),
        # A copy always: contiguous() of one row turned is a view.
        by_row("transpose", "y[n,m] = x[m,n]", lambda x: x.t().clone(memory_format=torch.contiguous_format), group="layouts",
               header="y[n,m]"),
    ]


def prepared(source, arrays, threads):
    import opwright_session as session

    return PreparedCall(session, session.Operator(session.Library(source), "f", threads=threads), arrays)


def inductor(torch, function, tensors):
    """The compiled function, or the reason why there is none."""
    try:
        compiled = torch.compile(function, dynamic=True)
        compiled(*tensors)
        return compiled, None
    except Exception as error:  # whatever the compiler chain throws
        return None, str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


CLOCK = time.perf_counter


def sample(run, calls):
    start = CLOCK()
    for _ in range(calls):
        run()
    return (CLOCK() - start) / calls


def measure(runs, seconds, threads):
    """Least seconds a call, by name; candidates take turns."""
    best, calls = {}, {}
    for name, run in runs.items():
        run()
        calls[name] = max(1, min(1000, int(50e-6 / max(1e-7, sample(run, 1)))))
        best[name] = math.inf
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < (5 if threads == 1 else 2) or (time.perf_counter() < end and rounds < 5000):
        for name, run in runs.items():
            if threads > 1:
                time.sleep(0.05)
            turn, taken = time.perf_counter() + (0 if threads == 1 else 0.02), 0
            while taken < (1 if threads == 1 else 3) or time.perf_counter() < turn:
                best[name] = min(best[name], sample(run, calls[name]))
                taken += 1
        rounds += 1
    return best


def size_name(n):
    return f"{n // M} M" if n >= M and n % M == 0 else f"{n // K} K" if n >= K and n % K == 0 else str(n)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one cell")
    parser.add_argument("--sizes", help="elements, separated by commas; the default depends on the group")
    parser.add_argument("--rows", help="lengths of rows, separated by commas")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(a.threads)
    sys.path.insert(0, str(ROOT / "python"))
    import numpy as np
    import torch

    global CLOCK
    CLOCK = time.thread_time if a.threads == 1 else time.perf_counter
    warnings.filterwarnings("ignore")
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    rng = np.random.default_rng(1)
    table, cells, missing = [], [], None
    wanted = [c for c in cases(torch) if not a.cases or any(w == c["group"] or w in c["name"] for w in a.cases)]
    if not wanted:
        parser.error("no case has such a name; --help lists them")
    for c in wanted:
        compiled = None
        sizes = [int(s) for s in a.sizes.split(",")] if a.sizes else SIZES if c["rows"] == [0] else ROW_SIZES
        rows = c["rows"] if c["rows"] == [0] or not a.rows else [int(r) for r in a.rows.split(",")]
        for size in sizes:
            for row in rows:
                # In PyTorch's memory, which begins with a cache line; NumPy's begins anywhere in one.
                tensors = [torch.empty(s) for s in c["shapes"](size, row)]
                arrays = [t.numpy() for t in tensors]
                for x in arrays:
                    rng.standard_normal(x.shape, dtype=np.float32, out=x)
                ours = prepared(c["source"], arrays, a.threads)
                want = c["function"](*tensors).numpy()
                difference = float(np.max(np.abs(ours.values() - want)) / max(1e-30, float(np.max(np.abs(want)))))
                assert difference < 1e-4, f"{c['name']} of {size}: differs from PyTorch by {difference}"
                if compiled is None and not a.no_inductor and missing is None:
                    compiled, missing = inductor(torch, c["function"], tensors)
                    if missing:
                        print(f"Inductor is left out: {missing}", file=sys.stderr)
                to = torch.empty_like(tensors[0])
                runs = {"opwright": ours, "eager": lambda: c["function"](*tensors), "copy": lambda: to.copy_(tensors[0])}
                if compiled:
                    runs["inductor"] = lambda: compiled(*tensors)
                best = measure(runs, a.seconds, a.threads)
                ceiling = 8 * tensors[0].numel() / best["copy"]
                cell = {"case": c["name"], "elements": size, "row": row, "us": {k: v * 1e6 for k, v in best.items()},
                        "of_copy": c["bytes"](size, row) / best["opwright"] / ceiling, "copy_gb_per_s": ceiling * 1e-9,
                        "over_eager": best["eager"] / best["opwright"]}
                if compiled:
                    cell["over_inductor"] = best["inductor"] / best["opwright"]
                cells.append(cell)
                if not a.json:
                    if not table:
                        print(f"{'case':16} {'elements':>9} {'row':>6} {'us':>10} {'of copy':>8} {'x eager':>8} {'x inductor':>10}")
                    table.append(cell)
                    print(f"{c['name']:16} {size_name(size):>9} {row or '':>6} {best['opwright'] * 1e6:10.2f} {cell['of_copy']:8.0%} "
                          f"{cell['over_eager']:8.2f} {cell.get('over_inductor', math.nan):10.2f}", flush=True)
    if a.json:
        print(json.dumps({"threads": a.threads, "torch": torch.__version__, "cells": cells}, indent=1))
        return
    slowest = sorted(cells, key=lambda x: min(x["over_eager"], x.get("over_inductor", math.inf)))[:8]
    print("\nworst against the faster of the two:")
    for x in slowest:
        rows = f", rows of {x['row']}" if x["row"] else ""
        ratio = min(x["over_eager"], x.get("over_inductor", math.inf))
        print(f"  {x['case']}, {size_name(x['elements'])}{rows}: {ratio:.2f}")
    ratios = [min(x["over_eager"], x.get("over_inductor", math.inf)) for x in cells]
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, below 1 in {sum(r < 1 for r in ratios)} of {len(ratios)} cells")


if __name__ == "__main__":
    main()
