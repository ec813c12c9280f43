#!/usr/bin/env bash
# Packs what a machine with a GPU needs to check and measure the CUDA target, where nothing can be installed:
#   scripts/gpu_bundle.sh [FILE [MODEL.onnx...]]     default build/gpu_bundle.tar.gz
# On that machine: unpack it and run gpu_check.sh OUTPUT_FOLDER from the unpacked folder. The command is in it, linked
# with LLVM's archives, and runs the models given.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
file=${1:-build/gpu_bundle.tar.gz}
build=${OPWRIGHT_BUILD_DIR:-build}
scripts/setup.sh --static
scripts/build.sh opwright_gpu
OPWRIGHT_BUILD_DIR=build-static OPWRIGHT_BUILD_NAME="Static build" \
    OPWRIGHT_CMAKE_ARGS="-DOPWRIGHT_STATIC_LLVM=ON -DOPWRIGHT_TESTS=OFF -DOPWRIGHT_BENCH=OFF" scripts/build.sh opwright
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib" "$folder/models"
for program in "$build/opwright_gpu" build-static/opwright; do
    strip -o "$folder/${program##*/}" "$program"
    # Libraries of ours that another system may lack; those of the C library stay behind.
    ldd "$program" | awk '/=> \// { print $3 }' |
        grep -Ev '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so' | xargs -r -I{} cp -L {} "$folder/lib/"
done
for model in "${@:2}"; do cp "$model" "$folder/models/"; done
cp -r scripts/gpu_check.sh bench/gpu/peers.py examples "$folder/"
mkdir -p "$(dirname "$file")"
tar -C "$folder" -cf - . | case $file in *.xz) xz -T0 ;; *) gzip ;; esac >"$file"
echo "$file ($(du -h "$file" | cut -f1))"
