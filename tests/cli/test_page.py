"""The page that shows what hybridize did, in headless Chromium: it loads, finds, folds and shows what was clicked."""
import html
import json
import re
import shutil
import subprocess

import pytest

import gluino as mx
from gluino.gluon import nn

# Acts on the page as a user does, by events, and writes what it sees into the document.
SCRIPT = """
<script>
(async () => {
  const frame = () => new Promise((done) => setTimeout(() => { sides.forEach(drawSide); drawTimeline(); done(); }, 20));  // no one shows frames here
  const report = { errors: [] };
  try {
    await frame();
    report.loaded = performance.now();
    report.boxes = sides.map((side) => side.boxes.length);
    report.nodes = sides.map((side) => side.nodes.length);
    const at = (side, box) => {
      const view = side.canvas.getBoundingClientRect(), b = side.boxes[box];
      return { clientX: view.left + side.x + b.x * side.scale, clientY: view.top + side.y + b.y * side.scale, bubbles: true, pointerId: 1 };
    };
    const click = async (side, box) => {
      for (const kind of ['pointerdown', 'pointerup']) side.canvas.dispatchEvent(new PointerEvent(kind, at(side, box)));
      await frame();
    };
    const search = document.getElementById('search');
    search.value = WANTED;
    search.dispatchEvent(new Event('input'));
    report.found = document.getElementById('matches').textContent;
    search.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    await frame();
    report.details = document.getElementById('details').textContent;
    document.getElementById('open-all').click();
    await frame();
    report.open = sides.map((side) => side.boxes.length);
    document.getElementById('fold-all').click();
    await frame();
    report.folded = sides.map((side) => side.boxes.length);
    document.getElementById('open-all').click();
    await frame();
    const most = sides[1].nodes.map((_, n) => linked[1][n].length), fused = most.indexOf(Math.max(...most));
    select(sides[1], [fused], true);
    await frame();
    await click(sides[1], sides[1].boxOf[fused]);
    report.clicked = { name: sides[1].nodes[fused].name, was: linkedTo(selected).size, text: document.getElementById('details').textContent };
    const before = [sides[0].x, sides[0].y, sides[0].scale];
    const view = sides[0].canvas.getBoundingClientRect(), middle = { clientX: view.left + 50, clientY: view.top + 50, bubbles: true, pointerId: 1 };
    sides[0].canvas.dispatchEvent(new WheelEvent('wheel', { ...middle, deltaY: 100, cancelable: true }));
    const started = performance.now();
    for (let i = 0; i < 30; ++i) {
      for (const [kind, dx] of [['pointerdown', 0], ['pointermove', 30], ['pointerup', 30]])
        sides[0].canvas.dispatchEvent(new PointerEvent(kind, { ...middle, clientX: middle.clientX + dx }));
      sides.forEach(drawSide);
    }
    report.frame = (performance.now() - started) / 30;
    report.moved = [sides[0].x, sides[0].y, sides[0].scale].map((value, i) => value !== before[i]);
    report.slots = data.plan.slots.length;
  } catch (error) { report.errors.push(String(error.stack)); }
  const result = document.createElement('pre');
  result.id = 'report';
  result.textContent = JSON.stringify(report);
  document.body.append(result);
})();
</script>
"""


def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        pytest.skip("chromium is not installed: tools/setup.sh page installs it")
    return program


def act_on(page, tmp_path, wanted):
    """Opens the page, acts on it, and returns what was seen. Nothing is fetched: the page has no address but its own."""
    text = page.read_text()
    assert not re.search(r"""(src|href)=["']?https?:""", text)
    (tmp_path / "acted.html").write_text(text.replace("</body>", SCRIPT.replace("WANTED", json.dumps(wanted)) + "</body>"))
    done = subprocess.run([chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,950", "--virtual-time-budget=20000",
                           f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "acted.html").as_uri()],
                          capture_output=True, text=True, timeout=180)
    report = re.search(r'<pre id="report">(.*?)</pre>', done.stdout, re.S)
    assert report, done.stdout[-500:] + done.stderr[-500:]
    seen = json.loads(html.unescape(report[1]))
    assert not seen["errors"], seen["errors"]
    return seen


def check(seen, operators):
    assert seen["nodes"][0] >= operators and seen["nodes"][1] <= seen["nodes"][0]
    assert seen["open"] == seen["nodes"] and seen["folded"][0] <= seen["boxes"][0] <= seen["open"][0]
    assert "found" in seen["found"] and "output" in seen["details"]
    assert seen["clicked"]["was"] > 1 and f"was, {seen['clicked']['was']} operators" in seen["clicked"]["text"]
    assert seen["slots"] > 0 and all(seen["moved"])


def test_the_page_of_a_model(gluino, models, tmp_path):
    gluino("draw", models / "net", "--shape", "data=2,3,8,8", "-o", tmp_path / "graph.html")
    seen = act_on(tmp_path / "graph.html", tmp_path, "conv")
    check(seen, 5)
    assert "time" in seen["details"]


def test_the_page_of_a_network_in_python(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(4), nn.LayerNorm())
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 3)))
    assert "before the passes:" in net.explain(html=tmp_path / "net.html")
    seen = act_on(tmp_path / "net.html", tmp_path, "dense")
    assert seen["nodes"][0] >= 4


def test_a_long_network_stays_fluent(gluino, tmp_path):
    net = mx.gluon.model_zoo.vision.resnet152_v1()
    net.hybridize()
    net.initialize()
    net(mx.nd.zeros((1, 3, 32, 32)))
    net.export(str(tmp_path / "resnet152"))
    gluino("draw", tmp_path / "resnet152", "--shape", "data=1,3,32,32", "--no-times", "-o", tmp_path / "resnet152.html")
    seen = act_on(tmp_path / "resnet152.html", tmp_path, "stage3")
    check(seen, 500)
    # A frame of all boxes costs a small part of opening the page: moving about does not lay out again.
    assert seen["frame"] < seen["loaded"]


@pytest.mark.parametrize("ending", ["svg", "dot"])
def test_pictures(gluino, models, tmp_path, ending):
    gluino("draw", models / "net", "--shape", "data=2,3,8,8", "-o", tmp_path / f"graph.{ending}")
    assert (tmp_path / f"graph.{ending}").read_text().startswith("<svg" if ending == "svg" else "digraph")
    assert "ending" in gluino("draw", models / "net", "--shape", "data=2,3,8,8", "-o", tmp_path / "graph.bmp", code=2).err
