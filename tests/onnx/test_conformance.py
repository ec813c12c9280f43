"""ONNX's own test data through `opwright onnx-test`: nothing wrong, nothing crashes, nothing hangs, and enough passes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))
DATA = Path(onnx.__file__).parent / "backend/test/data"
VERDICTS = ["pass", "wrong", "crash", "unsupported", "timeout"]

# Cases of each folder that pass. Raise a figure when it has been passed, and write docs/onnx.md anew; never lower one.
LEAST = {"node": 1497, "light": 9, "simple": 15, "pytorch-operator": 35, "pytorch-converted": 82}


def conformance(folder):
    run = subprocess.run(
        [BUILD / "opwright", "onnx-test", folder, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def named(report, *verdicts):
    return [f"{c['name']}: {c['verdict']}: {c['reason']}" for c in report["cases"] if c["verdict"] in verdicts]


@pytest.mark.parametrize("folder", LEAST)
def test_folder(folder):
    code, report = conformance(DATA / folder)
    expected = [p.parent.name for p in (DATA / folder).glob("*/model.onnx")]
    expected += [p.name.removesuffix("_output_0.pb") for p in (DATA / folder).glob("*_output_0.pb")]  # the light models
    expected.sort()
    assert sorted(Path(c["name"]).name for c in report["cases"]) == expected, "every case has exactly one verdict"
    assert {v: len(named(report, v)) for v in VERDICTS} == {v: report[v] for v in VERDICTS}
    assert named(report, "wrong", "crash", "timeout") == [] and code == 0
    assert all(c["reason"] for c in report["cases"] if c["verdict"] == "unsupported")
    print(f"{folder}: {report['pass']} of {len(expected)} pass")
    assert report["pass"] >= LEAST[folder], f"{report['pass']} of {len(expected)} pass"


def copy_case(name, to):
    shutil.copytree(DATA / "node" / name, to / name)
    return to / name


def test_a_wrong_value_is_wrong(tmp_path):
    """The counting itself: one element of an expected output changed."""
    path = copy_case("test_relu", tmp_path) / "test_data_set_0/output_0.pb"
    array = numpy_helper.to_array(TensorProto.FromString(path.read_bytes())).copy()
    array.flat[array.size // 2] += 0.01
    path.write_bytes(numpy_helper.from_array(array).SerializeToString())
    code, report = conformance(tmp_path)
    assert (report["pass"], report["wrong"]) == (0, 1) and code != 0


@pytest.mark.parametrize("change", ["dtype", "shape"])
def test_a_wrong_type_or_shape_is_wrong(tmp_path, change):
    path = copy_case("test_relu", tmp_path) / "test_data_set_0/output_0.pb"
    array = numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))
    array = array.astype(np.float64) if change == "dtype" else array.reshape(-1)
    path.write_bytes(numpy_helper.from_array(array).SerializeToString())
    code, report = conformance(tmp_path)
    assert (report["pass"], report["wrong"]) == (0, 1) and code != 0


def test_an_unknown_operator_is_unsupported(tmp_path):
    case = copy_case("test_relu", tmp_path)
    model = onnx.load(case / "model.onnx")
    model.graph.node[0].op_type = "Mystery"
    onnx.save(model, case / "model.onnx")
    code, report = conformance(tmp_path)
    assert (report["pass"], report["unsupported"]) == (0, 1)
    assert "Mystery" in report["cases"][0]["reason"]


def test_nothing_to_compare_is_no_pass(tmp_path):
    shutil.rmtree(copy_case("test_relu", tmp_path) / "test_data_set_0")
    code, report = conformance(tmp_path)
    assert report["pass"] == 0
