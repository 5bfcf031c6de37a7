"""The browser of this machine that Playwright drives, for tests and pictures of pages.

As a program, it ends with 1 if there is none.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first is Debian's package, which `make browser` installs if it can."""


def installed() -> str | None:
    """The path of the browser."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@contextmanager
def opened(path: str) -> Iterator[Browser]:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # its sandbox does not work for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if is_root else [])
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(installed() is None)
