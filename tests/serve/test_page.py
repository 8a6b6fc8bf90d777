"""The page at /, in headless Chromium: it shows the models and runs one. GLUINO_SCREENSHOT=page.png keeps a picture of it."""
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

# Acts on the page as a user does, and writes what it sees into the document.
SCRIPT = """
<script>
(async () => {
  const until = async (holds) => { for (let i = 0; i < 400 && !holds(); ++i) await new Promise((done) => setTimeout(done, 25)); };
  const report = { errors: [] };
  window.onerror = (message) => report.errors.push(String(message));
  try {
    await until(() => document.querySelectorAll('#models button').length > 0 && document.querySelector('#model table'));
    report.models = [...document.querySelectorAll('#models button')].map((b) => b.textContent);
    [...document.querySelectorAll('#models button')].find((b) => b.textContent.startsWith('pictures')).click();
    await until(() => document.querySelector('#model h2').textContent.startsWith('pictures'));
    report.table = document.querySelector('#model table').textContent;
    const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect();
    canvas.setPointerCapture = () => {};
    const at = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1 }));
    at('pointerdown', 40, 20); at('pointermove', 100, 20); at('pointermove', 60, 120); at('pointerup', 60, 120);
    report.drawn = document.querySelector('textarea').value.split(',').map(Number);
    document.querySelector('.primary').click();
    await until(() => document.querySelector('#model pre'));
    report.numbers = document.querySelector('#model pre').textContent.split(',').map(Number);
    report.bars = document.querySelectorAll('.bars i').length;
    document.querySelector('textarea').value = '1, 2';
    document.querySelector('.primary').click();
    await until(() => document.querySelector('#model .error'));
    report.mistake = document.querySelector('#model .error').textContent;
    document.querySelector('textarea').value = report.drawn.join(', ');
    document.querySelector('.primary').click();
    await until(() => document.querySelector('#model pre'));
  } catch (error) { report.errors.push(String(error.stack)); }
  document.body.append(Object.assign(document.createElement('script'), { id: 'report', type: 'application/json', textContent: JSON.stringify(report) }));
})();
</script>
"""


class Between(http.server.BaseHTTPRequestHandler):
    """Passes everything on to the server, and puts the script into its page."""

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.behind}{self.path}", self.rfile.read(length) if self.command == "POST" else None, method=self.command)
        try:
            with urllib.request.urlopen(request) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as e:
            status, body = e.code, e.read()
        if self.path == "/":
            body = body.replace(b"</body>", SCRIPT.encode() + b"</body>")
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def test_the_page_runs_a_model(serve, models, tmp_path):
    server = serve(models.folder / "mlp", f"pictures={models.folder / 'conv'}")
    page = server.get("/").body.decode()
    assert not re.search(r"""(src|href)=["']?|https?:|import\s""", page)  # nothing is fetched but the server's own answers
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("chromium is not installed: tools/setup.sh page installs it")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    proxy.behind = server.port
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'profile'}"]
    address = f"http://127.0.0.1:{proxy.server_address[1]}/"
    try:
        done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=180)
        if picture := os.environ.get("GLUINO_SCREENSHOT"):
            subprocess.run([*command, f"--screenshot={os.path.abspath(picture)}", address], capture_output=True, timeout=180, check=True)
    finally:
        proxy.shutdown()
    report = re.search(r'<script id="report"[^>]*>(.*?)</script>', done.stdout, re.S)
    assert report, done.stdout[-500:] + done.stderr[-500:]
    seen = json.loads(html.unescape(report[1]))
    assert not seen["errors"], seen["errors"]
    assert seen["models"] == ["mlp : 1ready", "pictures : 1ready"] and "any × 3 × 8 × 8" in seen["table"]
    assert len(seen["drawn"]) == 3 * 8 * 8 and 0 <= min(seen["drawn"]) < max(seen["drawn"]) <= 1
    assert seen["bars"] == len(seen["numbers"]) == 5
    assert "400" in seen["mistake"] and "elements" in seen["mistake"]

