"""Emitted Triton files, kept word for word: a change of the emitter shows what it does to them.

OPWRIGHT_UPDATE_GOLDEN=1 writes the files instead of comparing.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "tests" / "golden" / "triton"
OPERATORS = [
    "examples/matmul_prelu.op",
    "softmax",
    "layer_norm",
    "matmul",
    "conv",
    "sobel",
    "gather",
    "scatter_elements",
    "arg_max",
    "max_pool",
    "gelu_tanh",
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_source_is_as_kept(operator):
    command = [ROOT / "build" / "opwright", "emit", operator, "--target", "triton"]
    emitted = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    kept = KEPT / f"{Path(operator).stem}.py"
    if os.environ.get("OPWRIGHT_UPDATE_GOLDEN"):
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(emitted)
        pytest.skip(f"written: {kept.relative_to(ROOT)}")
    assert emitted == kept.read_text(), "OPWRIGHT_UPDATE_GOLDEN=1 writes what is emitted now"
    compile(emitted, str(kept), "exec")
