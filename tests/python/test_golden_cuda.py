"""Emitted CUDA sources, kept word for word: a change of the emitter shows what it does to them.

OPWRIGHT_UPDATE_GOLDEN=1 writes the files instead of comparing.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "tests" / "golden" / "cuda"
OPERATORS = [
    ("examples/matmul_prelu.op", "f32"),
    ("matmul", "bf16"),
    ("softmax", "f32"),
    ("layer_norm", "bf16"),
    ("reduce_sum", "f32"),
    ("arg_max", "f32"),
    ("transpose", "f32"),
    ("gelu_tanh", "f32"),
    ("sobel", "f32"),
    ("scatter_elements", "f32"),
]


@pytest.mark.parametrize(("operator", "float_type"), OPERATORS)
def test_source_is_as_kept(operator, float_type):
    command = [ROOT / "build" / "opwright", "emit", operator, "--target", "cuda", "--type", float_type]
    emitted = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    kept = KEPT / f"{Path(operator).stem}.cu"
    if os.environ.get("OPWRIGHT_UPDATE_GOLDEN"):
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(emitted)
        pytest.skip(f"written: {kept.relative_to(ROOT)}")
    assert emitted == kept.read_text(), "OPWRIGHT_UPDATE_GOLDEN=1 writes what is emitted now"
