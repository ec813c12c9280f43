#!/usr/bin/env bash
# Packs what a machine with a GPU needs to check and measure the CUDA target, where nothing can be installed:
#   scripts/gpu_bundle.sh [FILE]     default build/gpu_bundle.tar.gz
# On that machine: unpack it and run gpu_check.sh OUTPUT_FOLDER from the unpacked folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
file=${1:-build/gpu_bundle.tar.gz}
scripts/build.sh opwright_gpu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
strip -o "$folder/opwright_gpu" "${OPWRIGHT_BUILD_DIR:-build}/opwright_gpu"
mkdir "$folder/lib"
# Libraries of ours that another system may lack; those of the C library stay behind.
ldd "${OPWRIGHT_BUILD_DIR:-build}/opwright_gpu" | awk '/=> \// { print $3 }' |
    grep -Ev '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so' | xargs -r -I{} cp -L {} "$folder/lib/"
cp scripts/gpu_check.sh bench/gpu/peers.py "$folder/"
mkdir -p "$(dirname "$file")"
tar -C "$folder" -czf "$file" .
echo "$file ($(du -h "$file" | cut -f1))"
