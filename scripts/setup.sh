#!/usr/bin/env bash
# Installs what is missing: Debian packages, and Python packages in .venv. Nothing is done twice.
#   scripts/setup.sh           what ./demo and ./test need
#   scripts/setup.sh --bench   also what bench/ compares with (several GB with some builds of torch)
#   scripts/setup.sh --browser also the browser that ./test browser looks at pages with (110 MB)
#   scripts/setup.sh --static  also what links LLVM's archives into the command (scripts/gpu_bundle.sh)
#   scripts/setup.sh --list    prints the Debian packages and their reasons
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
    "g++                 C++20 compiler"
    "cmake               build files"
    "ninja-build         runs the build"
    "ccache              rebuilds only what changed, also in a second checkout"
    "llvm-19-dev         turns Opwright's loops into machine code at run time"
    "libprotobuf-dev     reads ONNX models"
    "protobuf-compiler   generates the reader of ONNX models"
    "libfmt-dev          formats text"
    "libcli11-dev        the command's options and help"
    "nlohmann-json3-dev  JSON in and out"
    "libpng-dev          PNG pictures in and out"
    "libjpeg-dev         JPEG pictures in and out"
    "libzip-dev          .npz files in and out"
    "libxxhash-dev       keys of the cache of compiled objects"
    "libsqlite3-dev      the database of timings that tuning keeps"
    "libgtest-dev        the C++ tests"
    "libgmock-dev        the C++ tests"
    "clang-19            the fuzzers and the sanitizer build of the tests"
    "libclang-rt-19-dev  the fuzzers and the sanitizer build of the tests"
    "node-d3             charts of the page of \`opwright profile --html\`, inside which it travels"
    "node-prismjs        colours of code on that page, inside which it travels"
    "python3-venv        the Python side of ./demo and ./test"
    "ca-certificates     lets pip check whom it downloads from"
)

bench=
case ${1:-} in
    '') ;;
    --bench) bench=yes ;;
    --browser) packages+=("chromium            looks at the pages that the tests make") ;;
    --static) packages+=("libzstd-dev         LLVM's archives name it") ;;
    --list) printf '%s\n' "${packages[@]}"; exit ;;
    *) fail "Unknown argument '$1'." "Call scripts/setup.sh, alone or with --bench, --browser, --static or --list." ;;
esac
cd "$root"

missing_packages() {
    local names=("${packages[@]%% *}")
    dpkg-query -W -f='${Package} ${Status}\n' "${names[@]}" 2>/dev/null |
        awk -v all="${names[*]}" '/ install ok installed$/ { have[$1] = 1 }
            END { n = split(all, a, " "); for (i = 1; i <= n; i++) if (!(a[i] in have)) print a[i] }' || true
}

install_packages() {
    local start=$1 sudo=() missing
    shift
    missing=("$@")
    local by_hand="apt-get install ${missing[*]}"
    local system
    system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || system=
    case $system in
        'debian 12' | 'ubuntu 24.04') ;;
        *) done_line 'Debian packages' "this is '${system:-unknown}'; checked on Debian 12 and Ubuntu 24.04, trying" ;;
    esac
    if ((EUID != 0)); then
        command -v sudo >/dev/null ||
            fail "Some packages are missing, and installing them takes root or sudo." "As root, run once:" "$by_hand"
        sudo=(sudo)
        if ! sudo -n true 2>/dev/null; then
            [[ -t 0 ]] || fail "Some packages are missing, and sudo asks for a password." "In a terminal, run once:" \
                "sudo $by_hand"
            done_line 'Debian packages' "${#missing[@]} to install; sudo may ask for your password"
            sudo -v || fail "sudo refused." "Ask an administrator to run once:" "$by_hand"
        fi
    fi
    local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300)
    local install=("${apt[@]}" --no-install-recommends install "${missing[@]}")
    : >"$logs/packages.log"
    [[ -n $wipe ]] || done_line 'Debian packages' "installing ${#missing[@]}: ${missing[*]}"
    # A machine that never asked for package lists, or whose lists are old, is refreshed and tried again.
    local what='Debian packages' offline='Could not resolve|Unable to connect|Temporary failure|Failed to fetch'
    if ! { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null && logged packages "$what" "${install[@]}"; }; then
        logged packages "$what" "${apt[@]}" update || true
        logged packages "$what" "${install[@]}" || {
            show_log packages
            if grep -qE "$offline" "$logs/packages.log"; then
                fail "The package servers cannot be reached." \
                    "Check the network (or apt's proxy settings), then run this again."
            elif grep -q 'Unable to locate package' "$logs/packages.log"; then
                fail "This distribution ('$system') lacks a package that is needed; the log above names it." \
                    "Use Debian 12 or Ubuntu 24.04 (on Ubuntu with 'universe' enabled), for example in a container."
            fi
            fail "apt-get could not install the packages." \
                "Read build/logs/packages.log, or install them by hand:" "$by_hand"
        }
    fi
    done_line 'Debian packages' "${#missing[@]} installed ($(elapsed "$start"))"
}

# install_python FILE: the pinned packages of a requirements file into .venv, unless that very list is there already.
install_python() {
    local list=$1 what=$2 start mark want
    start=$(now)
    mark=.venv/installed-$list.sha256
    want=$(sha256sum "$list" | cut -d' ' -f1)
    if [[ -x .venv/bin/python && -f $mark && $(<"$mark") == "$want" ]] && .venv/bin/python -c '' 2>/dev/null; then
        done_line "$what" "all in .venv ($(elapsed "$start"))"
        return
    fi
    [[ -n $wipe ]] || done_line "$what" "installing $list into .venv"
    : >"$logs/python.log"
    local python=${OPWRIGHT_PYTHON:-/usr/bin/python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "'$python' is no Python of version 3.11 or newer." "Name one: OPWRIGHT_PYTHON=/path/to/python3 $0"
    if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        rm -rf .venv
        logged python "$what" "$python" -m venv .venv || {
            show_log python
            fail "The environment .venv could not be made with '$python'." "Check that 'python3 -m venv' works there."
        }
    fi
    logged python "$what" .venv/bin/python -m pip install --no-input --disable-pip-version-check --progress-bar off \
        --only-binary :all: -r "$list" || {
        show_log python
        if grep -q 'CERTIFICATE_VERIFY_FAILED' "$logs/python.log"; then
            fail "The Python package index shows a certificate that is not trusted here (a company's proxy, often)." \
                "Name the proxy's certificate file in PIP_CERT, then run this again."
        fi
        if grep -qE 'NewConnectionError|ConnectionError|Temporary failure|timed out' "$logs/python.log"; then
            fail "The Python package index cannot be reached." \
                "Check the network (or pip's proxy settings), then run this again."
        fi
        fail "pip could not install $list." \
            "Read build/logs/python.log; after a change of Python, remove .venv and try again."
    }
    echo "$want" >"$mark"
    done_line "$what" "installed into .venv ($(elapsed "$start"))"
}

mkdir -p "$logs"
heading 'Set-up'
start=$(now)
if command -v dpkg-query >/dev/null; then
    mapfile -t missing < <(missing_packages)
    if ((${#missing[@]})); then
        install_packages "$start" "${missing[@]}"
    else
        done_line 'Debian packages' "all ${#packages[@]} are there ($(elapsed "$start"))"
    fi
else
    fail "This system has no dpkg: Opwright's set-up knows Debian 12 and Ubuntu 24.04." \
        "Use one of them, for example in a container; the packages are listed in README.md."
fi
install_python requirements.txt 'Python packages'
[[ -z $bench ]] || install_python requirements-bench.txt 'Python, for bench'
