"""Runs a model on ONNX Runtime for Opwright: argument 1 the model, argument 2 a folder with in.npz; leaves out.npz there."""

import json
import sys


def main():
    path, folder = sys.argv[1:3]
    try:
        import numpy
        import onnxruntime
    except ModuleNotFoundError as error:
        return {"error": f"ONNX Runtime is not installed in {sys.executable}", "missing": error.name}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        with numpy.load(f"{folder}/in.npz") as given:
            outputs = session.run(None, {name: given[name] for name in given.files})
        numpy.savez(f"{folder}/out.npz", **{str(i): numpy.asarray(x) for i, x in enumerate(outputs)})
    except Exception as error:
        return {"error": f"ONNX Runtime can't run '{path}': {str(error).splitlines()[0]}"}
    return {"outputs": len(outputs)}


print(json.dumps(main()), flush=True)
