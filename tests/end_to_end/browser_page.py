"""What tests of pages in a real browser share: how a page is opened and watched, and what they ask of it.

axe-core finds what keeps people with screen readers or keyboards out.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, ViewportSize

AXE = Path(__file__).parents[1] / "axe" / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (390, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SCREENS = tuple(zip(WIDTHS, reversed(SCHEMES), strict=True))
"""Each width and each scheme: what fits depends on the one, what is legible on the other."""
USUAL: ViewportSize = {"width": 1280, "height": 720}

Open = Callable[..., Page]
"""Opens a file or an address: see ``Pages.open``."""

OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1) && !one.closest('pre, .wide, .hidden');
}).map(one => one.outerHTML.slice(0, 80))"""
OF_WORDS = """[...document.querySelectorAll('body *')].filter(one =>
    !one.closest('.hidden') && [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))"""
SMALL = f"""() => {OF_WORDS}
    .filter(one => parseFloat(getComputedStyle(one).fontSize) < (one.matches('.user > p, .agent > p') ? 16 : 12))
    .map(one => one.outerHTML.slice(0, 80))"""
UNFOLD = "() => document.querySelectorAll('details').forEach(one => { one.open = true })"
FAINT = """() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const linear = part => part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = one => {
        for (; one; one = one.parentElement) {
            const found = numbers(getComputedStyle(one).backgroundColor);
            if (found.length < 4 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const low = [];
    for (const one of WORDS) {
        const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < 4.5) low.push([contrast.toFixed(2), one.outerHTML.slice(0, 80)]);
    }
    return low;
}""".replace("WORDS", OF_WORDS)


class Pages:
    """A page with JavaScript and one without. A process for each test would take most of the time of all.

    ``seen``: everything that they log, ask, request or fail at since the last one was opened.
    """

    def __init__(self, browser: Browser) -> None:
        self.seen: list[str] = []
        self._find = cache(lambda scripts: self._watch(browser.new_context(java_script_enabled=scripts).new_page()))

    def open(
        self,
        place: Path | str,
        *,
        viewport: ViewportSize = USUAL,
        color_scheme: Literal["light", "dark"] = "light",
        java_script_enabled: bool = True,
    ) -> Page:
        """``place``: a file or an address."""
        address = place.as_uri() if isinstance(place, Path) else place
        page = self._find(java_script_enabled)
        page.goto("about:blank")
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        self.seen.clear()
        page.goto(address)
        assert self.seen.pop(0) == f"request: {address}"
        return page

    def _watch(self, page: Page) -> Page:
        def dismiss(dialog: Dialog) -> None:
            self.seen.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", lambda message: self.seen.append(f"console: {message.text}"))
        page.on("dialog", dismiss)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("popup", lambda popup: self.seen.append(f"popup: {popup.url}"))
        page.on("download", lambda download: self.seen.append(f"download: {download.url}"))
        page.on("request", lambda request: self.seen.append(f"request: {request.url}"))
        return page


def find_violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe-core finds: each rule, and the elements that break it."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed; run: make test")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run()")
    assert {rule["id"] for rule in found["passes"]} >= {"color-contrast", "heading-order", "region"}
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
