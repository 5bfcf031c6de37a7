"""Makes the README's pictures: the demo, the terminal, an exported page of a bundled conversation. `make pictures`.

The page is exported by the usual command, and photographed by the browser of this machine: in both colour schemes, and
as on a phone.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import ViewportSize
from typer.testing import CliRunner

from acp_proxy.cli.app import app
from scripts import animation, browser, screens

ROOT = Path(__file__).parent.parent
CONVERSATION = ROOT / "fixtures" / "conversations" / "login.jsonl"
PICTURES = ROOT / "docs" / "pictures"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZE: ViewportSize = {"width": 1180, "height": 1580}
PHONE: ViewportSize = {"width": 390, "height": 844}
SHARPNESS = 1.5  # README pages are about 830 pixels wide, and most screens have two pixels for each


@contextmanager
def exported_page() -> Iterator[Path]:
    """The conversation as a page."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        for words in (["import", str(CONVERSATION)], ["export", "last", "--output", str(page)]):
            result = CliRunner().invoke(app, ["sessions", *words, "--store", str(Path(folder) / "store")])
            if result.exit_code:
                raise SystemExit(result.output)
        yield page


def photograph(page: Path, executable: str) -> Iterator[Path]:
    with browser.opened(executable) as opened:
        for scheme in SCHEMES:
            context = opened.new_context(viewport=SIZE, device_scale_factor=SHARPNESS, color_scheme=scheme)
            shown = context.new_page()
            shown.goto(page.as_uri())
            shown.get_by_text("Read notes/sessions.py").click()
            path = PICTURES / f"export-{scheme}.png"
            shown.screenshot(path=path)
            yield path
        context = opened.new_context(viewport=PHONE, device_scale_factor=SHARPNESS, has_touch=True, is_mobile=True)
        shown = context.new_page()
        shown.goto(f"{page.as_uri()}#turn-2")
        path = PICTURES / "export-phone.png"
        shown.screenshot(path=path)
        yield path


def main() -> int:
    with TemporaryDirectory() as folder:
        for name, svg in screens.terminal_pictures(CONVERSATION, Path(folder)):
            path = PICTURES / f"{name}.svg"
            path.write_text(svg, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: {len(svg) // 1024} KiB")
    path = PICTURES / "demo.svg"
    path.write_text(animation.demo(), encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")
    executable = browser.installed()
    if executable is None:
        print("pictures: there is no Chromium here. Run: make browser", file=sys.stderr)
        return 1
    with exported_page() as page:
        for path in photograph(page, executable):
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
