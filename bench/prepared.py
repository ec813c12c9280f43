"""A call of a compiled operator through the C interface, as cheap as Python can make it: what benchmarks time."""

from ctypes import CFUNCTYPE, addressof, c_int, c_size_t, c_void_p, cast


class PreparedCall:
    """The operator with its arguments described once: a call makes its outputs and frees them. Functions take addresses as
    numbers, which costs half of what checking pointers' types does."""

    def __init__(self, session, operator, arrays):
        self.session, self.operator, self.fed = session, operator, session._Inputs(arrays)  # kept as long as their addresses
        run, free = session._abi().opw_operator_run, session._abi().opw_tensors_free
        self.run = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p)(cast(run, c_void_p).value)
        self.free = CFUNCTYPE(None, c_void_p)(cast(free, c_void_p).value)
        self.result = c_void_p()
        self.arguments = (cast(operator._handle, c_void_p).value, cast(self.fed.tensors, c_void_p).value, self.fed.count,
                          addressof(self.result), None)  # fmt: skip

    def values(self):
        """The first output."""
        assert self.run(*self.arguments) == 0, "the operator did not run"
        return self.session._take_outputs(self.result)[0]

    def __call__(self):
        assert self.run(*self.arguments) == 0, "the operator did not run"
        self.free(self.result)
