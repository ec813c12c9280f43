"""Rules that the source keeps: the one direction of dependency between folders, and the form of files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SRC = ROOT / "src"

# What each folder may include besides itself and base. Files straight in src/ (the pipeline) may include everything
# below cli.
ALLOWED = {
    "base": "",
    "io": "",
    "math": "",
    "loop": "",
    "lang": "math",
    "derive": "math",
    "schedule": "math derive",
    "tile": "math schedule",
    "emit": "math schedule tile",
    "target": "math derive schedule tile loop emit",
    "graph": "math derive lang io",
    "fuse": "math derive lang graph schedule",  # the planner asks which equations become one nest; kernels of its own are declared
    "runtime": "math derive lang graph fuse target",
    "verify": "math derive lang graph fuse target runtime io",
    "explain": "math derive lang graph fuse schedule tile loop target runtime verify io",
    "tune": "math derive graph schedule tile target runtime verify explain io",
    "api": "math derive lang graph fuse schedule tile loop target runtime verify explain io",
    "cli": "math derive lang graph fuse schedule tile loop target runtime verify explain io tune",
}
# Single headers that stand below their folder, and files that stand above theirs.
LOW = {"runtime/thread_pool.h", "runtime/wake.h", "target/machine.h"}
HIGH = {"io/tensors.cpp": "graph"}


def sources():
    return sorted([*SRC.rglob("*.h"), *SRC.rglob("*.cpp")])


def test_dependencies_go_one_way():
    wrong = []
    for path in sources():
        name = str(path.relative_to(SRC))
        folder = name.split("/")[0]
        if "/" not in name:
            continue
        allowed = {folder, "base", *ALLOWED[folder].split(), *HIGH.get(name, "").split()}
        for included in re.findall(r'^#include "([\w/]+\.h)"', path.read_text(), re.M):
            target = included.split("/")[0]
            if target not in ALLOWED:  # a file of the pipeline, or a generated one
                if (SRC / included).exists() and folder not in ("verify", "explain", "tune", "api", "cli"):
                    wrong.append(f"{name} includes {included}")
            elif target not in allowed and included not in LOW:
                wrong.append(f"{name} includes {included}")
    assert wrong == []


def test_headers_of_libraries_stay_in_cpp_files():
    heavy = re.compile(r"#include <(llvm/|google/protobuf|CLI/|nlohmann/json\.hpp|fmt/)")
    # Private headers, which only .cpp files of their own folder include.
    private = {
        "src/graph/onnx", "src/target/cpu/emit", "src/target/cuda", "src/target/ascend", "src/cli", "src/lang",
    }
    wrong = [
        str(p.relative_to(ROOT))
        for p in SRC.rglob("*.h")
        if str(p.parent.relative_to(ROOT)) not in private and heavy.search(p.read_text())
    ]
    assert wrong == []


def test_form_of_files():
    wrong = []
    for path in [
        *sources(),
        *(ROOT / "tests").rglob("*.cpp"),
        *(ROOT / "include").rglob("*.h*"),
        *(ROOT / "ops").glob("*.op"),
    ]:
        text, name = path.read_text(), str(path.relative_to(ROOT))
        lines = text.splitlines()
        if len(lines) > 1000:
            wrong.append(f"{name} has {len(lines)} lines")
        if "\t" in text:
            wrong.append(f"{name} holds a tab")
        if re.search(r"\b(TODO|FIXME|XXX)\b", text):
            wrong.append(f"{name} holds an open end")
        if path.suffix == ".h" and not re.match(r"(//|/\*)", text):
            wrong.append(f"{name} does not begin by saying what it is for")
    assert wrong == []
