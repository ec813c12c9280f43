import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))
sys.path.insert(0, str(Path(__file__).parent))

import browser as chromium  # noqa: E402 (beside this file)


@pytest.fixture(scope="session")
def browser():
    if chromium.find() is None:
        pytest.skip("no Chromium here (Debian: scripts/setup.sh --browser)")
    with chromium.Browser() as b:
        yield b


@pytest.fixture(scope="session")
def opwright():
    """Runs build/opwright in a folder; returns its standard output. The exit code has to be 0."""

    def run(folder, *arguments):
        command = [BUILD / "opwright", *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=300)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run
