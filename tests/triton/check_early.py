"""Kernels that are launched early wait before they touch memory: kept files, compiled for an H200 (no GPU is needed).

Run by `./test triton`.
"""

import importlib.util
import os
import re
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)  # kernels are compiled here, not interpreted

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

KEPT = Path(__file__).resolve().parent.parent / "golden" / "triton"
# file, kernel, its blocks (others have 16 elements)
KERNELS = [
    ("gelu_tanh", "gelu_tanh_kernel", {"BLOCK_I0I1": 1024}),
    ("sobel", "sobel_kernel", {"BLOCK_W": 64, "BLOCK_H": 16}),
    ("gather", "gather_kernel", {}),
]


def ptx(kernel, blocks, early):
    signature, constants = {}, {}
    for name in kernel.arg_names:
        if name in blocks or name in ("INDEX", "EARLY") or name.startswith("BLOCK_"):
            signature[name] = "constexpr"
            constants[name] = {"INDEX": tl.int32, "EARLY": early}.get(name, blocks.get(name, 16))
        elif name.endswith("_ptr"):
            signature[name] = {"error_ptr": "*i32", "at_ptr": "*i64", "indices_ptr": "*i64"}.get(name, "*fp32")
        else:
            signature[name] = "i32"
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"num_warps": 4, **({"launch_pdl": True} if early else {})}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]


def main():
    for file, name, blocks in KERNELS:
        spec = importlib.util.spec_from_file_location(file, KEPT / f"{file}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, name)
        text = ptx(kernel, blocks, True)
        access = re.search(r"\b(ld|st|atom|red)\.(volatile\.)?global", text)
        waits, lets = text.find("griddepcontrol.wait"), text.find("griddepcontrol.launch_dependents")
        assert 0 < waits < lets < access.start(), f"{file}: memory is touched before the wait"
        assert "griddepcontrol" not in ptx(kernel, blocks, False), f"{file}: an ordinary launch waits"
    print(f"{len(KERNELS)} kernels wait before they touch memory")


if __name__ == "__main__":
    main()
