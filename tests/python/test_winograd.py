"""Convolutions of a model in Winograd's form, where it is asked for: by the command and through the C ABI."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opwright_session import OpwrightError, Session

rng = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def unmeasured(tmp_path, monkeypatch):
    """What pays is decided by typical figures, not by what was measured on this machine last."""
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def model(tmp_path):
    """A ResNet's block of 64 channels between two 1x1 convolutions, on a picture that tiles of 4 x 4 do not divide."""
    nodes, weights = [], []

    def conv(x, name, into, of, taps):
        w = rng.standard_normal((into, of, taps, taps)) * np.sqrt(1 / (of * taps * taps))
        weights.append(numpy_helper.from_array(w.astype(np.float32), name + "_w"))
        nodes.append(helper.make_node("Conv", [x, name + "_w"], [name + "_y"], name=name, pads=[taps // 2] * 4))
        return name + "_y"

    first = conv("x", "into", 64, 3, 1)
    nodes.append(helper.make_node("Relu", [conv(first, "one", 64, 64, 3)], ["r"]))
    nodes.append(helper.make_node("Add", [conv("r", "two", 64, 64, 3), first], ["s"]))
    y = conv("s", "out", 8, 64, 1)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 18, 18])]
    outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 8, 18, 18])]
    path = tmp_path / "block.onnx"
    graph = helper.make_graph(nodes, "block", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_command_verifies_and_explains_it(opwright, model):
    report = json.loads(opwright("verify", model, "--winograd", "--json")[1])
    assert report["passed"] and report["winograd"] == 2 and report["compared"] == len(report["kernels"])
    assert 0 < report["fusion_difference"] < 1e-5
    assert json.loads(opwright("verify", model, "--json")[1])["winograd"] == 0
    text = opwright("explain", model, "--fusion", "--winograd")[1]
    assert "Winograd's form of convolutions\n  - one: taken; " in text
    assert "- its convolution is in Winograd's form: " in opwright("explain", model, "--why", "two", "--winograd")[1]


def test_two_runs_differ_by_no_more_than_the_algorithm_may(opwright, model):
    assert "they agree" in opwright("verify", model, "--against", model, "--winograd")[1]


def test_other_targets_say_that_they_do_not_do_it(opwright, model):
    code, _, errors = opwright("run", model, "--winograd", "--target", "c")
    assert code == 1
    assert "error: Winograd's form of convolutions is for kernels on the cpu, and target c was asked for." in errors


def test_the_wrapper_takes_the_option(model):
    x = rng.standard_normal((1, 3, 18, 18), dtype=np.float32)
    want, got = Session(str(model)).run(None, {"x": x})[0], Session(str(model), winograd=1).run(None, {"x": x})[0]
    assert not np.array_equal(want, got)
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())
    with pytest.raises(OpwrightError, match="Option 'winograd' takes a number from 0 to 1, and got 'yes'"):
        Session(str(model), winograd="yes")
