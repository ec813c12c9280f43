"""Runs the checks of emitted Triton files on the GPU: python triton_check.py FOLDER OUT.json

FOLDER holds what `opwright emit OPERATOR --target triton -o FOLDER` wrote. Every file checks itself,
several at once; OUT.json says for each whether it passed, and why not.
"""

import importlib.util
import json
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path


def check(path):
    start = time.monotonic()
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.check()
        result = {"passed": True}
    except Exception as error:
        result = {
            "passed": False,
            "error": f"{type(error).__name__}: {error}"[:2000],
            "trace": traceback.format_exc()[-3000:],
        }
    return {"file": path.name, "seconds": round(time.monotonic() - start, 2), **result}


def main(folder, out):
    import torch
    import triton

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "Triton's interpreter"
    # Most of the time goes into compiling kernels, on the processor.
    with ProcessPoolExecutor(min(os.cpu_count(), 16), get_context("spawn")) as pool:
        results = list(pool.map(check, sorted(Path(folder).glob("*.py"))))
    report = {
        "device": where,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "passed": sum(r["passed"] for r in results),
        "failed": sum(not r["passed"] for r in results),
        "files": results,
    }
    Path(out).write_text(json.dumps(report, indent=1))
    print(f"{where}: {report['passed']} of {len(results)} files agree with their reference")
    for r in results:
        if not r["passed"]:
            print(f"  {r['file']}: {r['error'][:300]}")
    return 0 if report["failed"] == 0 and results else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
