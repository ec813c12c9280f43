"""Rows that are too long for a program to hold as 32-bit numbers, as emitted, against torch in float64.

    check_long_rows.py [FOLDER]       files emitted from bench/gpu/triton_ops.op; without it they are emitted here

Run by `./test triton`. Lengths around where one kernel gives way to the next: 16-bit rows that are held whole, that stay
packed, that are walked. Rows with NaN, infinities and one value alone among them. Runs on the GPU where there is one,
else under Triton's interpreter.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path.insert(0, str(ROOT / "src" / "target" / "triton" / "python"))
    import worker

    worker.correct_interpreter()
np.seterr(all="ignore")

OPERATORS = {
    "softmax": (0, lambda x: torch.softmax(x, 1)),
    "layer_norm": (2, lambda x, w, b: torch.nn.functional.layer_norm(x, (x.shape[1],), w, b)),
    "rms_norm": (1, lambda x, w: torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-5)),
}
LENGTHS = [16384, 16385, 30001, 32768, 32769, 50000, 65536, 65537]


def emitted(folder, name):
    if not (folder / f"{name}.py").exists():
        source = ROOT / "bench" / "gpu" / "triton_ops.op"
        command = [ROOT / "build" / "opwright", "emit", source, "--op", name, "--target", "triton"]
        subprocess.run([*command, "-o", folder], check=True, capture_output=True)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def rows_of(length, dtype):
    x = torch.randn(6, length)
    x[1] += 50
    x[2, length // 2] = float("nan")
    x[3, length - 1] = float("inf")
    x[4] = 1.5
    return x.to(dtype)


def main(folder):
    torch.manual_seed(0)
    cases = 0
    for dtype, suffix, tolerance in (
        (torch.bfloat16, "bf16", 2**-7),
        (torch.float32, "f32", 2e-5),
    ):
        for name, (vectors, wanted) in OPERATORS.items():
            function = emitted(folder, f"{name}_{suffix}")
            for length in LENGTHS:
                x = rows_of(length, dtype)
                more = [torch.randn(length).to(dtype) for _ in range(vectors)]
                got = function(x.to(DEVICE), *(t.to(DEVICE) for t in more))
                exact = wanted(x.double(), *(t.double() for t in more)).numpy()
                np.testing.assert_allclose(
                    got.cpu().double().numpy(),
                    exact,
                    rtol=tolerance,
                    atol=tolerance * (1e-4 if name == "softmax" else 1),
                    err_msg=f"{name} of {length} {suffix} elements",
                )
                cases += 1
    print(f"{cases} cases of long rows agree with torch")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
