"""What a person who mistypes, or takes a model for an operator, is told."""

import os
import pty
import subprocess

import numpy as np
import pytest
from conftest import BUILD


@pytest.fixture
def model(tmp_path):
    """Rows that are normalised by parts behind a product, with an operator that is read twice."""
    from onnx import TensorProto, helper, numpy_helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 32])
    w = numpy_helper.from_array(np.random.default_rng(1).standard_normal((16, 32), dtype=np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], name="layer/product"),
        helper.make_node("Softmax", ["t"], ["s"], name="layer/softmax"),
        helper.make_node("Mul", ["s", "t"], ["y"], name="layer/mul"),
    ]
    m = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(m, tmp_path / "model.onnx")
    return "model.onnx"


@pytest.mark.parametrize(
    "arguments, message, next_step",
    [
        (["profil", "x"], "There is no command 'profil'.", "Did you mean 'profile'?"),
        ([], "A command is missing.", "`opwright --help` lists them."),
        (["run", "relu", "--treads", "2"], "'--treads' is not expected here.", "Did you mean '--threads'?"),
        (["run", "relu", "more"], "'more' is not expected here.", "`opwright run --help`"),
        (["run", "relu", "--threads", "-1"], "--threads: Value -1 not in range 0 to 1024.", "`opwright run --help`"),
        (["tune", "show"], "NAME is required.", "`opwright tune --help`"),
    ],
)
def test_wrong_usage(opwright, arguments, message, next_step):
    code, out, err = opwright(*arguments)
    assert code == 2 and not out
    assert err.startswith(f"error: {message}\n") and f"= next: {next_step}" in err


@pytest.mark.parametrize("command", ["emit", "compare"])
def test_a_model_where_an_operator_is_wanted(opwright, model, command):
    code, _, err = opwright(command, model)
    assert code == 1 and "'model.onnx' is a model, and this takes an operator" in err and "explain model.onnx --level c --node NAME" in err


@pytest.mark.parametrize("arguments", [["--fusion"], ["--why", "x"], ["--node", "x"]])
def test_an_operator_where_a_model_is_wanted(opwright, arguments):
    code, out, err = opwright("explain", "softmax", *arguments)
    assert code == 1 and not out and f"{arguments[0]} is for a model" in err and "next:" in err


def test_a_kernel_of_a_model_as_source(opwright, model):
    code, out, _ = opwright("explain", model, "--level", "c", "--node", "softmax")
    assert code == 0 and "layer/softmax" in out and "expf(" in out and "#include <math.h>" in out
    code, out, _ = opwright("explain", model, "--level", "schedule", "--target", "cuda", "--node", "layer/softmax")
    assert code == 0 and "lanes" not in out and "block" in out
    code, _, err = opwright("explain", model, "--level", "loop", "--target", "cuda")
    assert code == 1 and 'Target cuda has no level "loop".' in err


def test_reasons_stand_below_the_figures_of_a_narrow_terminal(model, tmp_path):
    import fcntl
    import struct
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    with subprocess.Popen([BUILD / "opwright", "explain", model, "--fusion"], stdin=side, stdout=side, stderr=side, cwd=tmp_path) as p:
        os.close(side)
        text = b""
        try:
            while piece := os.read(main, 1 << 16):
                text += piece
        except OSError:
            pass  # the end of a terminal
        assert p.wait() == 0
    os.close(main)
    lines = text.decode().replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80
    taken = next(i for i, line in enumerate(lines) if line.startswith("taken"))
    assert lines[taken + 2].startswith("layer/") and lines[taken + 3].startswith("    ")
