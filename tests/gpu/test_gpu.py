"""On a real NVIDIA GPU: operators, models, their profiles, errors, and stand-alone projects. Not run where there is none."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))


def opwright(*arguments, timeout=300, **environment):
    done = subprocess.run(
        [BUILD / "opwright", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | environment,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module", autouse=True)
def gpu():
    code, _, error = opwright("run", "relu", "--target", "cuda")
    if code and "not run:" in error:
        pytest.skip("not run: " + error.split("not run:")[1].split("\n")[0].strip())
    assert code == 0, error


OPERATORS = [
    "relu", "gelu", "softmax", "layer_norm", "matmul", "conv", "max_pool", "transpose", "gather", "scatter_elements",
    "running_sum", "arg_max", "reduce_sum", "sobel", "where_select",
]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name):
    code, out, error = opwright("verify", name, "--target", "cuda", "--json")
    assert code == 0, out[-3000:] + error
    [report] = [json.loads(out)["operators"][0]]
    assert report["passed"] and report["cases"] > 20 and report["refused"] == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A layer, a lookup with indices that are data, and a row reduction."""
    random = np.random.default_rng(1)
    constants = {
        "w": random.standard_normal((64, 96)).astype(np.float32),
        "bias": random.standard_normal(96).astype(np.float32),
        "table": random.standard_normal((50, 96)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["sum"], name="bias"),
        helper.make_node("Relu", ["sum"], ["h"], name="relu"),
        helper.make_node("Gather", ["table", "index"], ["rows"], name="lookup"),
        helper.make_node("Mul", ["h", "rows"], ["scaled"], name="scale"),
        helper.make_node("Softmax", ["scaled"], ["y"], name="softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64]),
            helper.make_tensor_value_info("index", TensorProto.INT64, ["n"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 96])],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    path = tmp_path_factory.mktemp("gpu") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def magika_model():
    magika = pytest.importorskip("magika")
    return next(Path(magika.__file__).parent.glob("models/*/model.onnx"))


@pytest.mark.parametrize("n", [1, 33, 1000])
def test_model_agrees_with_the_cpu(model, tmp_path, n):
    random = np.random.default_rng(n)
    np.savez(
        tmp_path / "in.npz",
        x=random.standard_normal((n, 64)).astype(np.float32),
        index=random.integers(0, 50, n).astype(np.int64),
    )
    for target in ["cpu", "cuda"]:
        code, out, error = opwright(
            "run", model, "--target", target, "--input", tmp_path / "in.npz", "--output", tmp_path / f"{target}.npz"
        )
        assert code == 0, error
    np.testing.assert_allclose(
        np.load(tmp_path / "cuda.npz")["y"], np.load(tmp_path / "cpu.npz")["y"], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("which", ["small", "magika"])
def test_models_verify(model, which):
    code, out, error = opwright("verify", model if which == "small" else magika_model(), "--target", "cuda", "--json")
    assert code == 0, out[-3000:] + error
    report = json.loads(out)
    assert report["passed"] and report["wrong"] == 0 and report["compared"] > 0


def test_a_profile_adds_up(model):
    code, out, error = opwright("profile", model, "--target", "cuda", "--size", "n=4096", "--json")
    assert code == 0, error
    profile = json.loads(out)
    device = profile["device"]
    kernels = sum(row["min_ms"] for row in profile["operators"])
    assert device["kernels_ms"] == pytest.approx(kernels)
    assert 0 < kernels < 10 and device["launch_gaps_ms"] >= 0 and device["graph_ms"] > 0
    assert all(row["launches"] for row in profile["operators"])
    machine = profile["machine"]
    assert machine["copy_bytes_per_second"] > 1e11 and machine["flops_half"] > machine["flops_f32"] > 1e12


def test_an_index_outside_names_the_operator(model, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 64), np.float32), index=np.array([1, 50, 2]))
    code, _, error = opwright("run", model, "--target", "cuda", "--input", tmp_path / "in.npz")
    assert code == 1 and "outside" in error and "gather" in error and "'softmax'" in error


@pytest.mark.parametrize("name", ["relu", "softmax", "gather", "scatter_elements", "examples/matmul_prelu.op", "max_pool"])
def test_a_project_checks_itself(name, tmp_path):
    if not shutil.which("nvcc"):
        pytest.skip("not run: there is no nvcc")
    target = ROOT / name if name.endswith(".op") else name
    assert opwright("emit", target, "--target", "cuda", "-o", tmp_path)[0] == 0
    [kernel] = [p.stem for p in tmp_path.glob("*.cu") if not p.stem.endswith(("_launch", "_test"))]
    sources = [f"{kernel}_launch.cu", f"{kernel}_test.cu", f"{kernel}_reference.c"]
    built = subprocess.run(["nvcc", "-O2", "-arch=native", "-o", "check", *sources], cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "check"], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0 and ran.stdout.endswith("OK\n") and "FAIL" not in ran.stdout, ran.stdout
