"""`opwright verify` as people call it: reports, findings, replay files, kernels of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "verify"
SOFTMAX = EXAMPLES / "softmax.op"
PYTHON = {**os.environ, "OPWRIGHT_PYTHON": sys.executable}


def against(opwright, function, *more, operator=SOFTMAX):
    return opwright("verify", operator, "--against", function, *more, env=PYTHON)


def test_the_report_of_an_operator(opwright):
    code, out, err = opwright("verify", "softmax")
    assert code == 0, out + err
    for label in ("cases passed", "verdicts", "error", "types", "sizes", "layouts", "contract"):
        assert label in out
    assert "sums and products accumulate in f32" in " ".join(out.split())
    assert all(len(line) <= 100 for line in out.splitlines())


def test_types_can_be_picked(opwright):
    code, out, _ = opwright("verify", "softmax", "--type", "f16", "--json")
    assert code == 0
    assert json.loads(out)["operators"][0]["types"] == ["f16"]


def test_a_right_kernel_passes_and_both_errors_are_told(opwright):
    code, out, err = against(opwright, f"{EXAMPLES}/softmax_numpy.py:softmax")
    assert code == 0, out + err
    assert "beside" in out and "cpu" in out


@pytest.mark.parametrize(
    ("function", "evidence"),
    [
        ("softmax_unmasked", "reads outside x"),
        ("softmax_dense", "the strides of x are not followed"),
        ("softmax_half", "arithmetic in f16"),
        ("softmax_in_place", "changed x, which it may only read"),
        ("softmax_overflows", "expected"),
    ],
)
def test_a_wrong_kernel_is_found_made_small_and_replayed(opwright, tmp_path, function, evidence):
    kernel = f"{EXAMPLES}/softmax_numpy.py:{function}"
    code, out, err = against(opwright, kernel)
    assert code == 1, out + err
    flat = " ".join(out.split())
    assert evidence in flat
    assert "smallest" in out and "values" in out
    assert f"opwright verify --replay row_softmax.replay.json --against {kernel}" in flat
    file = tmp_path / "row_softmax.replay.json"
    case = json.loads(file.read_text())
    assert case["opwright_replay"] == 1 and case["operator"] == "row_softmax"

    # A replay file loads nobody's code by itself.
    code, out, err = opwright("verify", "--replay", file, env=PYTHON)
    assert code == 1 and "may not load by itself" in err
    code, out, err = opwright("verify", "--replay", file, "--against", kernel, env=PYTHON)
    assert code == 1 and "FAILS" in out, out + err
    assert " ".join(case["found"].split()) in " ".join(out.split())
    # The right one passes the same case.
    code, out, err = opwright("verify", "--replay", file, "--against", f"{EXAMPLES}/softmax_numpy.py:softmax", env=PYTHON)
    assert code == 0 and "passes" in out, out + err


def test_files_are_not_overwritten(opwright, tmp_path):
    kernel = f"{EXAMPLES}/softmax_numpy.py:softmax_overflows"
    against(opwright, kernel)
    first = (tmp_path / "row_softmax.replay.json").read_text()
    against(opwright, kernel)
    assert (tmp_path / "row_softmax.replay.json").read_text() == first
    assert (tmp_path / "row_softmax.replay-2.json").exists()
    code, out, _ = against(opwright, kernel, "--save", "row_softmax.replay.json")
    assert code == 1 and "exists; give --save another name" in " ".join(out.split())
    against(opwright, kernel, "--save", "mine.json")
    assert (tmp_path / "mine.json").exists()


def test_what_is_missing_is_named(opwright, tmp_path):
    (tmp_path / "needs.py").write_text("import no_such_package\ndef f(x): return x\n")
    code, out, err = against(opwright, "needs.py:f")
    assert code == 1 and "'no_such_package'" in err and "-m pip install no_such_package" in err
    code, out, err = against(opwright, "nowhere.py:f")
    assert code == 1 and "There is no file 'nowhere.py'" in err
    code, out, err = against(opwright, f"{EXAMPLES}/softmax_numpy.py:soft")
    assert code == 1 and "it has:" in err and "softmax_unmasked" in err
    code, out, err = opwright("verify")
    assert code == 2 and "--replay" in err + out


def test_attributes_reach_the_function(opwright, tmp_path):
    (tmp_path / "scale.op").write_text(
        "op scale(x[n]; by = 2.0, mode = \"a\") -> y[n]:\n    \"x times a number.\"\n    y[n] = x[n] * by\n"
        '    example x = f32[5]; by = 3.0, mode = "b"\n'
    )
    (tmp_path / "scale.py").write_text(
        "def f(x, by, mode):\n    assert mode == 'b'\n    return x * x.dtype.type(by)\n"
    )
    code, out, err = against(opwright, "scale.py:f", operator="scale.op")
    assert code == 0, out + err


def c_library(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler")
    library = tmp_path / "row_softmax.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, EXAMPLES / "row_softmax.c", "-lm"], check=True)
    return library


@pytest.mark.parametrize(
    ("symbol", "code", "evidence"),
    [
        ("row_softmax", 0, "cases passed"),
        ("row_softmax_short", 1, "never written"),
        ("row_softmax_beyond", 1, "bytes behind of y"),
        ("row_softmax_crashes", 1, "signal 11"),
    ],
)
def test_kernels_in_c(opwright, tmp_path, symbol, code, evidence):
    got, out, err = against(opwright, f"{c_library(tmp_path)}:{symbol}")
    assert got == code, out + err
    assert evidence in " ".join(out.split())


def test_emitted_c_is_such_a_kernel(opwright, tmp_path):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    code, out, err = opwright("emit", SOFTMAX, "--target", "c", "-o", tmp_path / "c")
    assert code == 0, err
    source = next((tmp_path / "c").glob("*.c"))
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-ffp-contract=off", "-o", tmp_path / "k.so", source, "-lm"], check=True)
    code, out, err = against(opwright, f"{tmp_path}/k.so:row_softmax")
    assert code == 0, out + err


def torch_python():
    """An interpreter that has torch, and triton where `needs` says so."""
    for python in (os.environ.get("OPWRIGHT_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    pytest.skip("no Python with torch (OPWRIGHT_PYTHON names one)")


@pytest.mark.parametrize(
    ("function", "code", "evidence"),
    [
        ("softmax_torch.py:softmax", 0, "torch"),
        ("softmax_triton.py:softmax", 0, "cases passed"),
        ("softmax_triton.py:softmax_unmasked", 1, "reads outside x"),
        ("softmax_triton.py:softmax_dense", 1, "the strides of x are not followed"),
        ("softmax_triton.py:softmax_half", 1, "arithmetic in f16"),
        ("matmul_triton.py:matmul", 0, "cases passed"),
        ("matmul_triton.py:matmul_unmasked", 1, "reads outside a"),
        ("matmul_triton.py:matmul_dense", 1, "the strides of b are not followed"),
        ("matmul_triton.py:matmul_half", 1, "arithmetic in f16"),
        ("layer_norm_triton.py:layer_norm", 0, "cases passed"),
        ("layer_norm_triton.py:layer_norm_unmasked", 1, "comes from variance[0]"),
        ("layer_norm_triton.py:layer_norm_dense", 1, "the strides of x are not followed"),
        ("layer_norm_triton.py:layer_norm_half", 1, "arithmetic in f16"),
    ],
)
def test_torch_and_triton(opwright, function, code, evidence):
    python = torch_python()
    if "triton" in function and subprocess.run([python, "-c", "import triton"], capture_output=True).returncode:
        pytest.skip(f"{python} has no triton")
    operator = EXAMPLES / f"{function.split('.')[0].rsplit('_', 1)[0]}.op"  # softmax_torch.py: softmax.op
    got, out, err = opwright(
        "verify", operator, "--against", f"{EXAMPLES}/{function}", env={**os.environ, "OPWRIGHT_PYTHON": python}
    )
    assert got == code, out + err
    if code:
        assert evidence in " ".join(out.split())


def test_ways_of_running_are_compared(opwright):
    code, out, err = opwright("verify", "softmax", "--cross", "--json")
    assert code == 0, out + err
    lines = {l["name"]: l for l in json.loads(out)["operators"][0]["cross"]}
    assert all(l["passed"] for l in lines.values())
    for name in ("threads", "repeated", "fusion", "schedules", "cache", "on c"):
        assert name in lines


CUBE = """op cube_back(x[n], dy[n]) -> dx[n]:
    dx[n] = {} * x[n] * x[n] * dy[n]
op cube(x[n]) -> y[n]:
    y[n] = x[n] * x[n] * x[n]
    gradient cube_back
    example x = f32[4]
"""


def test_a_gradient_by_hand_is_verified(opwright, tmp_path):
    (tmp_path / "right.op").write_text(CUBE.format(3))
    (tmp_path / "wrong.op").write_text(CUBE.format(2))
    code, out, err = opwright("verify", "right.op", "--op", "cube")
    flat = " ".join(out.split())
    assert code == 0, out + err
    assert "gradient `cube_back` agrees with the derived gradient in" in flat
    assert "and with difference quotients in" in flat
    code, out, err = opwright("verify", "wrong.op", "--op", "cube")
    flat = " ".join(out.split())
    assert code == 1, out + err
    assert "gradient WRONG: `cube_back` says dx[" in flat and "`cube_back` is wrong" in flat


def schedule_of(opwright, tmp_path, operator):
    code, out, err = opwright("explain", operator, "--level", "schedule", "--json")
    assert code == 0, out + err
    return json.loads(out)["schedule"]


def test_the_kernel_of_a_schedule_is_verified(opwright, tmp_path):
    schedule = schedule_of(opwright, tmp_path, "matmul")
    contract = schedule["nests"][0]["contract"]
    contract.update(mr=3, nv=1, lanes=4, mt=6, nt=8, kc=5)
    (tmp_path / "s.json").write_text(json.dumps(schedule))
    code, out, err = opwright("verify", "matmul", "--schedule", "s.json")
    assert code == 0, out + err
    assert "scheduled by s.json" in out and "cases passed" in out
    assert "around 3, 4, 5, 6, 8" in " ".join(out.split())  # its tiles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'s.json' is empty, and a schedule is wanted."),
        (" \n\t", "'s.json' is empty, and a schedule is wanted."),
        ('{\n  "nests": [,]\n}', "'s.json' is not valid JSON: see line 2."),
        ('{"nests": []}', "The schedule's \"nests\" must be a list of 1 nests, one for each nest of relu."),
    ],
)
@pytest.mark.parametrize(
    "command", [("verify", "relu"), ("run", "relu"), ("explain", "relu", "--level", "loop"), ("emit", "relu")]
)
def test_a_file_that_is_no_schedule_is_refused(opwright, tmp_path, text, message, command):
    (tmp_path / "s.json").write_text(text)
    code, out, err = opwright(*command, "--schedule", "s.json")
    assert code == 1, out + err
    assert message in " ".join(err.split()), err
    assert "opwright explain" in " ".join(err.split())


def test_a_schedule_is_that_of_one_operator(opwright, tmp_path):
    (tmp_path / "s.json").write_text("{}")
    for command in ("verify", "run", "explain"):
        code, out, err = opwright(command, "model.onnx", "--schedule", "s.json")
        assert code == 1, out + err
        assert "A schedule is that of one operator, and 'model.onnx' is a model." in " ".join(err.split())
    code, out, err = opwright("verify", "random", "--schedule", "s.json")
    assert code == 1 and "a schedule is that of one operator" in " ".join(err.split()), err
    code, out, err = opwright("verify", "relu", "--schedule", "missing.json")
    assert code == 1 and "missing.json" in err


def model(tmp_path, name, scale):
    """tanh(x w) with one weight scaled."""
    onnx = pytest.importorskip("onnx")
    np = pytest.importorskip("numpy")
    w = np.sin(np.arange(64, dtype=np.float32)).reshape(8, 8)
    w[2, 3] *= scale
    h = onnx.helper
    graph = h.make_graph(
        [h.make_node("MatMul", ["x", "w"], ["z"]), h.make_node("Tanh", ["z"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 8])],
        [h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 8])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    made.ir_version = 9
    onnx.save(made, tmp_path / name)


def test_models_are_compared_by_what_rounding_may_do(opwright, tmp_path):
    model(tmp_path, "a.onnx", 1)
    model(tmp_path, "b.onnx", 1.001)
    code, out, err = opwright("verify", "a.onnx", "--against", "a.onnx", "--json")
    assert code == 0, out + err
    report = json.loads(out)
    assert report["values"] == ["random", "shuffled", "ties", "zeros"]
    assert report["outputs"][0]["verdict"] == "equal"
    code, out, err = opwright("verify", "a.onnx", "--against", "b.onnx")
    flat = " ".join(out.split())
    assert code == 1, out + err
    assert "a.onnx against b.onnx: they DIFFER" in flat
    assert "tolerance twice what an output moves where each kernel of the model errs by its own bound" in flat
    assert "output y: wrong; they differ by" in flat


def test_a_model_agrees_with_onnx_runtime(opwright, tmp_path):
    pytest.importorskip("onnxruntime")
    model(tmp_path, "a.onnx", 1)
    code, out, err = opwright("verify", "a.onnx", "--against", "onnxruntime", "--json", env=PYTHON)
    assert code == 0, out + err
    assert json.loads(out)["outputs"][0]["verdict"] in ("equal", "within tolerance")
