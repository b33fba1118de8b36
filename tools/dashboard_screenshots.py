"""Write docs/images/dashboard-*.png, pictures of the dashboard over the data of the tests.

    python tools/dashboard_screenshots.py

Needs the packages of development and Debian's chromium.
"""

from __future__ import annotations

import importlib
import io
import shutil
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from installed import installed_server
from pgsluice.dashboard import app
from pgsluice.dashboard.pages import ROUTES
from pgsluice.dashboard.serving import serving

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
_WIDTH = 1200
_HEIGHT_MAX = 1100
_COLOURS = 256
# Pages by the names of their routes, with colours and width.
_PICTURES = {
    "dashboard-overview": ("overview", "light", _WIDTH),
    "dashboard-queue": ("queue", "light", _WIDTH),
    "dashboard-message": ("message", "light", _WIDTH),
    "dashboard-dead-letters": ("dead_letters", "light", _WIDTH),
    "dashboard-search": ("search", "light", _WIDTH),
    "dashboard-log": ("log", "dark", _WIDTH),
    "dashboard-mobile": ("overview", "dark", 390),
}


def take(browser: Browser, address: str, scheme: Any, width: int) -> bytes:
    """Return a picture of a page as PNG with few colours."""
    page = browser.new_page(
        color_scheme=scheme, viewport={"width": width, "height": 600}, reduced_motion="reduce"
    )
    page.goto(address)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": width, "height": min(height, _HEIGHT_MAX)})
    shot = page.screenshot()
    page.close()
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    """Write the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium; install it with: apt-get install chromium")
    sys.path.insert(0, str(ROOT / "tests"))
    lively = importlib.import_module("support.lively")
    paths = {route.name: route.path for route in ROUTES}
    IMAGES.mkdir(exist_ok=True)
    with installed_server() as server, psycopg.connect(server.url(), autocommit=True) as connection:
        lively.fill(connection)
        dashboard = app(server.url(), allow_actions=True, title="shop", refresh_s=3600)
        with (
            serving(dashboard, "127.0.0.1", 0, "--port") as address,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            while dashboard.state.dashboard.diagnosis.latest() is None:
                time.sleep(0.1)
            for name, (route, scheme, width) in _PICTURES.items():
                query = urlencode(lively.QUERIES.get(route, {}))
                page = f"{address.rstrip('/')}{paths[route]}?{query}"
                picture = take(browser, page, scheme, width)
                (IMAGES / f"{name}.png").write_bytes(picture)
                print(f"{name}.png {len(picture) // 1000} kB")
            browser.close()


if __name__ == "__main__":
    main()
