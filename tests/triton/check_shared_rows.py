"""Long rows that several programs share, as emitted, against torch in float64.

    check_shared_rows.py [FOLDER]     files emitted from bench/gpu/triton_ops.op; without it they are emitted here

Run by `./test triton`. The programs of a row await each other. Triton's interpreter runs one after the other, so that
without a GPU each program is a process of its own here, all at the same time, on memory that they share; with one, they
also run in several streams at once and in a graph. Rows with NaN, infinities and one value alone among them, no row, and
more rows than there are programs.
"""

import os
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import torch

from check_long_rows import DEVICE, OPERATORS, emitted, rows_of

LENGTHS = [49153, 65536, 65537, 100001, 131072, 262144]
PROGRAMS = 16  # that run at the same time
SECONDS = 60  # that they may take


class Together:
    """A kernel under the interpreter that runs as one process for each program."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return partial(self.launch, grid[0])

    def launch(self, programs, *arguments, num_warps, maxnreg, launch_cooperative_grid, **constants):
        assert launch_cooperative_grid and programs <= PROGRAMS, f"{programs} programs may not all run"
        for a in arguments:
            if isinstance(a, torch.Tensor) and a.numel():
                a.share_memory_()
        children = []
        for i in range(programs):
            child = os.fork()
            if child == 0:
                self.run_one(i, programs, arguments, constants)
            children.append(child)
        end = time.monotonic() + SECONDS
        codes = {}
        while len(codes) < programs and time.monotonic() < end:
            for child in set(children) - set(codes):
                if os.waitpid(child, os.WNOHANG)[0]:
                    codes[child] = True
            time.sleep(0.002)
        for child in set(children) - set(codes):
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert len(codes) == programs, f"{programs - len(codes)} of {programs} programs wait for ever"

    def run_one(self, index, programs, arguments, constants):
        import triton.language as tl
        from triton.runtime import interpreter

        def number(value):
            return lambda axis: interpreter.TensorHandle(np.array([value], dtype=np.int32), tl.int32)

        interpreter.interpreter_builder.create_get_program_id = number(index)
        interpreter.interpreter_builder.create_get_num_programs = number(programs)
        # Not the whole memory back at the end: the others still write there.
        interpreter.GridExecutor._restore_args_dev = lambda *_: None
        try:
            self.kernel[(1,)](*arguments, **constants)
        except Exception:
            traceback.print_exc()
        os._exit(0)  # what it did not write shows in the result


def shared(folder, name):
    """The function, which shares rows among at most PROGRAMS programs."""
    function = emitted(folder, name)
    names = function.__globals__
    names["_resident"] = lambda kernel, device, programs: PROGRAMS
    kernel = name + "_shared_kernel"
    if DEVICE == "cpu":
        names[kernel] = Together(names[kernel])
    for other in (name + "_steps_kernel", name + "_rows_kernel"):
        names[other] = None  # another path would fail
    return function


def agree(function, wanted, name, x, more):
    got = function(x.to(DEVICE), *(t.to(DEVICE) for t in more))
    exact = wanted(x.double(), *(t.double() for t in more)).numpy()
    np.testing.assert_allclose(
        got.cpu().double().numpy(),
        exact,
        rtol=2e-5,
        atol=2e-5 * (1e-4 if name == "softmax" else 1),
        err_msg=f"{name} of {tuple(x.shape)} elements",
    )


def streams_and_graphs(function, wanted, vectors):
    """Launches at the same time, and one whose words a graph clears each time."""
    x = [torch.randn(100, 65536, device=DEVICE) for _ in range(4)]
    more = [torch.randn(65536, device=DEVICE) for _ in range(vectors)]
    exact = [wanted(t, *more) for t in x]
    function(x[0], *more)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in x]
    results = []
    for i in range(40):
        with torch.cuda.stream(streams[i % 4]):
            results.append(function(x[i % 4], *more))
    torch.cuda.synchronize()
    for i, result in enumerate(results):
        torch.testing.assert_close(result, exact[i % 4], rtol=1e-4, atol=1e-4)
    graph, given = torch.cuda.CUDAGraph(), x[0].clone()
    with torch.cuda.graph(graph):
        result = function(given, *more)
    for t, e in zip(x, exact):
        given.copy_(t)
        graph.replay()
        torch.testing.assert_close(result, e, rtol=1e-4, atol=1e-4)


def main(folder):
    torch.manual_seed(0)
    cases = 0
    for name, (vectors, wanted) in OPERATORS.items():
        function = shared(folder, name + "_f32")
        for length in LENGTHS if DEVICE == "cuda" or name == "layer_norm" else LENGTHS[:1]:
            more = [torch.randn(length) for _ in range(vectors)]
            for x in (rows_of(length, torch.float32), torch.randn(1, length), torch.empty(0, length)):
                agree(function, wanted, name, x, more)
                cases += 1
        if DEVICE == "cuda":
            agree(function, wanted, name, torch.randn(500, 50004), [torch.randn(50004) for _ in range(vectors)])
            streams_and_graphs(function, wanted, vectors)
            cases += 1
    print(f"{cases} cases of rows that programs share agree with torch")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
