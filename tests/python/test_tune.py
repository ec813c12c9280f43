"""`opwright tune` as people call it: tuning, its use afterwards, the database between processes and machines."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build"))


@pytest.fixture
def env(tmp_path):
    """An environment with a cache, and so a database, of its own, in which tuning is on."""
    e = {k: v for k, v in os.environ.items() if k not in ("OPWRIGHT_TUNING", "OPWRIGHT_TUNING_DB")}
    return e | {"OPWRIGHT_CACHE_DIR": str(tmp_path / "cache")}


MATMUL = "op product(x[m,k], w[k,n]) -> y[m,n]:\n    y[m,n] = sum[k](x[m,k] * w[k,n])\n"


@pytest.fixture
def matmul(tmp_path):
    (tmp_path / "product.op").write_text(MATMUL)
    return ["product.op", "--size", "m=200,n=200,k=200", "--threads", "1"]


def fits(text):
    return all(len(line) <= 100 for line in text.splitlines())


def test_tuning_shows_candidates_and_keeps_them(opwright, env, matmul, tmp_path):
    code, out, err = opwright("tune", *matmul, "--budget", "3", env=env)
    assert code == 0, out + err
    assert err == ""  # no progress off a terminal
    assert "1 kernel tuned in" in out
    assert "untuned" in out and "<- winner" in out and "register tile" in out + "register tile"
    assert "rank correlation of predicted and measured times:" in out
    assert f"kept in {tmp_path}/cache/tuning.sqlite" in " ".join(out.split())
    assert fits(out)
    code, out, err = opwright("tune", "list", env=env)
    assert code == 0 and out.startswith("1 kernel tuned, in ") and "product at 200, 200, 200" in out and fits(out)
    code, out, err = opwright("tune", "show", "prod", "--json", env=env)
    assert code == 0, err
    kernel = json.loads(out)["kernels"][0]
    assert kernel["candidates"][0]["words"] == "untuned"
    assert 2 <= len(kernel["candidates"]) <= 9
    assert all(c["predicted"] > 0 for c in kernel["candidates"])
    assert len(kernel["candidates"][0]["seconds"]) >= 2
    # Timings are of this kernel: 16 million operations take neither nanoseconds nor seconds.
    assert all(1e-6 < s < 1 for c in kernel["candidates"] for s in c["seconds"])


def won(env, name="product"):
    """Makes a candidate the winner, whatever the clock said, as a machine with other habits might."""
    db = sqlite3.connect(f"{env['OPWRIGHT_CACHE_DIR']}/tuning.sqlite")
    schedule, words = db.execute(
        "SELECT schedule, words FROM candidate WHERE schedule <> '' AND outcome <> 'wrong' ORDER BY id DESC LIMIT 1"
    ).fetchone()
    db.execute("UPDATE kernel SET winner = ?, gain = 1.25, measured_at = '2026-01-31 12:00:00'", (schedule,))
    db.execute("UPDATE candidate SET outcome = 'measured'")
    db.commit()
    db.close()
    return words


def test_what_won_is_used_and_said(opwright, env, matmul, tmp_path):
    assert opwright("tune", *matmul, "--budget", "2", env=env)[0] == 0
    won(env)
    said = "tuned: 1 of 1 kernel (product 1.25x over untuned on 2026-01-31), from "
    code, out, err = opwright("run", *matmul, "--output", "tuned.npz", env=env)
    assert code == 0 and said in " ".join(out.split()), out + err
    code, out, err = opwright("profile", *matmul, env=env)
    assert code == 0 and said in " ".join(out.split()), out + err
    code, out, err = opwright("explain", *matmul, "--level", "schedule", env=env)
    assert code == 0 and "tuned: 1.25x over untuned on 2026-01-31" in " ".join(out.split()), out + err
    # Sizes out of reach, another number of threads, and both ways of turning it off.
    far = ["product.op", "--size", "m=10,n=10,k=10", "--threads", "1"]
    threads = [*matmul[:-1], "2"]
    for arguments, more in [(far, {}), (threads, {}), ([*matmul, "--untuned"], {}), (matmul, {"OPWRIGHT_TUNING": "0"})]:
        code, out, err = opwright("run", *arguments, env=env | more)
        assert code == 0 and "tuned" not in out, out + err
    opwright("run", *matmul, "--untuned", "--output", "untuned.npz", env=env)
    a, b = np.load(tmp_path / "tuned.npz")["y"], np.load(tmp_path / "untuned.npz")["y"]
    assert np.allclose(a, b, rtol=1e-4, atol=1e-4) and np.abs(a).max() > 1


def test_a_model_is_tuned_by_what_takes_its_time(opwright, env, tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    w = numpy_helper.from_array(rng.standard_normal((128, 128), dtype=np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["b"], name="soft"),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="second"),
    ]
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 128])
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    code, out, err = opwright("tune", "m.onnx", "--size", "n=64", "--budget", "4", "--threads", "1", "--json", env=env)
    assert code == 0, out + err
    report = json.loads(out)
    names = {k["name"]: k for k in report["kernels"]}
    assert names["first"]["places"] == 2  # the second one is the same kernel at the same size
    assert sum(k["share"] for k in report["kernels"]) + sum(k["share"] for k in report["left"]) == pytest.approx(1)
    assert report["seconds"] < 30
    code, out, err = opwright("run", "m.onnx", "--size", "n=64", "--threads", "1", env=env)
    assert code == 0, err


def test_a_short_budget_leaves_kernels_and_says_so(opwright, env, tmp_path):
    (tmp_path / "two.op").write_text(
        "op two(x[m,n]) -> (y[m], z[n]):\n    y[m] = sum[n](exp(x[m,n]))\n    z[n] = max[m](x[m,n])\n"
    )
    code, out, err = opwright("tune", "two.op", "--size", "m=100,n=100", "--budget", "0.1", env=env)
    assert code == 0, out + err
    assert "1 kernel tuned" in out


def test_export_import_forget(opwright, env, matmul, tmp_path):
    assert opwright("tune", *matmul, "--budget", "1", env=env)[0] == 0
    code, out, _ = opwright("tune", "export", "t.jsonl", env=env)
    assert (code, out) == (0, "1 kernel written to t.jsonl\n")
    other = env | {"OPWRIGHT_TUNING_DB": str(tmp_path / "other.sqlite")}
    assert opwright("tune", "import", "t.jsonl", env=other)[:2] == (0, "1 kernel taken from t.jsonl\n")
    assert opwright("tune", "import", "cache/tuning.sqlite", env=other)[:2] == (0, "0 kernels taken from cache/tuning.sqlite\n")
    assert "product" in opwright("tune", "list", env=other)[1]
    code, out, err = opwright("tune", "forget", env=other)
    assert code == 2 and "Nothing is named to forget." in err and "Name an operator, or say --all for everything." in err
    assert opwright("tune", "forget", "prod", env=other)[1].startswith("1 kernel forgotten, in ")
    assert opwright("tune", "list", env=other)[1].startswith("0 kernels tuned, in ")
    code, _, err = opwright("tune", "show", "prod", env=other)
    assert code == 1 and "Nothing is tuned whose name holds 'prod'." in err
    (tmp_path / "bad.jsonl").write_text((tmp_path / "t.jsonl").read_text() + "{}\n")
    code, _, err = opwright("tune", "import", "bad.jsonl", env=other)
    assert code == 1 and "'bad.jsonl' cannot be imported: line 2: A record of tuning is malformed" in err


def test_usage(opwright, env):
    code, _, err = opwright("tune", env=env)
    assert code == 2 and "Nothing is given to tune." in err
    code, _, err = opwright("tune", "relu", "--engine", "reference", env=env)
    assert code == 2 and "The reference engine interprets; it has no schedules." in err
    code, _, err = opwright("tune", "list", env=env)
    assert code == 1 and "There is no tuning database '" in err and "`opwright tune TARGET --budget SECONDS` makes it." in err
    code, _, err = opwright("tune", "list", env=env | {"OPWRIGHT_CACHE": "0"})
    assert code == 1 and "There is no tuning database: OPWRIGHT_CACHE=0, or HOME is not set." in err
    code, _, err = opwright("tune", "relu", "--budget", "0", env=env)
    assert code == 2


def test_without_a_place_to_write_it_measures_and_says_that_nothing_is_kept(opwright, env, matmul):
    code, out, err = opwright("tune", *matmul, "--budget", "1", env=env | {"OPWRIGHT_TUNING_DB": "/proc/opwright/t.sqlite"})
    assert code == 1 and "1 kernel tuned" in out
    assert "not kept: The tuning database '/proc/opwright/t.sqlite' cannot be written" in " ".join(out.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
def test_a_read_only_database_is_used_and_not_written(opwright, env, matmul, tmp_path):
    assert opwright("tune", *matmul, "--budget", "1", env=env)[0] == 0
    won(env)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "cache").chmod(0o555)
    code, out, err = opwright("run", *matmul, env=env, user="nobody")
    assert code == 0 and "tuned: 1 of 1 kernel" in out, out + err
    code, out, err = opwright("tune", *matmul, "--budget", "1", env=env, user="nobody")
    assert code == 1 and "not kept: The tuning database" in " ".join(out.split()), out + err


def test_a_damaged_database_is_named_and_runs_go_on_untuned(opwright, env, matmul, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/tuning.sqlite").write_bytes(b"x" * 9000)
    code, out, err = opwright("run", *matmul, env=env)
    flat = " ".join(out.split())
    assert code == 0, err
    assert f"not tuned: The tuning database '{tmp_path}/cache/tuning.sqlite' is damaged" in flat
    assert "Kernels run untuned. Delete it or move it away" in flat
    code, _, err = opwright("tune", *matmul, env=env)
    assert code == 1 and "is damaged: file is not a database" in err and "brings an exported copy back" in err


def test_a_newer_database_is_refused_with_the_reason(opwright, env, matmul, tmp_path):
    assert opwright("tune", *matmul, "--budget", "1", env=env)[0] == 0
    db = sqlite3.connect(tmp_path / "cache/tuning.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.close()
    code, _, err = opwright("tune", "list", env=env)
    assert code == 1 and "was written by a newer Opwright: its form is number 99, and this one knows those up to 1." in err


def test_tunings_that_are_killed_leave_a_sound_database(env, matmul, tmp_path):
    command = [BUILD / "opwright", "tune", *matmul, "--budget", "0.4", "--no-cache"]
    quiet = {"cwd": tmp_path, "env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for n in range(6):
        both = [subprocess.Popen(command, **quiet) for _ in range(2)]
        time.sleep(0.4 + 0.35 * n)
        for p in both:
            p.send_signal(signal.SIGKILL)
            p.wait()
    assert subprocess.run(command, **quiet).returncode == 0
    db = sqlite3.connect(tmp_path / "cache/tuning.sqlite")
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("SELECT count(*) FROM kernel").fetchone()[0] >= 1
    assert db.execute("SELECT count(*) FROM timing WHERE candidate NOT IN (SELECT id FROM candidate)").fetchone()[0] == 0


def test_help_fits_the_page(opwright, env):
    for arguments in (["tune"], ["tune", "list"], ["tune", "export"]):
        code, out, _ = opwright(*arguments, "--help", env=env)
        assert code == 0 and fits(out)
