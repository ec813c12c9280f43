"""ONNX models and declared operators run by Opwright, from NumPy, over the C ABI (include/opwright/opwright.h).

One file, no compilation, needs NumPy alone:

    from opwright_session import Session
    session = Session("model.onnx", threads=2)
    outputs = session.run(None, {"x": array})     # a list, in the model's order of outputs

The library is the one that OPWRIGHT_LIBRARY names, else build/libopwright.so of this checkout, else the system's.
"""

import ctypes
import json
import math
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

__all__ = ["Session", "Library", "Operator", "OpwrightError", "version"]


class OpwrightError(Exception):
    """What Opwright refused, and why. `status` is the C ABI's opw_status by name, `text` the whole rendered message."""

    def __init__(self, status, message, text):
        super().__init__(text)
        self.status, self.message, self.text = status, message, text


_STATUS = {1: "invalid argument", 2: "io", 3: "malformed", 4: "unsupported", 5: "out of memory", 6: "internal"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
    ]


class _Value(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("symbols", POINTER(c_char_p)),
    ]


def _bfloat16():
    import ml_dtypes  # NumPy has no bfloat16 of its own

    return np.dtype(ml_dtypes.bfloat16)


_NUMPY = {
    0: "bool",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "uint8",
    6: "uint16",
    7: "uint32",
    8: "uint64",
    9: "float16",
    11: "float32",
    12: "float64",
}
_BF16 = 10
_CODES = {np.dtype(name): code for code, name in _NUMPY.items()}


def _numpy_dtype(code):
    return _bfloat16() if code == _BF16 else np.dtype(_NUMPY[code])


def _code(dtype):
    if dtype in _CODES:
        return _CODES[dtype]
    if dtype.name == "bfloat16":
        return _BF16
    raise TypeError(
        f"Opwright has no element type for NumPy's {dtype}; convert the array first, e.g. .astype('float32')."
    )


def _load():
    named = os.environ.get("OPWRIGHT_LIBRARY")
    built = Path(__file__).resolve().parent.parent / "build" / "libopwright.so"
    path = named or (str(built) if built.exists() else "libopwright.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise OSError(
            f"Opwright's library '{path}' cannot be loaded ({error}). Build it with ./demo or ./test, or name it in "
            "OPWRIGHT_LIBRARY."
        ) from error
    handle, text, error = c_void_p, c_char_p, POINTER(c_void_p)
    tensors, names = POINTER(_Tensor), POINTER(c_char_p)
    for name, result, arguments in [
        ("opw_abi_version", c_int, []),
        ("opw_version", text, []),
        ("opw_error_status", c_int, [handle]),
        ("opw_error_message", text, [handle]),
        ("opw_error_text", text, [handle]),
        ("opw_error_free", None, [handle]),
        ("opw_string_free", None, [handle]),
        ("opw_options_new", handle, []),
        ("opw_options_set", c_int, [handle, text, text, error]),
        ("opw_options_free", None, [handle]),
        ("opw_tensors_count", c_size_t, [handle]),
        ("opw_tensors_get", c_int, [handle, c_size_t, tensors, error]),
        ("opw_tensors_free", None, [handle]),
        ("opw_model_load", c_int, [text, handle, POINTER(handle), error]),
        ("opw_model_load_bytes", c_int, [text, c_size_t, handle, POINTER(handle), error]),
        ("opw_model_free", None, [handle]),
        ("opw_model_input_count", c_size_t, [handle]),
        ("opw_model_input", c_int, [handle, c_size_t, POINTER(_Value), error]),
        ("opw_model_output_count", c_size_t, [handle]),
        ("opw_model_output", c_int, [handle, c_size_t, POINTER(_Value), error]),
        ("opw_model_metadata", text, [handle, text]),
        ("opw_model_run", c_int, [handle, tensors, c_size_t, names, c_size_t, POINTER(handle), error]),
        ("opw_model_profile_json", c_int, [handle, tensors, c_size_t, handle, POINTER(handle), error]),
        ("opw_library_parse", c_int, [text, text, POINTER(handle), error]),
        ("opw_library_free", None, [handle]),
        ("opw_library_count", c_size_t, [handle]),
        ("opw_library_operator", text, [handle, c_size_t]),
        ("opw_library_explain_json", c_int, [handle, text, POINTER(handle), error]),
        ("opw_operator_compile", c_int, [handle, text, text, handle, POINTER(handle), error]),
        ("opw_operator_run", c_int, [handle, tensors, c_size_t, POINTER(handle), error]),
        ("opw_operator_free", None, [handle]),
        ("opw_doctor_json", c_int, [POINTER(handle), error]),
    ]:
        try:
            function = getattr(library, name)
        except AttributeError as missing:
            raise OSError(
                f"Opwright's library '{path}' lacks the function {name}: it is older than this file. Build it anew."
            ) from missing
        function.restype, function.argtypes = result, arguments
    if library.opw_abi_version() < 1:
        raise OSError(f"'{path}' has ABI version {library.opw_abi_version()}, and 1 is needed. Build Opwright anew.")
    return library


_library = None


def _abi():
    global _library
    if _library is None:
        _library = _load()
    return _library


def _call(function, *arguments):
    error = c_void_p()
    status = function(*arguments, byref(error))
    if status == 0:
        return
    try:
        message = _abi().opw_error_message(error) or b"no message"
        text = _abi().opw_error_text(error) or message
        raise OpwrightError(_STATUS.get(status, str(status)), message.decode(), text.decode())
    finally:
        _abi().opw_error_free(error)


def version():
    return _abi().opw_version().decode()


def _take_json(pointer):
    try:
        return json.loads(ctypes.string_at(pointer).decode())
    finally:
        _abi().opw_string_free(pointer)


def doctor():
    """What `opwright doctor --json` prints."""
    text = c_void_p()
    _call(_abi().opw_doctor_json, byref(text))
    return _take_json(text)


class _Options:
    def __init__(self, values):
        self.handle = c_void_p(_abi().opw_options_new())
        for name, value in values.items():
            if value is not None:
                _call(_abi().opw_options_set, self.handle, name.encode(), str(value).encode())

    def __del__(self):
        if _library is not None and getattr(self, "handle", None):
            _library.opw_options_free(self.handle)


class _Inputs:
    """Arrays as the ABI's tensors; holds everything that the pointers lead to."""

    def __init__(self, arrays):
        named = arrays.items() if isinstance(arrays, dict) else ((None, a) for a in arrays)
        self.count = len(arrays)
        self.tensors = (_Tensor * max(1, self.count))()
        self.alive = []
        for slot, (name, array) in zip(self.tensors, named):
            array = np.asarray(array)
            array = np.require(array.astype(array.dtype.newbyteorder("="), copy=False), requirements="CA")
            shape = (c_int64 * max(1, array.ndim))(*array.shape)
            slot.name = name.encode() if name is not None else None
            slot.dtype, slot.rank, slot.shape, slot.data = _code(array.dtype), array.ndim, shape, array.ctypes.data
            self.alive.append((array, shape))


class _Results:
    """What a run returned; freed when the last array over it is."""

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        if _library is not None:
            _library.opw_tensors_free(self.handle)


def _take_outputs(handle):
    """Arrays over the memory of what a run returned."""
    results, arrays = _Results(handle), []
    for index in range(_abi().opw_tensors_count(handle)):
        tensor = _Tensor()
        _call(_abi().opw_tensors_get, handle, index, byref(tensor))
        shape, dtype = tuple(tensor.shape[i] for i in range(tensor.rank)), np.dtype(_numpy_dtype(tensor.dtype))
        size = math.prod(shape) * dtype.itemsize
        if size:
            memory = (ctypes.c_char * size).from_address(tensor.data)
            memory.owner = results
            arrays.append(np.frombuffer(memory, dtype).reshape(shape))
        else:
            arrays.append(np.empty(shape, dtype))
    return arrays


class Value:
    """An input or output: name, NumPy dtype, shape (numbers, or a name or None where an extent is symbolic)."""

    def __init__(self, raw):
        self.name = raw.name.decode()
        self.dtype = _numpy_dtype(raw.dtype)
        self.shape = None
        if raw.rank >= 0:
            self.shape = tuple(
                raw.shape[i] if raw.shape[i] >= 0 else (raw.symbols[i] or b"").decode() or None
                for i in range(raw.rank)
            )

    def __repr__(self):
        return f"Value({self.name!r}, {self.dtype}, {self.shape})"


class Session:
    """One ONNX model, from a path or from bytes. `threads`, `cache`, `vector`, `fuse` and `winograd` as opw_options_set documents them."""

    def __init__(self, model, threads=None, cache=None, vector=None, fuse=None, winograd=None):
        self._handle = c_void_p()
        options = _Options({"threads": threads, "cache": cache, "vector": vector, "fuse": fuse, "winograd": winograd})
        if isinstance(model, bytes):
            _call(_abi().opw_model_load_bytes, model, len(model), options.handle, byref(self._handle))
        else:
            _call(_abi().opw_model_load, os.fsencode(model), options.handle, byref(self._handle))
        self.inputs = self._values(_abi().opw_model_input_count, _abi().opw_model_input)
        self.outputs = self._values(_abi().opw_model_output_count, _abi().opw_model_output)

    def __del__(self):
        if _library is not None and getattr(self, "_handle", None):
            _library.opw_model_free(self._handle)

    def _values(self, count, get):
        values = []
        for index in range(count(self._handle)):
            raw = _Value()
            _call(get, self._handle, index, byref(raw))
            values.append(Value(raw))
        return values

    def metadata(self, key):
        """The text stored in the model under `key`, or None."""
        text = _abi().opw_model_metadata(self._handle, key.encode())
        return None if text is None else text.decode()

    def run(self, wanted, inputs):
        """Arrays of the outputs named in `wanted` (None: all, in order) for `inputs`, a dict by name or a list.

        An input that is no array yet (nested lists of numbers) becomes one of the dtype that the model declares.
        """
        fed, result = _Inputs(self._arrays(inputs)), c_void_p()
        names = [n.encode() for n in wanted or ()]
        _call(
            _abi().opw_model_run,
            self._handle,
            fed.tensors,
            fed.count,
            (c_char_p * max(1, len(names)))(*names),
            len(names),
            byref(result),
        )
        return _take_outputs(result)

    def _arrays(self, inputs):
        declared = {v.name: v.dtype for v in self.inputs}
        order = list(declared)
        as_array = lambda key, x: x if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x, declared.get(key))
        if isinstance(inputs, dict):
            return {name: as_array(name, x) for name, x in inputs.items()}
        return [as_array(order[i] if i < len(order) else None, x) for i, x in enumerate(inputs)]

    def profile(self, inputs, warmup=None, repeats=None):
        """What `opwright profile MODEL --json` prints, for these inputs."""
        fed, text = _Inputs(self._arrays(inputs)), c_void_p()
        options = _Options({"warmup": warmup, "repeats": repeats})
        _call(_abi().opw_model_profile_json, self._handle, fed.tensors, fed.count, options.handle, byref(text))
        return _take_json(text)


class Library:
    """The operators that one text declares."""

    def __init__(self, text, name=None):
        self._handle = c_void_p()
        _call(_abi().opw_library_parse, text.encode(), name.encode() if name else None, byref(self._handle))
        count = _abi().opw_library_count(self._handle)
        self.operators = [_abi().opw_library_operator(self._handle, i).decode() for i in range(count)]

    def __del__(self):
        if _library is not None and getattr(self, "_handle", None):
            _library.opw_library_free(self._handle)

    def explain(self, operator):
        """What is derived from a declaration: the JSON of `opwright explain`."""
        text = c_void_p()
        _call(_abi().opw_library_explain_json, self._handle, operator.encode(), byref(text))
        return _take_json(text)


class Operator:
    """A compiled operator of `library`, or with None of the built-in library. Called with arrays, in order or by name."""

    def __init__(self, library, name, attributes="", **options):
        self._handle, self._library = c_void_p(), library
        settings = _Options(options)
        _call(
            _abi().opw_operator_compile,
            library._handle if library else None,
            name.encode(),
            attributes.encode(),
            settings.handle,
            byref(self._handle),
        )

    def __del__(self):
        if _library is not None and getattr(self, "_handle", None):
            _library.opw_operator_free(self._handle)

    def __call__(self, *arrays, **named):
        fed, result = _Inputs(named or list(arrays)), c_void_p()
        _call(_abi().opw_operator_run, self._handle, fed.tensors, fed.count, byref(result))
        return _take_outputs(result)
