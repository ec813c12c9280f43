"""Runs emitted Triton files for Opwright: one JSON request a line on stdin, one JSON answer a line on stdout.

    {"ready": ...}                                          first answer: versions, and where kernels run
    {"file", "function", "inputs": [{"file", "dtype", "shape"}], "keywords", "outputs": [file], "timed"}
        ->  {"outputs": [{"dtype", "shape"}], "seconds"} | {"error": "...", "kind": "..."}

Tensors travel as files of their bare elements. Kernels run on the GPU where there is one, else under
Triton's interpreter, which is brought to what the hardware does in the places listed at `correct_interpreter`.
"""

import importlib.util
import json
import os
import sys
import traceback


def find_device():
    import torch

    if torch.cuda.is_available():
        return "cuda"
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is decorated
    return "cpu"


def correct_interpreter():
    """Where Triton's interpreter computes otherwise than a GPU.

    - A fused multiply-add rounds twice.
    - The maximum and minimum that propagate NaN are NumPy's, which leave the sign of a zero open.
    - Reductions and scans with a combine function of one's own go element by element in Python: the same function is
      applied to whole slices instead.
    - The result of a comparison is called a number of the type compared, which turns it into one when it is spread.
    - NumPy 2.4 no longer turns arrays of one element into the integers that `range` needs.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter as ti

    def fma(self, x, y, z):
        wide = np.float64 if z.data.dtype == np.float32 else np.longdouble
        r = x.data.astype(wide) * y.data.astype(wide) + z.data.astype(wide)
        return ti.TensorHandle(r.astype(z.data.dtype), z.dtype.scalar)

    def maximum(self, a, b):
        r = np.maximum(a.data, b.data)
        r = np.where(
            (a.data == 0) & (b.data == 0) & ~(np.signbit(a.data) & np.signbit(b.data)),
            r.dtype.type(0),
            r,
        )
        return ti.TensorHandle(r, a.dtype.scalar)

    def minimum(self, a, b):
        r = np.minimum(a.data, b.data)
        r = np.where(
            (a.data == 0) & (b.data == 0) & (np.signbit(a.data) | np.signbit(b.data)),
            -r.dtype.type(0),
            r,
        )
        return ti.TensorHandle(r, a.dtype.scalar)

    ti.InterpreterBuilder.create_fma = fma
    ti.InterpreterBuilder.create_maximumf = maximum
    ti.InterpreterBuilder.create_minimumf = minimum

    for name in dir(ti.InterpreterBuilder):
        if name.startswith(("create_fcmp", "create_icmp")):
            compare = getattr(ti.InterpreterBuilder, name)
            boolean = lambda self, a, b, compare=compare: ti.TensorHandle(
                compare(self, a, b).data != 0, tl.int1
            )
            setattr(ti.InterpreterBuilder, name, boolean)

    def combine(op, left, right, types):
        to = lambda data, dtype: op.to_tensor(data, dtype)
        r = op.combine_fn.fn(*map(to, left, types), *map(to, right, types))
        r = r if isinstance(r, tuple) else (r,)
        return [np.asarray(t.handle.data).reshape(left[0].shape) for t in r]

    def reduce(self, input):
        types = [t.dtype for t in input]
        shape = input[0].handle.data.shape
        axis = self.axis
        parts = [
            t.handle.data.reshape(-1) if axis is None else np.moveaxis(t.handle.data, axis, 0)
            for t in input
        ]
        while len(parts[0]) > 1:
            half = len(parts[0]) // 2
            rest = [p[2 * half :] for p in parts]
            folded = combine(
                self, [p[:half] for p in parts], [p[half : 2 * half] for p in parts], types
            )
            parts = [np.concatenate(pair) for pair in zip(folded, rest)]
        result = [p[0] for p in parts]
        if self.keep_dims:
            result = [
                p.reshape([1] * len(shape)) if axis is None else np.expand_dims(p, axis)
                for p in result
            ]
        return [self.to_tensor(p, t) for p, t in zip(result, types)]

    def scan(self, input):
        types = [t.dtype for t in input]
        parts = [np.moveaxis(t.handle.data, self.axis, 0).copy() for t in input]
        step = 1
        while step < len(parts[0]):
            before = [
                np.concatenate([p[:step], p[:-step]]) for p in parts
            ]  # blocks stay powers of two
            sums = combine(self, before, parts, types)
            parts = [np.concatenate([p[:step], s[step:]]) for p, s in zip(parts, sums)]
            step *= 2
        return [self.to_tensor(np.moveaxis(p, 0, self.axis), t) for p, t in zip(parts, types)]

    ti.ReduceOps.generic_reduce = reduce
    ti.ScanOps.generic_scan = scan

    patch_tensor = ti._patch_lang_tensor

    def patch(tensor, scope):
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))
        scope.set_attr(tensor, "__bool__", lambda self: bool(self.handle.data.reshape(-1)[0]))

    if hasattr(ti, "_LangPatchScope"):
        ti._patch_lang_tensor = patch


TYPES = {
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
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
modules = {}


def load(path):
    if path not in modules:
        spec = importlib.util.spec_from_file_location(f"emitted_{len(modules)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[path] = module
    return modules[path]


def read(spec, device):
    import numpy as np
    import torch

    dtype = TYPES[spec["dtype"]]
    data = np.fromfile(spec["file"], dtype=np.uint16 if dtype == "bfloat16" else dtype).reshape(
        spec["shape"]
    )
    tensor = torch.from_numpy(data)
    return (tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor).to(device)


def write(path, tensor):
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.cpu().contiguous()
    (tensor.view(torch.uint16) if dtype == "bfloat16" else tensor).numpy().tofile(path)
    return {"shape": list(tensor.shape), "dtype": next(k for k, v in TYPES.items() if v == dtype)}


def answer(request, device):
    if "forget" in request:
        modules.pop(request["forget"], None)
        return {"ok": True}
    function = getattr(load(request["file"]), request["function"])
    inputs = [read(spec, device) for spec in request["inputs"]]
    try:
        outputs = function(*inputs, **request["keywords"])
    except (ValueError, IndexError) as error:  # what the function says about its arguments
        return {"error": str(error), "kind": "refused"}
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    reply = {"outputs": [write(path, tensor) for path, tensor in zip(request["outputs"], outputs)]}
    if request["timed"]:
        import triton.testing

        call = lambda: function(*inputs, **request["keywords"])
        reply["seconds"] = 1e-3 * triton.testing.do_bench(call, quantiles=[0])
    return reply


def main():
    replies, sys.stdout = sys.stdout, sys.stderr  # what a kernel prints is no answer
    try:
        device = find_device()
        import numpy as np
        import torch
        import triton

        np.seterr(all="ignore")
        torch.set_num_threads(1)
        if device == "cpu":
            correct_interpreter()
        first = {
            "ready": f"torch {torch.__version__}, triton {triton.__version__}",
            "device": device,
        }
    except ImportError as error:
        first = {"error": str(error), "kind": "missing"}
    print(json.dumps(first), file=replies, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), device)
        except Exception:
            reply = {"error": traceback.format_exc(limit=-3), "kind": "failed"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
