"""Pages as a browser has them after a script ran in them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs the chromium browser")


def browse(page: Path, scratch: Path, script: str = "", fragment: str = "") -> str:
    """The page as a browser has it after `script` ran in it; what the script appends to `log` is on the page."""
    acted = scratch / "acted.html"
    log = f"""
      const log = [];
      addEventListener("load", () => {{
        try {{ {script} }} catch (error) {{ log.push(String(error)); }}
        const out = document.createElement("output");
        out.textContent = JSON.stringify(log);
        document.body.append(out);
      }});"""
    # The page's policy lets this script run too.
    own = base64.b64encode(hashlib.sha256(log.encode()).digest()).decode()
    text = page.read_text().replace("script-src ", f"script-src 'sha256-{own}' ", 1)
    acted.write_text(text.replace("</body>", f"<script>{log}</script></body>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={scratch / 'browser'}", "--dump-dom"]
    command += ["--virtual-time-budget=2000", acted.as_uri() + fragment]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def logged(shown: str) -> Any:
    """What the script appended to `log`."""
    text = re.search(r"<output>(.*?)</output>", shown, re.DOTALL)[1]
    return json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
