"""Writes docs/onnx.md from what the command measures: python tests/onnx/write_table.py [BUILD]

Needs the Python package onnx 1.22.0, whose wheel carries the test data.
"""

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(onnx.__file__).parent / "backend/test/data"
FOLDERS = ["node", "simple", "pytorch-operator", "pytorch-converted", "light"]
VERDICTS = ["pass", "wrong", "crash", "unsupported", "timeout"]

INTRO = """# ONNX

<!-- Written by tests/onnx/write_table.py; do not edit. -->

`opwright run MODEL.onnx` imports models of opset 1 to 27 of ai.onnx (operators are read as their opset means them), and a
few operators of ai.onnx.ml and ai.onnx.preview. Functions that the model defines are inlined. Shape arithmetic is
evaluated symbolically, so that one import serves every size. `If` takes its branch where the condition is known, and
else computes both where they agree in shape; `Loop` and `Scan` of known length are unrolled, up to 1024 turns; sequences
of tensors exist while importing. A model whose form depends on the value of an input is imported for that value.

Element types: bool, the integers of 8 to 64 bits, f16, bf16, f32, f64. Not: strings, complex numbers, the floats of 8 and
4 bits, the integers of 4 and 2 bits; inputs and outputs that are sequences or optional values.

## ONNX's own test data

`opwright onnx-test` on the data of onnx {version}, every case in a process of its own. A case passes where every output
has the expected type and shape, integers are equal, and floats are within 1e-7 + 1e-3 * |expected| (the suite's own
tolerance) or within 2^-23 of the output's largest magnitude. An unsupported case is never a pass.

"""


def run(*arguments):
    r = subprocess.run(
        [BUILD / "opwright", *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if not r.stdout:
        sys.exit(r.stderr)
    return json.loads(r.stdout)


def operators(case, folder):
    path = DATA / folder / case
    model = onnx.load(path / "model.onnx" if path.is_dir() else path.with_name(path.name + ".onnx"))
    return {(n.domain + "." if n.domain not in ("", "ai.onnx") else "") + n.op_type for n in model.graph.node}


def main():
    reports = {f: run("onnx-test", str(DATA / f)) for f in FOLDERS}
    out = [INTRO.format(version=onnx.__version__)]
    out.append("| Folder | Cases | Pass | | " + " | ".join(v.capitalize() for v in VERDICTS[1:]) + " |\n")
    out.append("| --- " * 8 + "|\n")
    for f, r in reports.items():
        n = len(r["cases"])
        out.append(
            f"| {f} | {n} | {r['pass']} | {100 * r['pass'] / n:.1f} % | "
            + " | ".join(str(r[v]) for v in VERDICTS[1:])
            + " |\n"
        )

    out.append("\n## What does not pass, and why\n\n| Reason | Cases | For example |\n| --- | --- | --- |\n")
    groups = collections.defaultdict(list)
    for f, r in reports.items():
        for c in r["cases"]:
            if c["verdict"] != "pass":
                why = re.sub(r"The model cannot be imported: \d+ nodes? (is|are) not supported\. ", "", c["reason"])
                why = re.sub(r"\('[^)]*'\)|'[^']*'", "", why)
                why = re.sub(r"^\w+_\d+\.pb: ", "", re.sub(r"\s+([:,.])", r"\1", re.sub(r"\s+", " ", why))).strip()
                groups[("" if c["verdict"] == "unsupported" else c["verdict"] + ": ") + why].append(c["name"])
    for why, cases in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        out.append(f"| {why} | {len(cases)} | {cases[0]} |\n")

    passing = collections.Counter()
    refused = collections.Counter()
    for f, r in reports.items():
        for c in r["cases"]:
            (passing if c["verdict"] == "pass" else refused).update(operators(c["name"], f))
    supported = run("ops", "--onnx")
    out.append("\n## Operators\n\n| Operator | Cases that pass | Cases that do not |\n| --- | --- | --- |\n")
    for op in supported:
        out.append(f"| {op} | {passing[op]} | {refused[op] or ''} |\n")
    missing = sorted(op for op in refused if op not in supported)
    out.append("\nNot imported at all: " + ", ".join(missing) + ".\n")
    (ROOT / "docs/onnx.md").write_text("".join(out))


if __name__ == "__main__":
    BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    main()
