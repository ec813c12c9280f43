"""Calls a function of a person's Python file for Opwright: one JSON request a line on stdin, one JSON answer on stdout.

    argument 1: the file, argument 2: the function
    {"ready": "numpy 2.4"} or {"error", "missing"}            first answer
    {"path", "inputs", "outputs", "attributes"}  ->  {"remarks"} or {"error"}

Tensors lie in the file `path`, each between the bytes "begin" and "end" at "offset" with "strides" in elements. A function
takes and returns NumPy arrays, or torch tensors where its file imports torch: on the GPU where there is one.
"""

import importlib.util
import json
import mmap
import os
import sys
import traceback

NUMPY = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


class Refused(Exception):
    """What the function can't be asked for, or what is wrong with what it returned."""


def load(path, name):
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        near = sorted(n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == spec.name)
        raise Refused(f"'{path}' has no function '{name}'; it has: {', '.join(near) or 'none'}")
    if type(function).__name__ == "JITFunction":
        raise Refused(f"'{name}' is a Triton kernel; name the Python function that launches it")
    if not callable(function):
        raise Refused(f"'{name}' of '{path}' is no function")
    return function


class NumpyArrays:
    def __init__(self):
        import numpy

        self.np = numpy
        self.about = f"numpy {numpy.__version__}"

    def dtype(self, name):
        if name == "bf16":
            try:
                import ml_dtypes
            except ImportError:
                raise Refused("NumPy has no bf16 of its own; install ml_dtypes") from None
            return self.np.dtype(ml_dtypes.bfloat16)
        return self.np.dtype(NUMPY[name])

    def view(self, memory, spec):
        dtype = self.dtype(spec["type"])
        strides = [s * dtype.itemsize for s in spec["strides"]]
        if 0 in spec["shape"]:
            return self.np.empty(spec["shape"], dtype)
        return self.np.ndarray(spec["shape"], dtype, buffer=memory, offset=spec["offset"], strides=strides)

    def begin(self, memory, specs):
        return [self.view(memory, s) for s in specs]

    def end(self, memory, specs, inputs):
        pass  # inputs lie in the shared memory

    def store(self, memory, spec, result, name):
        array = self.np.asarray(result)
        out = self.view(memory, spec)
        if array.shape != out.shape or array.dtype != out.dtype:
            raise Refused(
                f"it returned {array.dtype}{list(array.shape)} for {name}, where {out.dtype}{list(out.shape)} is declared"
            )
        out[...] = array

    def shares(self, a, b):
        return isinstance(a, self.np.ndarray) and a.size > 0 and self.np.may_share_memory(a, b)


class TorchTensors:
    """Each input is a view of its whole storage, so that strides and what lies around it are kept on the GPU too."""

    def __init__(self):
        import numpy
        import torch

        self.np, self.torch = numpy, torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        where = torch.cuda.get_device_name() if self.device == "cuda" else "the CPU"
        if self.device == "cpu" and "triton" in sys.modules:
            where = "Triton's interpreter"
        self.about = f"torch {torch.__version__} on {where}"
        self.storages = []

    def dtype(self, name):
        return self.torch.bfloat16 if name == "bf16" else getattr(self.torch, NUMPY[name])

    def begin(self, memory, specs):
        self.storages, views = [], []
        for s in specs:
            if any(x < 0 for x in s["strides"]):
                raise Refused("torch has no tensors with negative strides")
            dtype = self.dtype(s["type"])
            size = self.torch.empty((), dtype=dtype).element_size()
            # From a multiple of the element on: torch counts offsets in elements.
            start = s["begin"] + (s["offset"] - s["begin"]) % size
            count = (s["end"] - start) // size
            host = self.np.frombuffer(memory, self.np.uint8, count * size, start)
            storage = self.torch.from_numpy(host).to(self.device).view(dtype)
            self.storages.append((storage, host))
            offset = (s["offset"] - start) // size
            views.append(self.torch.as_strided(storage, s["shape"], s["strides"], offset))
        return views

    def end(self, memory, specs, inputs):
        for storage, host in self.storages:
            if self.device == "cuda":
                host[:] = storage.view(self.torch.uint8).cpu().numpy()

    def store(self, memory, spec, result, name):
        torch = self.torch
        if not isinstance(result, torch.Tensor):
            raise Refused(f"it returned a {type(result).__name__} for {name}, and not a tensor")
        dtype = self.dtype(spec["type"])
        if list(result.shape) != spec["shape"] or result.dtype != dtype:
            short = lambda t: str(t).removeprefix("torch.")
            raise Refused(
                f"it returned {short(result.dtype)}{list(result.shape)} for {name}, where "
                f"{short(dtype)}{spec['shape']} is declared"
            )
        if result.numel() == 0:
            return
        data = result.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        self.np.frombuffer(memory, self.np.uint8, data.size, spec["offset"])[:] = data

    def shares(self, a, b):
        return (
            isinstance(a, self.torch.Tensor)
            and a.numel() > 0
            and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        )


def answer(function, arrays, request):
    with open(request["path"], "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    inputs = arrays.begin(memory, request["inputs"])
    results = function(*inputs, **request["attributes"])
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    outputs = request["outputs"]
    if len(results) != len(outputs):
        raise Refused(f"it returned {len(results)} results, where {len(outputs)} are declared")
    remarks = []
    for result, spec in zip(results, outputs):
        for given, of in zip(inputs, request["inputs"]):
            if arrays.shares(result, given):
                remarks.append(f"{spec['name']} shares memory with {of['name']}: the function returns a view")
    for result, spec in zip(results, outputs):
        arrays.store(memory, spec, result, spec["name"])
    arrays.end(memory, request["inputs"], inputs)
    return {"remarks": remarks}


def frames(error):
    """The exception and its place in the person's file, in one line."""
    trace = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(trace) if f.filename == sys.argv[1]), None)
    where = f" (line {place.lineno}: {place.line})" if place else ""
    return f"{type(error).__name__}: {error}{where}"


def main():
    path, name = sys.argv[1:3]
    replies, sys.stdout = sys.stdout, sys.stderr  # what the function prints is no answer
    say = lambda reply: print(json.dumps(reply), file=replies, flush=True)
    try:
        import numpy

        numpy.seterr(all="ignore")
        gpu = False
        if importlib.util.find_spec("torch"):
            # Decorated kernels ask for the interpreter when the file is loaded.
            with open(path, "rb") as file:
                if b"triton" in file.read():
                    import torch

                    gpu = torch.cuda.is_available()
                    if not gpu:
                        os.environ.setdefault("TRITON_INTERPRET", "1")
        function = load(path, name)
        arrays = TorchTensors() if "torch" in sys.modules else NumpyArrays()
    except ModuleNotFoundError as error:
        return say({"error": f"'{path}' needs the Python package '{error.name}'", "missing": error.name})
    except Refused as error:
        return say({"error": str(error)})
    except BaseException as error:
        return say({"error": f"'{path}' can't be loaded: {frames(error)}"})
    say({"ready": arrays.about, "torch": isinstance(arrays, TorchTensors)})
    for line in sys.stdin:
        try:
            reply = answer(function, arrays, json.loads(line))
        except Refused as error:
            reply = {"error": str(error)}
        except Exception as error:
            reply = {"error": f"it raised {frames(error)}"}
        say(reply)


if __name__ == "__main__":
    main()
