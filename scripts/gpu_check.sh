#!/usr/bin/env bash
# Checks and measures the CUDA target on a machine with an NVIDIA GPU; part of scripts/gpu_bundle.sh.
#   gpu_check.sh OUTPUT [PART...]     parts: models, projects, verify, shapes, sanitize, bench, gemm, peers; default: all
# Most can be limited: verify=softmax,fold, projects=relu (operators), shapes=total, bench=soft,layer, gemm=4096 (parts of
# names).
# Writes OUTPUT/models.txt, projects.txt, verify.json, shapes.json, sanitize.txt, bench.json, gemm.json and peers.json.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: gpu_check.sh OUTPUT [PART...]}
shift
parts=${*:-models projects verify shapes sanitize bench gemm peers}
mkdir -p "$out"
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPWRIGHT_CACHE_DIR=${OPWRIGHT_CACHE_DIR:-/tmp/opwright-cache} OPWRIGHT_CACHE_MB=4096
# NVRTC comes with torch where no toolkit is installed.
if [[ -z ${OPWRIGHT_NVRTC:-} ]]; then
    found=$(python3 - <<'P' 2>/dev/null
import glob, os, site, sys
roots = site.getsitepackages() + [p for p in sys.path if p.endswith("-packages")]
for root in roots:
    for f in sorted(glob.glob(os.path.join(root, "nvidia/*/lib/libnvrtc.so.1[23]"))):
        print(f)
P
)
    [[ -n $found ]] && export OPWRIGHT_NVRTC=$(echo "$found" | head -1)
fi
echo "NVRTC: ${OPWRIGHT_NVRTC:-found by the program itself}"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv || true
status=0
for part in $parts; do
    echo "== $part =="
    start=$SECONDS
    only=()
    [[ $part == *=* ]] && IFS=, read -ra only <<<"${part#*=}"
    part=${part%%=*}
    case $part in
    models) # each model against the reference, kernel by kernel, and its profile
        for model in "$here"/models/*.onnx; do
            for command in verify profile; do
                echo "--- $command $(basename "$model")"
                timeout 120 "$here/opwright" $command "$model" --target cuda ${sizes:-} || status=1
            done
        done >"$out/models.txt" 2>&1
        grep -E '^---|kernels, |launch gaps|wrong|error' "$out/models.txt"
        ;;
    projects) # stand-alone projects, built by nvcc and run
        names=("${only[@]:-}")
        [[ -n ${names[0]} ]] || names=(relu gelu softmax layer_norm "$here/examples/matmul_prelu.op" gather scatter_elements
            max_pool conv running_sum)
        for name in "${names[@]}"; do
            folder=$(mktemp -d)
            (
                set -e
                "$here/opwright" emit "$name" --target cuda -o "$folder"
                cd "$folder"
                nvcc -O2 -arch=native -std=c++17 -o check ./*_launch.cu ./*_test.cu ./*_reference.c
                timeout 60 ./check
            ) >"$folder/log" 2>&1 && verdict=OK || verdict=FAIL status=1
            { echo "--- $name: $verdict"; cat "$folder/log"; } >>"$out/projects.txt"
            echo "$name: $verdict, $(tail -1 "$folder/log")"
            rm -rf "$folder"
        done
        ;;
    verify)
        n=$(nproc)
        seq 0 $((n - 1)) | xargs -P "$n" -I{} timeout 480 "$here/opwright_gpu" verify "$out/verify-{}.json" --shard {}/"$n" "${only[@]}" \
            >"$out/verify.txt" 2>&1 || status=1
        cat "$out/verify.txt"
        python3 - "$out" <<'P'
import glob, json, os, sys
out = sys.argv[1]
operators = []
device = ""
for f in glob.glob(os.path.join(out, "verify-*.json")):
    part = json.load(open(f))
    device = part["device"]
    operators += part["operators"]
    os.remove(f)
operators.sort(key=lambda o: o["name"])
json.dump({"device": device, "operators": operators}, open(os.path.join(out, "verify.json"), "w"), indent=1)
passed = sum(o["passed"] for o in operators)
print(f"{device}: {passed} of {len(operators)} operators pass, {sum(o['cases'] for o in operators)} cases, "
      f"{sum(o['failed'] for o in operators)} failed")
P
        ;;
    sanitize)
        for tool in memcheck racecheck; do
            timeout 200 compute-sanitizer --tool $tool --error-exitcode 9 "$here/opwright_gpu" verify "$out/sanitized.json" \
                relu softmax matmul transpose gather scatter_elements conv max_pool layer_norm >"$out/sanitize-$tool.txt" 2>&1 || status=1
            tail -3 "$out/sanitize-$tool.txt"
            timeout 200 compute-sanitizer --tool $tool --error-exitcode 9 "$here/opwright_gpu" shapes "$out/sanitized.json" --random \
                >"$out/sanitize-$tool-shapes.txt" 2>&1 || status=1
            tail -3 "$out/sanitize-$tool-shapes.txt"
        done
        cat "$out"/sanitize-*.txt >"$out/sanitize.txt"
        rm -f "$out"/sanitize-*.txt "$out/sanitized.json"
        ;;
    shapes | bench | gemm) timeout 400 "$here/opwright_gpu" $part "$out/$part.json" "${only[@]}" || status=1 ;;
    peers) timeout 400 python3 "$here/peers.py" "$out/peers.json" || status=1 ;;
    *) echo "there is no part $part" && exit 2 ;;
    esac
    echo "($part: $((SECONDS - start)) s)"
done
exit $status
