"""python/opwright_session.py over the C ABI: what goes in, what comes out, what is refused and how."""

import threading

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from opwright_session import Library, Operator, OpwrightError, Session, doctor, version


def model(nodes, inputs, outputs, opset=17, initializers=(), metadata=None):
    """Bytes of a model; inputs and outputs are (name, element type, shape)."""
    values = lambda specs: [helper.make_tensor_value_info(*s) for s in specs]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), list(initializers))
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if metadata:
        helper.set_model_props(m, metadata)
    return m.SerializeToString()


F = TensorProto.FLOAT
ADD = model(
    [helper.make_node("Add", ["a", "b"], ["c"])],
    [("a", F, ["n", 3]), ("b", F, [3])],
    [("c", F, ["n", 3])],
    metadata={"author": "tests", "text": "größe\nzwei"},
)
TWO = model(
    [helper.make_node("Relu", ["x"], ["positive"]), helper.make_node("Neg", ["x"], ["negative"])],
    [("x", F, ["rows", "columns"])],
    [("positive", F, ["rows", "columns"]), ("negative", F, ["rows", "columns"])],
)


def test_version():
    major, minor, patch = map(int, version().split("."))
    assert (major, minor, patch) >= (0, 1, 0)


def test_declared_inputs_and_outputs():
    s = Session(ADD)
    assert [(v.name, v.dtype, v.shape) for v in s.inputs] == [("a", np.float32, ("n", 3)), ("b", np.float32, (3,))]
    assert [v.name for v in s.outputs] == ["c"]
    assert s.metadata("author") == "tests" and s.metadata("text") == "größe\nzwei" and s.metadata("absent") is None


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
def test_one_model_serves_every_size(rows):
    a = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    b = np.array([10, 20, 30], np.float32)
    [c] = Session(ADD).run(None, {"a": a, "b": b})
    assert c.dtype == np.float32 and np.array_equal(c, a + b)


def test_wanted_outputs_in_the_order_asked():
    x = np.array([[-1, 2]], np.float32)
    s = Session(TWO)
    assert [o.tolist() for o in s.run(None, [x])] == [[[0, 2]], [[1, -2]]]
    assert [o.tolist() for o in s.run(["negative", "positive"], [x])] == [[[1, -2]], [[0, 2]]]
    assert [o.tolist() for o in s.run(["negative"], [x])] == [[[1, -2]]]


def test_arrays_of_any_layout_and_lists():
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    s = Session(TWO)
    for given in [x.T.copy().T, np.asfortranarray(x), x[::-1][::-1], x.astype(">f4"), x.tolist()]:
        assert np.array_equal(s.run(["positive"], {"x": given})[0], np.maximum(x, 0))
    strided = np.zeros((6, 8), np.float32)
    strided[::2, ::2] = x
    assert np.array_equal(s.run(["negative"], {"x": strided[::2, ::2]})[0], -x)


@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    ],
)
def test_every_dtype_goes_through(dtype):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    s = Session(model([helper.make_node("Identity", ["x"], ["y"])], [("x", code, ["n"])], [("y", code, ["n"])]))
    x = np.array([0, 1, 1, 0, 1], dtype)
    [y] = s.run(None, {"x": x})
    assert y.dtype == x.dtype and np.array_equal(x, y)


def test_bfloat16_goes_through():
    code = TensorProto.BFLOAT16
    s = Session(model([helper.make_node("Identity", ["x"], ["y"])], [("x", code, ["n"])], [("y", code, ["n"])]))
    x = np.array([0.5, -3, 1e30], ml_dtypes.bfloat16)
    [y] = s.run(None, {"x": x})
    assert y.dtype == x.dtype and np.array_equal(x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize(
    "inputs,words",
    [
        ({"a": np.zeros((2, 3), np.float32)}, ["'b'"]),
        ({"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32), "d": np.zeros(1, np.float32)}, ["'d'"]),
        ({"a": np.zeros((2, 3), np.float64), "b": np.zeros(3, np.float32)}, ["'a'", "f64", "f32"]),
        ({"a": np.zeros((2, 4), np.float32), "b": np.zeros(3, np.float32)}, ["'a'", "4", "3"]),
        ({"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float32)}, ["'a'"]),
    ],
    ids=["missing", "unknown", "dtype", "extent", "rank"],
)
def test_wrong_inputs_are_named(inputs, words):
    with pytest.raises(OpwrightError) as refused:
        Session(ADD).run(None, inputs)
    assert refused.value.status == "invalid argument"
    for word in words:
        assert word in refused.value.text


def test_unknown_output_is_named():
    with pytest.raises(OpwrightError, match="'nothing'"):
        Session(TWO).run(["nothing"], [np.zeros((1, 1), np.float32)])


def test_files_that_are_no_model(tmp_path):
    with pytest.raises(OpwrightError) as absent:
        Session(tmp_path / "absent.onnx")
    assert absent.value.status == "io" and "absent.onnx" in absent.value.message
    (tmp_path / "text.onnx").write_text("no model at all")
    with pytest.raises(OpwrightError) as text:
        Session(tmp_path / "text.onnx")
    assert text.value.status == "malformed"
    with pytest.raises(OpwrightError):
        Session(ADD[: len(ADD) // 2])


def test_unsupported_operators_are_all_listed():
    nodes = [
        helper.make_node("Mystery", ["x"], ["t"], name="first", domain="nowhere"),
        helper.make_node("Riddle", ["t"], ["y"], name="second", domain="nowhere"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F, [1])], [helper.make_tensor_value_info("y", F, [1])]
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)])
    with pytest.raises(OpwrightError) as refused:
        Session(m.SerializeToString())
    assert refused.value.status == "unsupported"
    for word in ["Mystery", "Riddle", "first", "second"]:
        assert word in refused.value.text


def test_unknown_options_are_refused():
    with pytest.raises(OpwrightError) as refused:
        Session(ADD, threads="many")
    assert refused.value.status == "invalid argument" and "threads" in refused.value.text


def test_threads_share_a_session():
    s = Session(TWO, threads=2)
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=(40, 30)).astype(np.float32)
        for _ in range(20):
            if not np.array_equal(s.run(["positive"], [x])[0], np.maximum(x, 0)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_profile():
    report = Session(ADD).profile({"a": np.ones((100, 3), np.float32), "b": np.ones(3, np.float32)}, repeats=3)
    assert report["total_ms"] > 0 and len(report["operators"]) == 1


DECLARATION = """
op scaled(x[m,k], s[k]) -> y[m]:
    "A weighted sum of each row."
    y[m] = sum[k](x[m,k] * s[k])
"""


def test_declared_operator():
    library = Library(DECLARATION, "scaled.op")
    assert library.operators == ["scaled"]
    assert "scaled" in str(library.explain("scaled"))
    x, s = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 10, 100], np.float32)
    [y] = Operator(library, "scaled")(x, s)
    assert y.tolist() == [210, 543]
    [y] = Operator(library, "scaled")(s=s.astype(np.float64), x=x.astype(np.float64))
    assert y.dtype == np.float64 and y.tolist() == [210, 543]


def test_declaration_errors_show_the_place():
    with pytest.raises(OpwrightError) as refused:
        Library("op f(x[m]) -> y[m]:\n    y[m] = x[m\n", "f.op")
    assert refused.value.status == "malformed"
    assert "f.op:2" in refused.value.text and "^" in refused.value.text
    with pytest.raises(OpwrightError) as refused:
        Library("op f(x[m]) -> y[m]:\n    y[m] = x[j]\n", "f.op").explain("f")
    assert "f.op:2" in refused.value.text and "`j` is not defined" in refused.value.text


def test_built_in_operator():
    [y] = Operator(None, "relu")(np.array([-1.5, 0, 2], np.float32))
    assert y.tolist() == [0, 0, 2]


def test_doctor():
    report = doctor()
    assert report["facts"]["processors"] >= 1 and isinstance(report["problems"], list)
