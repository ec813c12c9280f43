"""What `opwright profile` writes: the page, the trace, and what it says where it can't."""

import json

SOURCE = "op scaled(x[n,m], w[m,k]) -> y[n,k]:\n    y[n,k] = max(sum[m](x[n,m] * w[m,k]), 0)\n"
SIZE = ("--size", "n=64,m=32,k=48", "--repeats", "2", "--warmup", "1")


def test_page_and_trace_are_written_beside_what_is_printed(opwright, tmp_path):
    (tmp_path / "scaled.op").write_text(SOURCE)
    (tmp_path / "page.html").write_text("old")
    code, out, err = opwright("profile", "scaled.op", *SIZE, "--html", "page.html", "--trace", "trace.json", "--threads", 2)
    assert code == 0, err
    assert "written: page.html" in out and "written: trace.json" in out
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert "op scaled(" in data["texts"][data["kernels"][0]["declarations"][0]["text"]], "an own operator's declaration"
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    runs = [e for e in events if e.get("cat") == "run"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert len(runs) == 3 and len(kernels) == 3
    assert kernels[0]["args"]["shapes"] == "f32[64, 32], f32[32, 48] -> f32[64, 48]"
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"thread 1 (the caller)", "thread 2"}


def test_nothing_is_left_of_a_file_that_cannot_be_written(opwright, tmp_path):
    (tmp_path / "scaled.op").write_text(SOURCE)
    before = sorted(p.name for p in tmp_path.iterdir())
    code, _, err = opwright("profile", "scaled.op", *SIZE, "--html", "absent/page.html")
    assert code == 1 and "absent/page.html" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_baselines(opwright, tmp_path):
    (tmp_path / "scaled.op").write_text(SOURCE)
    code, _, err = opwright("profile", "scaled.op", "--baseline", "before.json")
    assert code == 1
    assert "--baseline is shown on the page that --html writes." in err and "Add --html FILE.html." in err
    code, _, err = opwright("profile", "scaled.op", "--html", "page.html", "--baseline", "before.json")
    assert code == 1 and "before.json" in err
    (tmp_path / "before.json").write_text('{"operators": 3}')
    code, _, err = opwright("profile", "scaled.op", "--html", "page.html", "--baseline", "before.json")
    assert code == 1
    assert "'before.json' is no saved profile." in err and "opwright profile MODEL.onnx --json > before.json" in err
    assert not (tmp_path / "page.html").exists()
    code, out, _ = opwright("profile", "scaled.op", *SIZE, "--json")
    (tmp_path / "before.json").write_text(out)
    code, _, err = opwright("profile", "scaled.op", *SIZE, "--html", "page.html", "--baseline", "before.json")
    assert code == 0, err
    data = json.loads((tmp_path / "page.html").read_text().split('id="data">')[1].split("</script>")[0])
    assert data["baseline"] == json.loads(out)


def test_a_schedule_of_ones_own_is_profiled(opwright, tmp_path):
    (tmp_path / "map.op").write_text("op double(x[n]) -> y[n]:\n    y[n] = x[n] * 2\n")
    size = ("--size", "n=5000", "--threads", "1")
    code, out, _ = opwright("explain", "map.op", *size, "--level", "schedule", "--json")
    schedule = json.loads(out)["schedule"]
    for equation in schedule["nests"][0]["equations"]:  # without the fields of its lane: one element at a time
        for field in ("lane", "lanes", "unroll"):
            del equation[field]
    (tmp_path / "scalar.json").write_text(json.dumps(schedule))
    code, out, err = opwright("profile", "map.op", *size, "--schedule", "scalar.json", "--json")
    assert code == 0, err
    (row,) = json.loads(out)["operators"]
    assert row["schedule"] == "schedule from a file"
    causes = {p["cause"] for p in row["parts"]}
    assert "no vectors" in causes and "strides" not in causes
    code, _, err = opwright("profile", "model.onnx", "--schedule", "scalar.json")
    assert code == 1
    assert "--schedule is for one operator, and this is a model." in err and "Profile the operator alone." in err


def test_candidates_are_told_where_fusion_is_off(opwright, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1000])
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Abs", ["a"], ["y"], name="second")]
    graph = helper.make_graph(nodes, "made", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "model.onnx")
    code, out, err = opwright("profile", "model.onnx", "--no-fuse", "--json")
    assert code == 0, err
    profile = json.loads(out)
    assert len(profile["operators"]) == 2
    (candidate,) = profile["fusion"]
    assert (candidate["producer"], candidate["consumer"], candidate["taken"]) == ("first", "second", False)
    assert candidate["reason"] == "fusion is switched off"
    assert candidate["bytes"] == 2 * 4 * 1000 and candidate["gain_ms"] > 0
    assert any(c["cause"] == "fusion" for o in profile["operators"] for c in o["changes"])
