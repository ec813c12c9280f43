#!/usr/bin/env bash
# Configures and builds into build/ (or the folder that OPWRIGHT_BUILD_DIR names).
#   scripts/build.sh [TARGET...]          no target: everything
#   OPWRIGHT_CMAKE_ARGS="-D..."           more arguments for CMake
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

folder=${OPWRIGHT_BUILD_DIR:-build}
what=${OPWRIGHT_BUILD_NAME:-Build}
log=$(basename "$folder")
read -ra cmake_args <<<"${OPWRIGHT_CMAKE_ARGS:-}"

# A compiler of template-heavy files takes up to about 1.5 GB: no more jobs than the memory bears.
jobs=$(nproc)
memory=$(awk '/MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
((memory >= jobs)) || jobs=$((memory > 1 ? memory : 1))

start=$(now)
mkdir -p "$logs"
: >"$logs/$log.log"
if [[ ! -f $folder/build.ninja ]] || ! cmp -s <(echo "${cmake_args[*]}") "$folder/opwright-cmake-args"; then
    logged "$log" "$what" cmake -G Ninja -B "$folder" -S . "${cmake_args[@]}" || {
        show_log "$log"
        fail "CMake could not configure the build." \
            "Read build/logs/$log.log; scripts/setup.sh installs what CMake looks for."
    }
    echo "${cmake_args[*]}" >"$folder/opwright-cmake-args"
fi

# Off a terminal, a line now and then tells that the build is alive. (A loop of bash, not awk: mawk holds input back.)
ninja_watched() {
    local line tenth=0
    NINJA_STATUS='[%f/%t] ' ninja -C "$folder" -j "$jobs" "$@" 2>&1 </dev/null | while IFS= read -r line; do
        printf '%s\n' "$line" >&3
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]] || continue
        local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} file=${BASH_REMATCH[3]##*/}
        if [[ -n $wipe ]]; then
            progress "$what" "step $done of $all, $(elapsed "$start")  ${file:0:30}"
        elif ((all > 20 && 10 * done / all > tenth)); then
            tenth=$((10 * done / all))
            done_line "$what" "step $done of $all ($(elapsed "$start"))"
        fi
    done 3>>"$logs/$log.log"
}
if ! ninja_watched "$@"; then
    printf '%s' "$wipe"
    grep -nE -A 12 '^FAILED|error:' "$logs/$log.log" | head -n 60 >&2 || true
    fail "The build failed." "The first errors are above; all of it is in build/logs/$log.log."
fi
done_line "$what" "$folder is up to date ($(elapsed "$start"))"
