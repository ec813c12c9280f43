"""The engine under test, and ONNX Runtime as the yardstick, behind one small interface:
run(wanted, inputs) -> arrays, metadata(key), inputs[i].name.

OPWRIGHT_E2E_ENGINE=onnxruntime puts ONNX Runtime on both sides, to check the harness itself.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples"), str(Path(__file__).parent)]


class OrtSession:
    def __init__(self, path):
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = self.session.get_inputs()

    def run(self, wanted, inputs):
        return self.session.run(wanted, inputs)

    def metadata(self, key):
        return self.session.get_modelmeta().custom_metadata_map.get(key)


@pytest.fixture(scope="session")
def open_reference():
    return OrtSession


@pytest.fixture(scope="session")
def open_model():
    engine = os.environ.get("OPWRIGHT_E2E_ENGINE", "opwright")
    if engine == "onnxruntime":
        return OrtSession
    assert engine == "opwright", f"OPWRIGHT_E2E_ENGINE is '{engine}', neither opwright nor onnxruntime"
    import opwright_session

    opwright_session.version()  # a library that cannot be loaded fails every test that asks for it
    return opwright_session.Session
