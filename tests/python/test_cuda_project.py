"""The stand-alone project that `emit --target cuda -o DIR` writes: complete, built by nvcc where it is, and, where there
is a GPU, run. On a GPU it runs for more operators in tests/gpu."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def test_files(opwright, tmp_path):
    code, out, error = opwright("emit", "softmax", "--target", "cuda", "-o", tmp_path / "out")
    assert code == 0, error
    files = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert files == [
        "CMakeLists.txt",
        "README.md",
        "softmax.cu",
        "softmax_configured.h",
        "softmax_launch.cu",
        "softmax_launch.h",
        "softmax_reference.c",
        "softmax_test.cu",
    ]
    assert "#include" not in (tmp_path / "out/softmax.cu").read_text()
    build = (tmp_path / "out/CMakeLists.txt").read_text()
    assert "find_package(CUDAToolkit REQUIRED)" in build and "CMAKE_CUDA_ARCHITECTURES" in build
    for path in (tmp_path / "out").iterdir():
        wide = [line for line in path.read_text().splitlines() if len(line) > 130]
        assert wide == [], path


# Indices that are data, 16-bit floats, results of several launches by way of a workspace, a contraction. nvcc takes 5 to
# 20 s each.
@pytest.mark.parametrize(
    "arguments",
    [["gather"], ["gelu", "--type", "f16"], ["reduce_sum"], [ROOT / "examples/matmul_prelu.op"]],
    ids=lambda a: Path(a[0]).stem,
)
def test_builds_with_nvcc(opwright, tmp_path, arguments):
    if not shutil.which("nvcc"):
        pytest.skip("not run: there is no nvcc here")
    code, out, error = opwright("emit", *arguments, "--target", "cuda", "-o", tmp_path)
    assert code == 0, error
    [name] = [p.stem for p in tmp_path.glob("*.cu") if not p.stem.endswith(("_launch", "_test"))]
    sources = [f"{name}_launch.cu", f"{name}_test.cu", f"{name}_reference.c"]
    built = subprocess.run(
        ["nvcc", "-O1", "-arch=sm_80", "-std=c++17", "-o", "check", *sources],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    ran = subprocess.run([tmp_path / "check"], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stdout) == (77, "not run: there is no GPU\n") or (
        ran.returncode == 0 and ran.stdout.endswith("OK\n")
    ), ran.stdout
