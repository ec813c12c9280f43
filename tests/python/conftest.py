import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture
def opwright(tmp_path):
    """Runs build/opwright with arguments, in a scratch folder; returns (exit code, standard output, standard error)."""
    import subprocess

    def run(*arguments, **more):
        done = subprocess.run(
            [BUILD / "opwright", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            **more,
        )
        return done.returncode, done.stdout, done.stderr

    return run
