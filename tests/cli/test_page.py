"""The page that shows what hybridize did, in headless Chromium: it loads, finds, folds and shows what was clicked."""
import html
import http.server
import json
import queue
import re
import shutil
import subprocess
import threading

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
    for (const [kind, dx] of [['pointerdown', 0], ['pointermove', 30], ['pointerup', 30]])
      sides[0].canvas.dispatchEvent(new PointerEvent(kind, { ...middle, clientX: middle.clientX + dx }));
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


# Opens all blocks and drags, frame by frame as the browser shows them; sends what that took.
PAN = """
<script>
(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
  await frame();
  const report = { opened: await frame() };
  document.getElementById('open-all').click();
  await frame();
  report.boxes = sides[0].boxes.length;
  const box = drawBox, layout = layOut;
  let drawn = 0;
  report.layouts = report.drawn = 0;
  drawBox = (...given) => { ++drawn; box(...given); };
  layOut = (...given) => { ++report.layouts; return layout(...given); };
  const view = sides[0].canvas.getBoundingClientRect(), times = [];
  const send = (kind, x, y) => sides[0].canvas.dispatchEvent(new PointerEvent(kind, { clientX: view.left + x, clientY: view.top + y, bubbles: true, pointerId: 1 }));
  send('pointerdown', 200, 300);
  for (let i = 0, last = await frame(); i < 100; ++i) {
    drawn = 0;
    send('pointermove', 200 + i % 50, 300 - 5 * i);
    const now = await frame();
    times.push(now - last);
    last = now;
    report.drawn = Math.max(report.drawn, drawn);
  }
  send('pointerup', 200, 300);
  times.sort((a, b) => a - b);
  report.median_frame = times[50];
  report.worst_frame = times[99];
  await fetch('/report', { method: 'POST', body: JSON.stringify(report) });
})();
</script>
"""


def pan(page, tmp_path):
    """What opening and dragging take, in milliseconds by the clock: headless browsers that skip time cannot tell."""
    text, answers = page.read_text().replace("</body>", PAN + "</body>").encode(), queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text)

        def do_POST(self):
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen([chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,950", "--remote-debugging-port=0",
                                    f"--user-data-dir={tmp_path / 'second_profile'}", f"http://127.0.0.1:{server.server_port}/"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return answers.get(timeout=180)
        finally:
            browser.kill()
            browser.wait()
            server.shutdown()


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


class EncoderLayer(nn.HybridBlock):
    """One of a transformer's, with attention spelled out."""

    def __init__(self, units, heads, **options):
        super().__init__(**options)
        self.heads = heads
        with self.name_scope():
            self.query, self.key, self.value, self.out = (nn.Dense(units, flatten=False) for _ in range(4))
            self.norm, self.second_norm = nn.LayerNorm(), nn.LayerNorm()
            self.wide, self.narrow = nn.Dense(4 * units, flatten=False), nn.Dense(units, flatten=False)

    def by_heads(self, F, x):
        return F.reshape(F.transpose(F.reshape(x, shape=(0, 0, self.heads, -1)), axes=(0, 2, 1, 3)), shape=(-1, 0, 0), reverse=True)

    def hybrid_forward(self, F, x):
        n = self.norm(x)
        q, k, v = (self.by_heads(F, dense(n)) for dense in (self.query, self.key, self.value))
        mixed = F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.25), v)
        mixed = F.transpose(F.reshape(mixed, shape=(-1, self.heads, 0, 0), reverse=True), axes=(0, 2, 1, 3))
        x = x + self.out(F.reshape(mixed, shape=(0, 0, -1)))
        return x + self.narrow(F.LeakyReLU(self.wide(self.second_norm(x)), act_type="gelu"))


def long_network(name):
    if name == "resnet152":
        return mx.gluon.model_zoo.vision.resnet152_v1(), (1, 3, 32, 32), "stage3"
    net = nn.HybridSequential()
    with net.name_scope():
        for i in range(24):
            net.add(EncoderLayer(16, 2, prefix=f"layer{i}_"))
    return net, (1, 8, 16), "layer17"


@pytest.mark.parametrize("name", ["resnet152", "transformer24"])
def test_a_long_network_stays_fluent(gluino, tmp_path, name):
    net, shape, wanted = long_network(name)
    net.hybridize()
    net.initialize()
    net(mx.nd.zeros(shape))
    net.export(str(tmp_path / name))
    page = tmp_path / f"{name}.html"
    gluino("draw", tmp_path / name, "--shape", f"data={','.join(map(str, shape))}", "--no-times", "-o", page)
    check(act_on(page, tmp_path, wanted), 500)
    # Moving about does not lay out again, and draws what is seen: a frame costs a small part of opening the page.
    seen = pan(page, tmp_path)
    print(f"{name}: {seen}")
    assert seen["layouts"] == 0 and seen["boxes"] > 500
    assert seen["drawn"] < seen["boxes"] / 4
    assert seen["median_frame"] < seen["opened"] / 4


@pytest.mark.parametrize("ending", ["svg", "dot"])
def test_pictures(gluino, models, tmp_path, ending):
    gluino("draw", models / "net", "--shape", "data=2,3,8,8", "-o", tmp_path / f"graph.{ending}")
    assert (tmp_path / f"graph.{ending}").read_text().startswith("<svg" if ending == "svg" else "digraph")
    assert "ending" in gluino("draw", models / "net", "--shape", "data=2,3,8,8", "-o", tmp_path / "graph.bmp", code=2).err
