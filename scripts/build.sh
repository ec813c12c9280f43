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

# Off a terminal, a line now and then tells that the build is alive.
ninja_watched() {
    NINJA_STATUS='[%f/%t] ' ninja -C "$folder" -j "$jobs" "$@" 2>&1 </dev/null | awk -v what="$what" -v tty="$wipe" '
        { print >> log_file; fflush(log_file) }
        match($0, /^\[[0-9]+\/[0-9]+\]/) {
            split(substr($0, 2, RLENGTH - 2), n, "/")
            if (tty != "") { printf "%s  %-18s step %d of %d", tty, what, n[1], n[2]; fflush() }
            else if (n[2] > 20 && int(10 * n[1] / n[2]) > tenth) {
                tenth = int(10 * n[1] / n[2]); printf "  %-18s step %d of %d\n", what, n[1], n[2]; fflush()
            }
        }' log_file="$logs/$log.log"
}
if ! ninja_watched "$@"; then
    printf '%s' "$wipe"
    grep -nE -A 12 '^FAILED|error:' "$logs/$log.log" | head -n 60 >&2 || true
    fail "The build failed." "The first errors are above; all of it is in build/logs/$log.log."
fi
done_line "$what" "$folder is up to date ($(elapsed "$start"))"
