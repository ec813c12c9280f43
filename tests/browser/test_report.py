"""The page of `opwright profile --html` in a real browser: what it shows, that it asks nobody, that names stay text.

Screenshots of every case land in build/browser/.
"""

import json
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
SHOTS = Path(os.environ.get("OPWRIGHT_BUILD_DIR", ROOT / "build")) / "browser"  # screenshots, for people to look at
EVIL = "</script><img src=x onerror=\"window.hacked=1\"><!--"


def magika():
    return files("magika") / "models" / "standard_v3_3" / "model.onnx"


def save(path, nodes, inputs, outputs, weights=()):
    values = lambda items: [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in items]
    graph = helper.make_graph(nodes, "made", values(inputs), values(outputs), [numpy_helper.from_array(w, n) for n, w in weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def chain(path, length):
    """MatMul and a function, `length` times."""
    nodes, now = [], "x"
    for i in range(length):
        nodes.append(helper.make_node("MatMul", [now, "w"], [f"p{i}"], name=f"product_{i}"))
        nodes.append(helper.make_node(["Tanh", "Relu", "Sigmoid"][i % 3], [f"p{i}"], [f"y{i}"], name=f"function_{i}"))
        now = f"y{i}"
    weight = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32) / 4
    return save(path, nodes, [("x", [4, 16])], [(now, [4, 16])], [("w", weight)])


def evil(path):
    names = [EVIL, "'\"><svg onload=window.hacked=1>", "\u2028{{NONCE}}/*DATA*/&lt;"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name=names[0]),
        helper.make_node("Softmax", ["a"], [EVIL], name=names[1]),
        helper.make_node("MatMul", [EVIL, "w"], ["y"], name=names[2]),
    ]
    return save(path, nodes, [("x", [8, 16])], [("y", [8, 16])], [("w", np.ones((16, 16), np.float32))])


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="session")
def report(folder, opwright):
    """A model's page, made once: (its path, the profile that was printed beside it)."""
    made = {}

    def make(name, model, *more):
        if name not in made:
            page = folder / f"{name}.html"
            printed = opwright(folder, "profile", model, "--html", page, "--json", "--repeats", 3, "--warmup", 1, *more)
            made[name] = page, json.loads(printed)
        return made[name]

    return make


@pytest.fixture
def magika_page(report):
    return report("magika", magika())


@pytest.fixture(scope="session")
def chain_page(report, folder):
    return report("chain", chain(folder / "chain.onnx", 500), "--threads", 1, "--no-fuse")


def opened(browser, path, **more):
    page = browser.open(path, **more)
    page.evaluate("report.ready")
    page.settle()
    return page


def quiet(page, path):
    """Nothing on the console, and no address but the page's own and the layout's script, which comes from within it."""
    assert page.problems == []
    outside = [u for u in page.requests if u != f"file://{path}" and not u.startswith(("blob:null/", "blob:file://", "data:"))]
    assert outside == []


def test_a_real_model(browser, magika_page):
    path, profile = magika_page
    assert path.stat().st_size < 3_000_000
    page = opened(browser, path)
    kernels = len(profile["operators"])
    assert page.evaluate("report.rows.length") == kernels
    assert page.evaluate("document.querySelectorAll('.dot').length") == sum(o["bytes"] > 0 for o in profile["operators"])
    assert page.evaluate("report.graph.nodes.filter(n => n.kind === 'kernel').length") == kernels
    # Every kernel stands at a place of its own, and every edge leads downwards.
    assert page.evaluate("new Set(report.graph.nodes.map(n => `${Math.round(n.x)},${Math.round(n.y)}`)).size") == page.evaluate("report.graph.nodes.length")
    assert page.evaluate("report.graph.edges.every(e => e.from.y < e.to.y)")
    # Each edge carries the shape that passes along it.
    assert page.evaluate("report.graph.edges.every(e => /^\\w+\\[.*\\]/.test(e.label))")
    # All that runs depends on an input, and leads to an output.
    assert page.evaluate("report.graph.nodes.filter(n => n.kind !== 'input').every(n => n.in.length > 0 || n.reads.length === 0)")
    assert page.evaluate("report.graph.nodes.some(n => n.inner && n.inner.length > 1)"), "a fused kernel shows its operators"
    page.screenshot(SHOTS / "magika-light-1280.png", whole=True)
    quiet(page, path)
    page.close()


def test_the_largest_loss_comes_first_and_opens_the_panel(browser, magika_page):
    path, profile = magika_page
    page = opened(browser, path, width=1920, height=1080)
    gains = {o["name"]: o["changes"][0]["gain_ms"] for o in profile["operators"] if o.get("changes")}
    assert len(gains) > 2
    first = page.evaluate("document.querySelector('#losses-table tbody tr').dataset.row")
    assert page.evaluate(f"report.rows[{first}].gain") == pytest.approx(max(gains.values()))
    page.click_on("#losses-table tbody tr")
    page.settle()
    text = page.evaluate("document.getElementById('panel').textContent")
    row = profile["operators"][int(first)]
    for wanted in (row["type"], row["name"], row["shapes"], row["advice"], "Where its time goes", "Floors", "Declaration and code"):
        assert wanted in text
    parts = sum(p["ms"] for p in row["parts"])
    assert parts == pytest.approx(row["min_ms"], rel=1e-6)
    # Code of every level, coloured, and the declaration that it came from.
    tabs = page.evaluate("[...document.querySelectorAll('#panel [role=tab]')].map(t => t.textContent)")
    assert {"Equations", "Schedule", "Loops", "LLVM"} <= set(tabs)
    page.evaluate("[...document.querySelectorAll('#panel [role=tab]')].find(t => t.textContent === 'LLVM').click()")
    assert "define" in page.evaluate("document.querySelector('#panel pre').textContent")
    assert page.evaluate("document.querySelectorAll('#panel pre .t-keyword').length") > 0
    page.wait("!document.getElementById('panel').hidden")
    page.evaluate("document.getElementById('graph').scrollIntoView()")
    page.evaluate("new Promise(done => setTimeout(done, 400))")
    page.screenshot(SHOTS / "magika-panel-1920.png")
    page.key("Escape")
    assert page.evaluate("document.getElementById('panel').hidden")
    quiet(page, path)
    page.close()


def test_a_click_on_a_card_and_on_a_dot(browser, magika_page):
    path, _ = magika_page
    page = opened(browser, path)
    page.evaluate("document.getElementById('graph').scrollIntoView()")
    x, y, row = page.evaluate(
        "(() => { const n = report.byTime[0].card, t = report.graph.transform, r = document.getElementById('graph-canvas').getBoundingClientRect();"
        " return [r.x + t.applyX(n.x), r.y + t.applyY(n.y - n.height / 2 + 20), n.row.index]; })()"
    )
    page.click(x, y)
    assert page.evaluate("report.chosen") == row
    page.key("Escape")
    assert page.evaluate("report.chosen") == -1
    # The smallest dot is drawn last, so that nothing hides it.
    page.click_on(".dot:last-of-type")
    assert page.evaluate("report.chosen >= 0 && !document.getElementById('panel').hidden")
    quiet(page, path)
    page.close()


def test_search_and_keys(browser, magika_page):
    path, profile = magika_page
    page = opened(browser, path)
    word = next(o for o in profile["operators"] if "MatMul" in o["type"] or "Conv" in o["type"])["type"].split("+")[0]
    wanted = sum(word.lower() in json.dumps([o["type"], o["sources"], o["name"], o["shapes"], o["schedule"]]).lower() for o in profile["operators"])
    page.key("/")
    page.write(word)
    assert page.evaluate("document.querySelectorAll('#results .what').length") == min(50, wanted)
    assert page.evaluate("document.querySelectorAll('.dot.dim').length") == page.evaluate("report.rows.length") - wanted
    page.screenshot(SHOTS / "magika-search-1280.png")
    page.key("Enter")
    found = page.evaluate("report.chosen")
    assert word in json.dumps(profile["operators"][found])
    page.key("Escape")
    page.write("no such thing")
    assert "Nothing has that" in page.evaluate("document.getElementById('results').textContent")
    page.key("Escape")
    # From kernel to kernel by arrows, in the graph and in the roofline.
    page.evaluate("document.getElementById('graph-canvas').focus()")
    page.key("ArrowUp")
    before = page.evaluate("report.chosen")
    page.key("ArrowUp")
    page.key("ArrowDown")
    assert page.evaluate("report.chosen") >= 0 and before >= 0
    page.key("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    page.key("Escape")
    page.evaluate("document.querySelector('#roofline-chart svg').focus()")
    page.key("ArrowRight")
    assert page.evaluate("report.chosen") == page.evaluate("report.byTime[0].index")
    quiet(page, path)
    page.close()


def test_light_and_dark(browser, magika_page):
    path, _ = magika_page
    page = opened(browser, path, dark=True)
    background = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = lambda c: sum(int(v) for v in c[4:-1].split(","))
    assert brightness(background()) < 150, "as the system asks for"
    page.screenshot(SHOTS / "magika-dark-1280.png", whole=True)
    for theme, dark in (("light", False), ("dark", True), ("auto", True)):
        page.click_on("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert (brightness(background()) < 150) == dark
    # Text can be read on every colour of a card: at least 4.5 to 1.
    contrast = (
        "(() => { const l = c => { c = d3.rgb(c); const f = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;"
        " return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b); };"
        " const ratio = (a, b) => (Math.max(l(a), l(b)) + 0.05) / (Math.min(l(a), l(b)) + 0.05);"
        " return Math.min(...d3.range(0, 1.01, 0.02).flatMap(t => [colours.heat(t), colours.change(2 * t - 1)]).map(c => ratio(c, colours.on(c))),"
        " ratio(colours.variable('--soft'), colours.variable('--page')), ratio(colours.variable('--faint'), colours.variable('--card'))); })()"
    )
    assert page.evaluate(contrast) >= 4.5
    page.evaluate("report.theme('light')")
    assert page.evaluate(contrast) >= 4.5
    quiet(page, path)
    page.close()


def test_two_runs_side_by_side(browser, report, folder, magika_page):
    _, before = magika_page
    changed = json.loads(json.dumps(before))
    slow = max(range(len(changed["operators"])), key=lambda i: changed["operators"][i]["min_ms"])
    changed["operators"][slow]["min_ms"] *= 4
    gone = changed["operators"].pop(0 if slow else 1)
    changed["operators"].append({**gone, "name": "only here before"})
    (folder / "before.json").write_text(json.dumps(changed))
    path, now = report("compared", magika(), "--baseline", folder / "before.json")
    page = opened(browser, path)
    assert not page.evaluate("document.getElementById('comparison').hidden")
    pairs = page.evaluate("report.pairs.map(p => [p.now && p.now.name, p.before && p.before.name, p.delta])")
    assert sum(b is None for _, b, _ in pairs) == 1 and sum(n is None for n, _, _ in pairs) == 1
    first = page.evaluate("document.querySelector('#comparison-body tbody tr .op').title.split('\\n')[1]")
    largest = max(pairs, key=lambda p: abs(p[2]))
    assert first == (largest[0] or largest[1])
    assert "1 only here, 1 only in the baseline" in page.evaluate("document.getElementById('comparison-body').textContent")
    page.evaluate("document.getElementById('comparison').scrollIntoView()")
    page.screenshot(SHOTS / "comparison-1280.png")
    quiet(page, path)
    page.close()


def test_a_thousand_kernels_stay_fluid(browser, chain_page):
    path, profile = chain_page
    page = opened(browser, path)
    assert len(profile["operators"]) == 1000
    assert page.evaluate("report.graph.nodes.filter(n => n.kind === 'kernel').length") == 1000
    assert page.evaluate("document.querySelectorAll('.dot').length") == 1000
    page.evaluate("document.getElementById('graph').scrollIntoView()")
    page.screenshot(SHOTS / "chain-1280.png")
    # Time to draw a frame, along the whole chain and at every size; the median, since others may have the processor.
    frames = page.evaluate(
        "(() => { const b = report.graph.bounds, f = []; for (let i = 0; i < 120; ++i) { const k = 0.02 * 1.04 ** i;"
        " const y = b.y0 + (b.y1 - b.y0) * (i % 30) / 30; f.push(report.graph.frame(600 - k * (b.x0 + b.x1) / 2, 300 - k * y, k)); }"
        " return f.sort((a, b) => a - b); })()"
    )
    print(f"a frame takes {frames[60]:.1f} ms (median of 120, largest {frames[-1]:.1f} ms)")
    assert frames[60] < 8, "of the 16 that 60 frames a second leave"
    assert page.evaluate("report.graph.stats.drawn") < 50, "what is out of view is not drawn"
    quiet(page, path)
    page.close()


def test_names_stay_text(browser, report, folder):
    path, profile = report("evil", evil(folder / "evil.onnx"))
    assert EVIL in {s["name"] for o in profile["operators"] for s in o["sources"]}
    text = path.read_text()
    assert "onerror=\\\"window" not in text.split('id="data"')[0] and "<img" not in text and "</script><img" not in text
    page = opened(browser, path)
    for row in range(len(profile["operators"])):
        page.evaluate(f"report.select({row}, 'table')")
        page.settle()
    page.evaluate("report.tip({clientX: 10, clientY: 10}, report.rowTip(report.rows[0]))")
    page.key("/")
    page.write("script")
    page.settle()
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.evaluate("document.querySelectorAll('img, svg[onload], [onerror]').length") == 0
    assert EVIL in page.evaluate("document.body.textContent")
    page.screenshot(SHOTS / "names-1280.png")
    # A script that got in all the same would not run.
    page.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; document.body.append(s); })()")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=3\">')")
    page.settle()
    assert page.evaluate("typeof window.hacked") == "undefined"
    page.close()


def test_print_and_narrow(browser, magika_page):
    path, _ = magika_page
    page = opened(browser, path, width=760)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing hangs over the edge"
    page.screenshot(SHOTS / "magika-narrow-760.png")
    page.call("Emulation.setEmulatedMedia", {"media": "print"})
    page.settle()
    assert page.evaluate("getComputedStyle(document.querySelector('.bar')).display") == "none"
    assert len(page.call("Page.printToPDF", {"printBackground": True})["data"]) > 20_000
    quiet(page, path)
    page.close()
