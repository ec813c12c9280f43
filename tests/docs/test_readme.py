"""README.md says what the scripts do: packages and their list, links, parts of the tests."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()


def table_packages(after):
    table = README.split(after, 1)[1].split("\n\n", 2)[1]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w+.-]+)`", row.split("|")[1])}


def test_every_debian_package_has_its_reason():
    run = subprocess.run([ROOT / "scripts/setup.sh", "--list"], capture_output=True, text=True, check=True)
    assert table_packages("\nDebian packages (") == {line.split()[0] for line in run.stdout.splitlines()}


def test_every_python_package_asked_for_has_its_reason():
    asked = (ROOT / "requirements.txt").read_text().split("# What those bring")[0]
    names = {line.split("==")[0] for line in asked.splitlines() if "==" in line and not line.startswith("#")}
    assert table_packages("need none of them.") == names


def test_every_pin_is_exact():
    for name in ["requirements.txt", "requirements-bench.txt"]:
        for line in (ROOT / name).read_text().splitlines():
            assert re.match(r"#|[\w.-]+==[\w.]+(\s+#.*)?$", line), f"{name}: {line}"


def test_the_parts_of_the_tests_exist():
    run = subprocess.run([ROOT / "test", "--list"], capture_output=True, text=True, check=True)
    parts = set(run.stdout.split())
    named = {word for line in re.findall(r"^\./test (.+?)(?:   |$)", README, re.M) for word in line.split()}
    assert named - {"IoNpy"} == parts
    runner = (ROOT / "tests/run.py").read_text().split("PARTS = {")[1].split("}")[0]
    assert set(re.findall(r'"(\w+)": ', runner)) == parts


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    prose = re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", path.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if not re.match(r"\w+:", target):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_named_in_code_exist(path):
    """`src/...`, `docs/...` and the like in backquotes; placeholders in capitals are none."""
    for name in re.findall(
        r"`((?:src|docs|ops|tests|scripts|examples|include|python|bench|cmake)/[\w./-]*)`", path.read_text()
    ):
        assert (ROOT / name).exists(), f"{path.name}: {name}"
