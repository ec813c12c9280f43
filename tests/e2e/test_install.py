"""An installed tree is enough to build against: examples/cpp through find_package(opwright)."""

import os
import subprocess

import onnx
import pytest
from conftest import BUILD, ROOT
from onnx import TensorProto, helper


def checked(command, **more):
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
    return run.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    checked(["cmake", "--install", BUILD, "--prefix", folder])
    return folder


def test_installed_tree(prefix):
    for path in ["bin/opwright", "include/opwright/opwright.h", "include/opwright/opwright.hpp"]:
        assert (prefix / path).is_file(), path
    assert list(prefix.glob("lib*/**/libopwright.so.0")) and list(prefix.glob("lib*/**/opwrightConfig.cmake"))
    assert "usage" in checked([prefix / "bin/opwright", "--help"], cwd=prefix).lower()


def test_example_program(prefix, tmp_path):
    checked(
        [
            "cmake",
            "-G",
            "Ninja",
            "-S",
            ROOT / "examples/cpp",
            "-B",
            tmp_path / "build",
            f"-DCMAKE_PREFIX_PATH={prefix}",
        ]
    )
    checked(["cmake", "--build", tmp_path / "build"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "relu.onnx")
    library = next(prefix.glob("lib*/**/libopwright.so.0")).parent
    out = checked(
        [tmp_path / "build/example", tmp_path / "relu.onnx"], env=os.environ | {"LD_LIBRARY_PATH": str(library)}
    )
    assert "declared: matmul_prelu\n" in out
    assert "y = [[1, -0.5], [4, -1.25]]\n" in out
    assert "y: 3 elements\n" in out


def test_header_is_c99(tmp_path):
    (tmp_path / "t.c").write_text(
        "#include <opwright/opwright.h>\nint main(void) { return opw_abi_version() - OPW_ABI_VERSION; }\n"
    )
    checked(
        ["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", tmp_path / "t.c"]
        + [f"-L{BUILD}", "-lopwright", f"-Wl,-rpath,{BUILD}", "-o", tmp_path / "t"]
    )
    checked([tmp_path / "t"])
