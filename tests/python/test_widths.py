"""Everything that the command writes itself fits 100 columns; declarations and code that it quotes stand as they are."""

import numpy as np
import pytest
from conftest import ROOT

COMMANDS = ["check", "explain", "run", "verify", "profile", "ops", "doctor", "onnx-test"]
EXAMPLE = ROOT / "examples/matmul_prelu.op"


def too_wide(text, quoted=""):
    """Lines over 100 columns that could have been broken, and are not in the quoted text."""
    return [
        line
        for line in text.splitlines()
        if len(line) > 100 and len(line.split()) > 1 and line.strip() not in quoted
    ]


def fits(result, quoted=""):
    code, out, err = result
    assert code == 0, err
    assert out and too_wide(out, quoted) == []
    return out


@pytest.fixture
def model(tmp_path):
    """Two fused operators and one apart, all of them with names and extents longer than a line."""
    from onnx import TensorProto, helper, numpy_helper, save

    long = "a_rather_long_name_of_a_layer_as_exporters_write_them_with_its_path/"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["the_number_of_samples_in_a_batch", 24])
    y = helper.make_tensor_value_info(long + "y", TensorProto.FLOAT, ["the_number_of_samples_in_a_batch", 40])
    w = numpy_helper.from_array(np.random.default_rng(1).standard_normal((24, 40), dtype=np.float32), long + "w")
    nodes = [
        helper.make_node("MatMul", ["x", long + "w"], [long + "t"], name=long + "matmul"),
        helper.make_node("Relu", [long + "t"], [long + "r"], name=long + "relu"),
        helper.make_node("Softmax", [long + "r"], [long + "y"], name=long + "softmax"),
    ]
    m = helper.make_model(helper.make_graph(nodes, long + "graph", [x], [y], [w]),
                          opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(m, tmp_path / "model.onnx")
    return "model.onnx"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(opwright, command):
    fits(opwright(*filter(None, [command]), "--help"))


@pytest.mark.parametrize("operator", [str(EXAMPLE), "conv", "batch_norm", "attention_scores", "average_pool"])
def test_operators(opwright, operator):
    source = "" if operator == str(EXAMPLE) else opwright("ops", "--show", operator)[1]
    quoted = EXAMPLE.read_text() if operator == str(EXAMPLE) else source
    text = fits(opwright("explain", operator), quoted)
    assert "FLOPs" in text
    fits(opwright("check", operator))


def test_library_list(opwright):
    fits(opwright("ops"))


def test_verdict_line(opwright):
    assert "cases passed" in fits(opwright("verify", EXAMPLE))


def test_profile_of_an_operator(opwright):
    text = fits(opwright("profile", EXAMPLE, "--size", "m=64,n=96,k=48", "--repeats", 2, "--threads", 1))
    assert "of floor" in text and "ceilings" in text


def test_models(opwright, model):
    size = ["--size", "the_number_of_samples_in_a_batch=3"]
    fits(opwright("check", model))
    fits(opwright("explain", model))
    fits(opwright("verify", model, *size))
    fits(opwright("run", model, *size))
    text = fits(opwright("profile", model, *size, "--repeats", 2))
    assert "matmul" in text or "Softmax" in text


def test_the_table_keeps_its_columns(opwright, model):
    """Rows end where the heading ends, whatever the names are."""
    out = opwright("profile", model, "--size", "the_number_of_samples_in_a_batch=3", "--repeats", 2)[1].splitlines()
    first = next(i for i, line in enumerate(out) if line.startswith("operator "))
    rows = out[first : out.index("", first)]
    assert len(rows) >= 2 and len({len(r) for r in rows}) == 1 and len(rows[0]) <= 100
