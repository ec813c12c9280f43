"""Writes docs/targets.md from what the command emits and measures: python tests/backend/write_targets.py [BUILD] [TARGET...]

Without targets the shares that the page has stand as they are, and only the sources shown are written anew; with
targets, `opwright verify library --target T` is run for each (minutes).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/targets.md"
SHARES = ROOT / "docs/targets.json"
RUNS = {
    "c": "any processor with a C compiler",
    "cuda": "NVIDIA GPUs from compute capability 8.0; without one, compiled and emulated in tests",
    "triton": "GPUs that Triton knows; without one, Triton's interpreter",
    "ascend": "Ascend 910B and 910C; without one, the functional simulator in ascend_sim/",
}
LANGUAGES = {"c": "c", "cuda": "cuda", "triton": "python", "ascend": "cpp"}

INTRO = """# Targets

<!-- Written by tests/backend/write_targets.py; do not edit. -->

One declaration, several targets. The CPU target turns it into machine code. The others write source text that people of
that community can read, change and use without Opwright:

| Target | Writes | Runs where |
| --- | --- | --- |
{targets}
`opwright emit OPERATOR --target NAME` prints the source, `-o DIR` writes it with what belongs to it: for cuda a project of
its own, with a launcher, CMake and a test that checks itself at edge sizes. `opwright verify` and `run` take
`--target NAME` where it can run, for operators and for whole ONNX models, and say "not run" where it can't; `--fallback`
lets the cpu run what a target has no form for. `opwright profile` takes `--target cuda` on a GPU. `opwright compare OPERATOR` sets them
side by side for one operator and one size.

## What each can do

Every operator of the library, over its examples, element types, sizes around tile edges and special values, against the
reference in 64-bit arithmetic. "Refused" has no form on the target; the reasons follow. A case that could not run is
counted as not run, never as passed.

{shares}
## The same operator on each

The tile program is the same; what a buffer, a loop over lanes and a load become is each target's own.

| Tile program | C | CUDA C++ | Triton | Ascend C |
| --- | --- | --- | --- | --- |
| a task of the grid | outermost loops | thread block | program id | AI core |
| a block | one element | registers of the block's threads | block value | local tensor in unified buffer |
| a row held whole | array on the heap | registers, then shared memory | block padded to a power of two | local tensor, while it fits |
| a row longer than that | the same | eight multiprocessors' registers, then read again for each fold | shared by programs that run at the same time, on Hopper; else walked in steps: two folds in one walk, a beginning that stays | walked in steps |
| fold along a row | loop | per thread, warp shuffle, shared memory | `tl.sum`, `tl.max` | `ReduceSum`, `ReduceMax`, with an index for argmax |
| rows read across | strides | tiles turned in shared memory | square blocks | `DataCopyPad` with a stride, `TransDataTo5HD` |
| contraction | three loops | `mma.sync` or multiply-adds on register tiles | `tl.dot` | `Matmul` object |
| ragged tail | loop bound | predicate | `mask=` | `DataCopyPad`, count of the instruction |
| the block's size | none | `PER`, threads | `BLOCK_...`, chosen by the host for each call | `tileLength`, counted by the host for each call |
| what it cannot say | speed | whose thread holds what must be written out | order and place of threads | anything element by element, but slowly |

A schedule by hand changes the block: `opwright explain OPERATOR --level schedule --json --target NAME` prints the default,
`opwright emit OPERATOR --target NAME --schedule FILE` takes a changed one, or says which limit it breaks.

With Ascend C go a launch, a test that runs on the simulator (`opwright ascend-sim NAME_test.cpp`) and on a device, and a
binding for PyTorch. exp, log, sqrt and division are instructions there, tanh, erf, expm1 and log1p are sequences of
instructions; sine, pow and the like have none and are evaluated by the scalar unit, element by element.
Tensors whose rows lie across the tiles, as in a transpose, are read along their rows, 128 bytes of each, and turned in the
unified buffer (`TransDataTo5HD`), for elements of 16 and 32 bits. argmax and argmin of floats along the lanes are
`ReduceMax` and `ReduceMin` with an index: the first of equals is theirs by the manual, what they make of NaN and -0 is not
said, so that they are given neither. Convolutions run on the vector units.
"""

OUTRO = """
## Adding a target

A target is one folder and one line. `src/target/target.h` says what it offers: its source for a Program, its schedule and
tile program for `explain`, whether it can run here, and a kernel that runs. `src/target/c/` is the shortest one: C99, a
point at a time.

1. Write a folder under `src/target/`: a class derived from `Target`. A block language starts from `schedule::form_block_kernel`,
   `schedule::default_block_schedule` and `tile::apply_blocks`, and prints statements in order; a language of the C family
   takes names, expressions and helper functions from `src/emit/`.
2. Add its line to `src/target/registry.cpp`. `emit`, `explain`, `run`, `verify` and `compare` know it from
   then on, `run` and `verify` also for whole models. One whose kernels run on a processor with memory of its own offers
   that in `device()` (`src/target/device.h`), and `profile` takes it too.
3. Add a test like `tests/backend/operators_c_test.cpp`, and run this page's script for its share.

A target sees neither another target nor the language. What it has no form for it refuses with a reason; it never writes
something else.
"""

SHOWN = [
    (
        ["examples/matmul_prelu.op"],
        "A linear layer with PReLU",
        """The tile program says: a task computes a block of `z`, walks along `k` with two factors' blocks, and finishes with the
epilogue on the block it holds. So what product and sum leave on the chip is never written to memory and read again. How
each target spells that:

- **C** has no blocks: a point at a time, `sum` is the block. It is the one to compare the others with.
- **CUDA** has no block value either, so the block is divided by hand: 256 threads keep `PER x PER` sums each in
  registers. Both factors' slices go through shared memory, because 16 threads read each of their elements; the next slice
  is loaded into registers (`a_next`) before the present one is used, so that memory and arithmetic overlap. For 16-bit
  factors the same place is taken by `mma.sync`, the tensor cores' instruction.
- **Triton** has block values: `tl.dot` takes two, and the compiler divides them among threads, chooses shared memory and
  pipelines the loads (`num_stages`). What is left to say is which block (`tl.swizzle2d`, so that neighbours share what they
  read in L2), what stands beyond the edges (`mask=`, `other=0.0`, which adds nothing), and `input_precision="ieee"`, since
  by default float32 is cut to tf32.
- **Ascend C** has a processor for products beside the vector units. The `Matmul` object drives it by a tiling that the host
  fills in; it writes to global memory, and the vector cores of the same kernel take it from there for the epilogue.""",
    ),
    (
        ["softmax"],
        "Softmax",
        """The tile program holds a row: load it, fold it to its maximum, map `exp(x - max)`, fold that to the sum, map the quotient.
A second tile program serves rows that are too long: with loops, which read the row once for each fold and once for the result.
Maximum and sum are a pair of which one walk can take both (`math/rescale.h`), as sum and squared deviations of a layer norm are:
with `"online": true` in a schedule, which is Triton's default, the row is read twice. (`opwright explain softmax --level tile --target NAME` prints it.)

- **C** keeps the row's exponentials in an array on the heap, so that `exp` is evaluated once.
- **CUDA**: the threads of a block hold the row in registers; a fold is each thread's own part, then `__shfl_xor_sync` within
  a warp, then shared memory between warps. Rows that one multiprocessor does not hold, and from 256 KB on those that are
  multiplied by a scale or a bias, are shared by a cluster of eight blocks (compute capability 9.0), which hand each other
  their parts of a fold: the columns of a block are the same for every row, so that their scale and bias stay in its L1 cache.
- **Triton**: the row is one block, padded to a power of two. The padding is loaded as `-inf`: the maximum does not see it,
  and `exp(-inf - max)` is 0, so that the sum needs no mask. `tl.max` drops NaN, so the fold is written as `tl.reduce` with
  a maximum that does not. `_exp` and `_share` are there for the last bits and for speed: why is said beside them. Long rows
  are walked to and fro, so that each walk begins with what the last one left in the caches; `eviction_policy` says whether
  another walk follows. The first walk keeps, for every 16 bytes of a block, a maximum and the sum that goes with it
  (`_add_exponentials`), so that nothing waits for other threads before the row's end.
- **Ascend C**: the row is a tensor in the unified buffer, brought there by `DataCopyPad` (any length, no byte beyond). Queues
  (`inQueueX`, `outQueueY`) pass it from the copy engine to the vector unit and back; two buffers each let the next row
  arrive meanwhile. `ReduceMax` and `ReduceSum` fold it, and the scalar unit fetches the result, behind a flag (`Await`)
  since no queue orders the two; a row divided by its sum wants that sum in every lane (`Duplicate`). What all rows read, as a
  norm's scale, is fetched once.""",
    ),
    (
        ["sobel"],
        "Sobel",
        """A stencil: the table of weights is written out into the expression, and the nine loads stand beside each other. They differ
in how an index beyond the edge is folded back (`outside mirror`):

- **C** and **CUDA** call a function on every index: cheap beside the load, and most threads take the same way.
- **Triton** computes all lanes' indices as a block (`_mirror`, on `tl.where`): there are no branches in a block.
- **Ascend C** moves whole tiles: each of the nine neighbours is one burst (`LoadWindow`), shifted in global memory, where any
  byte may begin a copy; operands in the unified buffer begin at multiples of 32 bytes. What lies beyond a row's ends no copy
  folds back: the scalar unit fetches that element or two (`MirrorEdges`).""",
    ),
]


def opwright(*arguments):
    return subprocess.run([BUILD / "opwright", *arguments], capture_output=True, text=True, cwd=ROOT)


def targets():
    text = opwright("emit", "--help").stdout
    names = re.search(r"whose language:\s+([\w,\s]+?)\s*(?:-o|--|\n\s*-)", text).group(1)
    return [n.strip() for n in names.split(",")]


def measure(target):
    r = opwright("verify", "library", "--target", target, "--json")
    if not r.stdout:
        sys.exit(r.stderr)
    answer = json.loads(r.stdout)
    if "error" in answer:
        return {"not run": answer["error"]["message"]}
    operators = answer["operators"]
    reasons = {}
    for o in operators:
        if o["refused"] and not o["cases"]:
            why = next(iter(o["reasons"]))
            reasons.setdefault(why, []).append(o["name"])
    return {
        "operators": len(operators),
        "pass": sum(1 for o in operators if o["cases"] and not o["failed"]),
        "fail": [o["name"] for o in operators if o["failed"]],
        "refused": sum(1 for o in operators if o["refused"] and not o["cases"]),
        "cases": sum(o["cases"] for o in operators),
        "not_run": sum(o["not_run"] for o in operators),
        "reasons": reasons,
    }


def shares_text(shares):
    """A target that this machine runs has counts; for others the file says what was measured where."""
    out = "| Target | What was run | Result |\n|---|---|---|\n"
    reasons = ""
    for name, s in shares.items():
        if "measured" in s:
            out += f"| {name} | {s['measured']} | {s['result']} |\n"
            continue
        if "not run" in s:
            out += f"| {name} | not run | {s['not run']} |\n"
            continue
        share = 100 * s["pass"] / s["operators"]
        out += (
            f"| {name} | `opwright verify library --target {name}`: {s['cases']:,} cases |"
            f" {s['pass']} of {s['operators']} operators pass ({share:.0f} %), {len(s['fail'])} fail,"
            f" {s['refused']} are refused; {s['not_run']} programs not run |\n"
        )
        if s["fail"]:
            reasons += f"\nFailing on {name}: {', '.join(s['fail'])}.\n"
        for why, names in sorted(s["reasons"].items(), key=lambda x: -len(x[1])):
            reasons += f"\n- {name}: {why.removeprefix('refused: ')} ({', '.join(names)})"
    return out + reasons + "\n\n"


def main():
    shares = json.loads(SHARES.read_text()) if SHARES.exists() else {}
    names = targets()
    for t in MEASURED:
        shares[t] = measure(t)
        SHARES.write_text(json.dumps(shares, indent=1) + "\n")
    about = json.loads(opwright("compare", "relu", "--cases", "1", "--json").stdout)["targets"]
    rows = ""
    for t in about:
        if t["target"] in names:
            rows += f"| `{t['target']}` | {t['about']} | {RUNS.get(t['target'], '')} |\n"
    text = INTRO.format(targets=rows, shares=shares_text(shares))
    for arguments, title, note in SHOWN:
        text += f"\n### {title}\n\n{note}\n"
        for n in names:
            r = opwright("emit", *arguments, "--target", n)
            source = r.stdout.rstrip() if r.returncode == 0 else r.stderr.strip()
            text += f"\n<details><summary>{n}: {len(source.splitlines())} lines</summary>\n\n"
            text += f"```{LANGUAGES.get(n, '')}\n{source}\n```\n\n</details>\n"
    PAGE.write_text(text + OUTRO)


arguments = sys.argv[1:]
BUILD = Path(arguments[0]).resolve() if arguments and Path(arguments[0]).is_dir() else ROOT / "build"
MEASURED = [a for a in arguments if not Path(a).is_dir()]
if __name__ == "__main__":
    main()
