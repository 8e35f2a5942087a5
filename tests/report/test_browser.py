"""The report in a real browser: no console message, no request, and a table that sorts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import SAMPLE_DATA

pytest.importorskip("jinja2")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--virtual-time-budget=3000",
]  # fmt: skip

PROBE = """<script>
const table = document.querySelector("table.sortable");
const names = () => [...table.tBodies[0].rows].map(row => row.cells[1].textContent.trim());
const head = [...table.tHead.rows[0].cells].find(cell => cell.textContent.trim() === "is right");
const found = {before: names()};
head.querySelector("button").click();
found.up = names(); found.sort = head.getAttribute("aria-sort");
head.querySelector("button").click();
found.down = names();
found.requests = performance.getEntriesByType("resource").map(entry => entry.name);
document.title = "probe " + JSON.stringify(found);
</script>"""


def test_the_page_works_in_a_browser(run, tmp_path):
    files = [SAMPLE_DATA / f"digits_{name}.npz" for name in ("good", "overconfident", "underconfident")]
    run("report", *files, "-o", "report.html", "--resamples", 20)
    text = Path("report.html").read_text()
    Path("probed.html").write_text(text.replace("</body>", PROBE + "</body>"))
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "probed.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert not re.search(r"CONSOLE", done.stderr), done.stderr
    title = re.search(r"<title>probe (.*?)</title>", done.stdout, re.S)
    assert title, done.stdout[:500]
    found = json.loads(title[1].replace("&amp;", "&"))
    assert found["requests"] == []
    assert found["sort"] == "ascending"
    assert found["down"] == found["up"][::-1]
    assert found["up"][0].endswith("digits_overconfident.npz")  # the lowest accuracy
    assert found["before"][0].endswith("digits_good.npz")  # the lowest error
