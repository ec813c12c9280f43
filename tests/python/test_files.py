"""Tensors and pictures on disk: what NumPy and Pillow write, Opwright reads, and the other way round, through the command."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image


@pytest.fixture
def identity(tmp_path):
    """Path of a model that gives its input back, for a dtype."""

    def make(code, rank=1):
        dims = [f"d{i}" for i in range(rank)]
        value = lambda name: helper.make_tensor_value_info(name, code, dims)
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x")], [value("y")])
        path = tmp_path / f"identity_{code}_{rank}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    return make


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
@pytest.mark.parametrize("form", ["C", "F", "big", "empty"])
def test_npy(opwright, identity, tmp_path, dtype, form):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    given = {"C": x, "F": np.asfortranarray(x), "big": x.astype(x.dtype.newbyteorder(">")), "empty": x[:, :0]}[form]
    np.save(tmp_path / "x.npy", given)
    model = identity(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 3)
    code, out, err = opwright("run", model, "--input", "x=x.npy", "--output", "y.npz")
    assert code == 0, out + err
    y = np.load(tmp_path / "y.npz")["y"]
    assert y.dtype == x.dtype and np.array_equal(y, given)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(opwright, identity, tmp_path, save):
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    save(tmp_path / "in.npz", x=x)
    code, out, err = opwright("run", identity(TensorProto.FLOAT), "--input", "in.npz", "--output", "y.npz")
    assert code == 0, out + err
    assert np.array_equal(np.load(tmp_path / "y.npz")["y"], x)


def test_pb(opwright, identity, tmp_path):
    x = np.linspace(-1, 1, 10, dtype=np.float32)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    code, out, err = opwright("run", identity(TensorProto.FLOAT), "--input", "x=x.pb", "--output", "y.pb")
    assert code == 0, out + err
    y = TensorProto.FromString((tmp_path / "y.pb").read_bytes())
    assert y.name == "y" and np.array_equal(numpy_helper.to_array(y), x)


def test_bfloat16(opwright, identity, tmp_path):
    x = np.array([1, -2.5, 3e38], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    code, out, err = opwright("run", identity(TensorProto.BFLOAT16), "--input", "x=x.npy", "--output", "y.npz")
    assert code == 0, out + err
    y = np.load(tmp_path / "y.npz")["y"].view(ml_dtypes.bfloat16)
    assert np.array_equal(y.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("mode,channels", [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4), ("P", 3), ("1", 1)])
def test_png(opwright, identity, tmp_path, mode, channels):
    pixels = np.random.default_rng(1).integers(0, 256, (9, 14, 4), np.uint8)
    picture = Image.fromarray(pixels, "RGBA").convert("RGB" if mode == "P" else mode).convert(mode)
    picture.save(tmp_path / "x.png")
    code, out, err = opwright("run", identity(TensorProto.UINT8, 3), "--input", "x=x.png", "--output", "y.png")
    assert code == 0, out + err
    plain = picture.convert({"P": "RGB", "1": "L"}.get(mode, mode))
    assert np.array_equal(
        np.asarray(Image.open(tmp_path / "y.png")).reshape(9, 14, channels),
        np.asarray(plain).reshape(9, 14, channels),
    )


def test_jpeg(opwright, identity, tmp_path):
    y, x = np.mgrid[0:64, 0:96]
    pixels = np.stack([x * 2, y * 3, x + y], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.jpg", quality=90)
    code, out, err = opwright("run", identity(TensorProto.UINT8, 3), "--input", "x=x.jpg", "--output", "y.npz")
    assert code == 0, out + err
    got = np.load(tmp_path / "y.npz")["y"].astype(int)
    assert np.abs(got - np.asarray(Image.open(tmp_path / "x.jpg")).astype(int)).max() <= 2


def test_broken_files_are_named(opwright, identity, tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{")
    code, out, err = opwright("run", identity(TensorProto.FLOAT), "--input", "x=x.npy", "--output", "y.npz")
    assert code != 0 and "x.npy" in err and not (tmp_path / "y.npz").exists()
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    code, out, err = opwright("run", identity(TensorProto.FLOAT), "--input", "x=x.npy", "--output", "y.npz")
    assert code != 0 and "never loaded" in err


def test_doctor_command(opwright):
    code, out, err = opwright("doctor")
    assert all(len(line) <= 100 for line in out.splitlines())
    assert "\x1b" not in out, "colours off a terminal"
    code_json, out, err = opwright("doctor", "--json")
    report = json.loads(out)
    assert code == code_json and report["measured"][0]["copy_bytes_per_second"] > 1e8
    assert report["measured"][0]["flops_f32"] > 1e8
