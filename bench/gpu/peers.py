"""torch beside opwright_gpu's kernels: the same cases, data and way of measuring (buffers several times the L2 cache,
used in turn; medians over device events).

    peers.py OUT.json [CASE...]
"""

import json
import sys

import torch

WARM, ROUNDS = 3, 9


def cases():
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        e = torch.empty(0, dtype=dtype).element_size()
        for n in (1 << 22, 1 << 24, 1 << 26, 1 << 28):
            yield f"copy {name} {n}", [(n,)], dtype, lambda a: a.clone(), 2 * e * n, 0
            yield (f"chain {name} {n}", [(n,)] * 3, dtype, lambda a, b, c: torch.relu(a + b) * c, 4 * e * n, 0)
        for k in (256, 1024, 4096, 16384, 32768, 65536):
            m = (1 << 27) // k
            size = 2 * e * m * k
            yield f"soft {name} {m}x{k}", [(m, k)], dtype, lambda x: torch.softmax(x, 1), size, 0
            yield (f"layer {name} {m}x{k}", [(m, k), (k,), (k,)], dtype,
                   lambda x, g, b: torch.nn.functional.layer_norm(x, (x.shape[1],), g, b), size, 0)
            yield (f"rms {name} {m}x{k}", [(m, k), (k,)], dtype,
                   lambda x, g: torch.nn.functional.rms_norm(x, (x.shape[1],), g, 1e-5), size, 0)
        yield f"transpose {name} 8192x8192", [(8192, 8192)], dtype, lambda x: x.t().contiguous(), 2 * e * 8192 * 8192, 0
        yield f"sum {name} 2^28", [(1 << 28,)], dtype, lambda x: x.sum(), e << 28, 0
        yield f"column sums {name} 65536x1024", [(65536, 1024)], dtype, lambda x: x.sum(0), e * 65536 * 1024, 0
        for n in (1024, 4096, 8192):
            if dtype == torch.float32 and n > 4096:
                continue
            yield f"matmul {name} {n}^3", [(n, n), (n, n)], dtype, lambda x, w: x @ w.t(), 3 * e * n * n, 2 * n**3
            yield (f"matmul+prelu {name} {n}^3", [(n, n), (n, n), (n,)], dtype,
                   lambda x, w, a: prelu(x @ w.t(), a), 3 * e * n * n, 2 * n**3)


def prelu(z, a):
    return torch.where(z >= 0, z, a * z)


def time_of(f, sets):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def timed(launches):
        start.record()
        for i in range(launches):
            f(*sets[i % len(sets)])
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / launches

    timed(WARM)
    launches = int(min(max(20.0 / max(timed(3), 1e-3), 5), 400))
    times = sorted(timed(launches) for _ in range(ROUNDS))
    return times[len(times) // 2]


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = sys.argv[2:]
    results = []
    for name, shapes, dtype, f, size, flops in cases():
        if wanted and not any(w in name for w in wanted):
            continue
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        count = int(min(max(4 * l2 / size + 1, 1), 64))
        sets = [[torch.randn(s, device="cuda", dtype=dtype) for s in shapes] for _ in range(count)]
        one = {"case": name}
        for kind in ("eager", "compiled"):
            try:
                if kind == "compiled":
                    torch._dynamo.reset()
                ms = time_of(f if kind == "eager" else torch.compile(f, dynamic=False), sets)
                one[kind + "_ms"] = ms
                one[kind + ("_tflops" if flops else "_tb_per_s")] = (flops or size) / ms / 1e9
            except Exception as problem:  # a peer that fails is a fact to report, not our failure
                one[kind + "_error"] = str(problem)[:200]
        results.append(one)
        print(one, flush=True)
        del sets
    properties = torch.cuda.get_device_properties(0)
    json.dump({"device": properties.name, "torch": torch.__version__, "cases": results}, open(sys.argv[1], "w"), indent=1)


main()
