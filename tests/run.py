"""Runs the parts of the tests that ./test names, prints each part's time and the sum of all.

Every part ends in exact counts. A part that cannot run (a missing binary, an empty folder, a crash) has failed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SANITIZED = ROOT / "build-sanitize"
TESTS = ROOT / "tests"
# A build by clang with sanitizers and coverage hooks serves both the tests and the fuzzers.
SANITIZER_ARGUMENTS = (
    "-DCMAKE_CXX_COMPILER=clang++-19 -DOPWRIGHT_SANITIZE=address,undefined -DOPWRIGHT_FUZZ=ON -DOPWRIGHT_BENCH=OFF"
)
SHARDS_A_CORE = 6
# Tests do not depend on what was tuned on this machine; those of tuning turn it on for themselves.
os.environ.setdefault("OPWRIGHT_TUNING", "0")
FUZZ_SECONDS = int(os.environ.get("OPWRIGHT_FUZZ_SECONDS", "60"))


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)  # names, with a line of why where one is known
    skips: dict = field(default_factory=dict)  # reason -> number

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        for reason, number in other.skips.items():
            self.skips[reason] = self.skips.get(reason, 0) + number

    def fail(self, text):
        self.failed += 1
        self.failures.append(text)

    def skip(self, reason):
        self.skipped += 1
        self.skips[reason] = self.skips.get(reason, 0) + 1


def say(text=""):
    print(text, flush=True)


def seconds(duration):
    return f"{duration:.1f} s" if duration < 100 else f"{int(duration) // 60} min {int(duration) % 60} s"


# ---- C++ tests -------------------------------------------------------------------------------------------------------


def list_gtests(binary, pattern):
    listing = subprocess.run(
        [binary, "--gtest_list_tests", f"--gtest_filter={pattern}"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    names, suite = [], ""
    for line in listing.stdout.splitlines():
        if line and not line.startswith(" "):
            suite = line.split("#")[0].strip()
        elif line.startswith("  "):
            names.append(suite + line.split("#")[0].strip())
    return [n for n in names if "DISABLED_" not in n]


def run_gtest(binary, pattern="*", environment=None):
    """All tests of a GoogleTest program that match, in as many processes at a time as there are cores.

    Several shards a core, so that the last ones to end are short whichever of them holds the long tests.
    """
    counts = Counts()
    if not binary.exists():
        counts.fail(f"{binary.relative_to(ROOT)} is missing: the build did not make it")
        return counts
    expected = list_gtests(binary, pattern)
    cores = len(os.sched_getaffinity(0))
    shards = max(1, min(SHARDS_A_CORE * cores, len(expected)))
    with tempfile.TemporaryDirectory() as folder:

        def run_shard(index):
            output, report = Path(folder) / f"{index}.txt", Path(folder) / f"{index}.json"
            shard = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)}
            with output.open("w") as log:
                code = subprocess.run(
                    [binary, f"--gtest_filter={pattern}", f"--gtest_output=json:{report}", "--gtest_color=no"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=ROOT,
                    env=os.environ | (environment or {}) | shard,
                ).returncode
            return code, output.read_text(errors="replace"), report

        seen = set()
        with ThreadPoolExecutor(cores) as pool:
            ended = list(pool.map(run_shard, range(shards)))
        for code, text, report in ended:
            if report.exists():
                for suite in json.loads(report.read_text())["testsuites"]:
                    for case in suite["testsuite"]:
                        if case["status"] == "NOTRUN":
                            continue
                        name = f"{case['classname']}.{case['name']}"
                        seen.add(name)
                        if case.get("failures"):
                            counts.fail(name)
                        elif case["result"] == "SKIPPED":
                            reason = re.search(
                                rf"\[ RUN      \] {re.escape(name)}\n(?:.*\n)??(?:.*Skipped\n)?(.*)\n", text
                            )
                            counts.skip(reason.group(1).strip() if reason else "no reason given")
                        else:
                            counts.passed += 1
                if code != 0 and "FAILED TEST" not in text:
                    counts.fail(f"{binary.name} ended with code {code} after its tests")
                    say(text[-4000:])
                elif code != 0:
                    say(failing_blocks(text))
            else:  # it died: what it had finished counts, the rest has failed
                say(text[-6000:])
                for verdict, name in re.findall(
                    r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:,.*)? \(\d+ ms\)$", text, re.M
                ):
                    seen.add(name)
                    if verdict == "OK":
                        counts.passed += 1
                    elif verdict == "SKIPPED":
                        counts.skip("see the log")
                    else:
                        counts.fail(name)
                last = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
                if last and last[-1] not in seen:
                    seen.add(last[-1])
                    counts.fail(f"{last[-1]} (the process ended with code {code})")
        for name in expected:
            if name not in seen:
                counts.fail(f"{name} (did not run)")
    return counts


def failing_blocks(text):
    blocks = re.findall(r"^\[ RUN      \] .*\n(?:(?!\[ RUN).*\n)*?\[  FAILED  \].*\(\d+ ms\)$", text, re.M)
    return "\n".join(b if len(b) < 3000 else b[:3000] + "\n..." for b in blocks)


# ---- Python tests ----------------------------------------------------------------------------------------------------


def run_pytest(folder, keyword=None):
    counts = Counts()
    if not any(folder.glob("test_*.py")):
        counts.fail(f"{folder.relative_to(ROOT)}/ holds no test")
        return counts
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--no-header",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "--color=no",
            f"--junitxml={report}",
            f"--rootdir={TESTS}",
            str(folder),
        ]
        if keyword:
            command += ["-k", keyword]
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OPWRIGHT_BUILD_DIR": str(BUILD), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if run.returncode == 5 and keyword:
            return counts  # nothing here has that name
        if run.returncode != 0:
            say(run.stdout[-8000:])
        if not report.exists():
            counts.fail(f"pytest ended with code {run.returncode} in {folder.relative_to(ROOT)}/")
            return counts
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                counts.fail(name)
            elif (skip := case.find("skipped")) is not None:
                counts.skip(skip.get("message") or "no reason given")
            else:
                counts.passed += 1
        if run.returncode not in (0, 1) or (run.returncode == 1 and counts.failed == 0):
            counts.fail(f"pytest ended with code {run.returncode} in {folder.relative_to(ROOT)}/")
    return counts


# ---- the sanitizer build: tests and fuzzers --------------------------------------------------------------------------


def build_sanitized(*targets):
    environment = os.environ | {
        "OPWRIGHT_BUILD_DIR": SANITIZED.name,
        "OPWRIGHT_BUILD_NAME": "Sanitizer build",
        "OPWRIGHT_CMAKE_ARGS": SANITIZER_ARGUMENTS,
    }
    build = [ROOT / "scripts/build.sh", *targets]
    return subprocess.run(build, env=environment, stdin=subprocess.DEVNULL).returncode == 0


def sanitizer_options():
    # llvm-symbolizer-19 comes with LLVM; containers' sizes of arrays from C libraries are no fault of ours.
    options = {
        "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=0:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    if symbolizer := shutil.which("llvm-symbolizer-19"):
        options["ASAN_SYMBOLIZER_PATH"] = symbolizer
    return options


def part_sanitize():
    if not build_sanitized("opwright_tests"):
        counts = Counts()
        counts.fail("the sanitizer build")
        return counts
    return run_gtest(SANITIZED / "opwright_tests", environment=sanitizer_options())


def part_fuzz():
    """Each fuzzer of tests/fuzz: its corpus once, then a short search from it; all at the same time."""
    counts = Counts()
    targets = sorted(p.stem for p in (TESTS / "fuzz").glob("*_fuzz.cpp"))
    if not targets:
        counts.fail("tests/fuzz/ holds no *_fuzz.cpp")
        return counts
    if not build_sanitized(*targets):
        counts.fail("the sanitizer build")
        return counts
    with tempfile.TemporaryDirectory() as folder:
        running = {target: start_fuzzer(target, Path(folder)) for target in targets}
        for target, (process, log) in running.items():
            code = process.wait()
            text = log.read_text(errors="replace")
            executed = re.search(r"stat::number_of_executed_units: (\d+)", text)
            if code == 0 and executed and int(executed.group(1)) > 0:
                counts.passed += 1
                say(f"  {target}: {executed.group(1)} inputs, none crashes")
            else:
                say(text[-6000:])
                counts.fail(f"{target} (the input is in build/logs/)")
    return counts


def start_fuzzer(target, folder):
    """(process, file of what it prints). A busy machine may take long over an input that takes milliseconds."""
    found, log = folder / target, folder / f"{target}.txt"
    found.mkdir()
    (BUILD / "logs").mkdir(parents=True, exist_ok=True)
    command = [
        SANITIZED / target,
        found,
        TESTS / "fuzz" / target.replace("_fuzz", "_corpus"),
        f"-max_total_time={FUZZ_SECONDS}",
        "-timeout=60",
        "-rss_limit_mb=2048",
        "-malloc_limit_mb=1024",
        f"-artifact_prefix={BUILD}/logs/{target}-",
        "-print_final_stats=1",
    ]
    if (dictionary := TESTS / "fuzz" / f"{target}.dict").exists():
        command.append(f"-dict={dictionary}")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
        env=os.environ | sanitizer_options(),
    )
    return process, log


# ---- Triton ----------------------------------------------------------------------------------------------------------


def triton_python():
    """The Python that emitted Triton files run on, installed on the first call."""
    environment, wanted = ROOT / ".venv-triton", ROOT / "requirements-triton.txt"
    python, mark = environment / "bin" / "python", environment / "installed.txt"
    if not mark.exists() or mark.read_text() != wanted.read_text():
        say(f"  installing {wanted.name} into {environment.name}")
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted], check=True
        )
        mark.write_text(wanted.read_text())
    return str(python)


def part_triton():
    """Every operator of the library on the Triton target, and the kept sources' own checks, under the interpreter or on
    the GPU where there is one."""
    python = os.environ.get("OPWRIGHT_PYTHON") or triton_python()
    counts = run_gtest(BUILD / "opwright_tests", "*OperatorsOnTriton*:*Mutation*triton", {"OPWRIGHT_PYTHON": python})
    for path in [*sorted((TESTS / "triton").glob("check_*.py")), *sorted((TESTS / "golden" / "triton").glob("*.py"))]:
        run = subprocess.run([python, path], capture_output=True, text=True, env=os.environ | {"TRITON_INTERPRET": "1"})
        if run.returncode == 0:
            counts.passed += 1
        else:
            lines = (run.stdout + run.stderr).strip().splitlines()
            counts.fail(f"{path.relative_to(ROOT)}: {lines[-1] if lines else 'no message'}")
    return counts


# ---- the page of `opwright profile --html` in a browser -------------------------------------------------------------


def part_browser():
    """tests/browser, for which the first call installs a browser where the system's packages have one."""
    sys.path.insert(0, str(TESTS / "browser"))
    import browser

    system = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if browser.find() is None and "ID=debian" in system:
        if subprocess.run([ROOT / "scripts/setup.sh", "--browser"], stdin=subprocess.DEVNULL).returncode != 0:
            counts = Counts()
            counts.fail("scripts/setup.sh --browser")
            return counts
    return run_pytest(TESTS / "browser")


PARTS = {
    "unit": lambda: run_gtest(BUILD / "opwright_tests", "-*OperatorsOnTriton*"),
    "triton": part_triton,
    "python": lambda: run_pytest(TESTS / "python"),
    "docs": lambda: run_pytest(TESTS / "docs"),
    "e2e": lambda: run_pytest(TESTS / "e2e"),
    "onnx": lambda: run_pytest(TESTS / "onnx"),
    "browser": part_browser,
    "gpu": lambda: run_pytest(TESTS / "gpu"),
    "fuzz": part_fuzz,
    "sanitize": part_sanitize,
}

# What runs without a name. The sanitizers build everything a second time, and are asked for by name; "gpu" needs one.
DEFAULT = ["unit", "python", "docs", "e2e", "onnx", "browser", "fuzz"]


def named(name):
    """Every C++ and Python test whose name holds `name`; a name with * or : is a GoogleTest filter."""
    counts = run_gtest(BUILD / "opwright_tests", name if re.search(r"[*?:]", name) else f"*{name}*")
    if re.fullmatch(r"[\w.\[\]-]+", name):
        for folder in ("python", "docs", "e2e", "onnx", "browser"):
            if any((TESTS / folder).glob("test_*.py")):
                counts.add(run_pytest(TESTS / folder, keyword=name))
    return counts


def main(names):
    total, summary = Counts(), []
    for name in names or DEFAULT:
        say(f"\nTests: {name}")
        start = time.monotonic()
        counts = PARTS[name]() if name in PARTS else named(name)
        if name not in PARTS and counts.passed + counts.failed + counts.skipped == 0:
            say(
                f"error: there is no part and no test called '{name}'.\n"
                f"       Parts: {', '.join(PARTS)}. Tests: build/opwright_tests --gtest_list_tests"
            )
            return 2
        say(
            f"  {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
            f"  ({seconds(time.monotonic() - start)})"
        )
        for reason, number in sorted(counts.skips.items()):
            say(f"  skipped {number}: {reason}")
        for failure in counts.failures:
            say(f"  FAILED {failure}")
        summary.append((name, counts, time.monotonic() - start))
        total.add(counts)
    if total.passed + total.failed + total.skipped == 0:
        total.fail("no test ran")
    say("\nSummary")
    for name, counts, duration in summary:
        say(
            f"  {name:<12} {counts.passed:>6} passed {counts.failed:>4} failed {counts.skipped:>4} skipped  {seconds(duration):>12}"
        )
    for failure in total.failures:
        say(f"  FAILED {failure}")
    say(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
