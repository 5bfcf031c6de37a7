"""`acp-proxy demo` on a terminal as an animated SVG: each line appears when the command printed it.

The output and its timing are real. Only CSS animates it, so it works in an `<img>`; with reduced motion, all lines are
visible from the beginning.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from acp_proxy.relay import pipes

COMMAND = "acp-proxy demo"
COLUMNS, LINES = 120, 40
TYPED, PAUSE, HELD = 0.08, 0.5, 14.0
"""Seconds per letter of the command, before it runs, and with all lines visible."""
WIDTH, HEIGHT, EDGE, TOP = 7.8, 19, 16, 44  # pixels: a character, a line, the margins
_STYLE = """
svg { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
text { fill: #d7dae0; white-space: pre; }
.prompt { fill: #8bc34a; font-weight: bold; }
.you { fill: #7fb4f0; }
.step { fill: #f0c674; }
.line { opacity: 0; animation: %(whole).2fs step-end infinite; }
@media (prefers-reduced-motion: reduce) { .line { animation: none; opacity: 1; } }
"""


@dataclass(frozen=True)
class Line:
    """``at``: seconds from the command's start."""

    at: float
    text: str


def demo() -> str:
    """The demo as an SVG."""
    return drawn(list(printed("demo")))


def printed(*words: str, settings: Mapping[str, str] | None = None) -> Iterator[Line]:
    """The lines that `acp-proxy` prints on a terminal, with their times."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # where acp-proxy is installed
    environment = os.environ | {"PATH": path, "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC", **(settings or {})}
    began, rest = time.monotonic(), b""
    with subprocess.Popen(
        [sys.executable, "-m", "acp_proxy", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        while data := pipes.read(ours, 65536):
            at = time.monotonic() - began
            *whole, rest = (rest + data).split(b"\n")
            yield from (Line(at, line.decode().rstrip("\r")) for line in whole)
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"acp-proxy {' '.join(words)} ended with {process.returncode}")


def drawn(lines: list[Line]) -> str:
    typed = len(COMMAND) * TYPED + PAUSE
    whole = typed + (lines[-1].at if lines else 0) + HELD
    columns = max(len(COMMAND) + 2, *(len(line.text) for line in lines))
    width, height = round(columns * WIDTH + 2 * EDGE), TOP + (len(lines) + 1) * HEIGHT + EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(COMMAND)}</title>",
    ]
    style, rows = [_STYLE % {"whole": whole}], [_text(0, "$", "prompt")]
    for number, letter in enumerate(COMMAND):
        style.append(appears(f"k{number}", number * TYPED, whole))
        rows.append(f'<g class="line" style="animation-name:k{number}">{_text(0, letter, "", number + 2)}</g>')
    moments = {at: f"a{number}" for number, at in enumerate(sorted({line.at for line in lines}))}
    style += [appears(name, typed + at, whole) for at, name in moments.items()]
    for row, line in enumerate(lines, start=1):
        if line.text.strip():
            drawn_text = _text(row, line.text, _kind(line.text))
            rows.append(f'<g class="line" style="animation-name:{moments[line.at]}">{drawn_text}</g>')
    parts.append(f"<style>{''.join(style)}</style>")
    parts.append(f'<rect width="{width}" height="{height}" rx="8" fill="#1c1f24"/>')
    dots = zip((18, 38, 58), ("#ff5f57", "#febc2e", "#28c840"), strict=True)
    parts += [f'<circle cx="{x}" cy="18" r="6" fill="{colour}"/>' for x, colour in dots]
    return "\n".join([*parts, *rows, "</svg>\n"])


def appears(name: str, at: float, whole: float) -> str:
    """CSS that shows a line from a moment on until the animation restarts."""
    return f"@keyframes {name} {{ 0% {{ opacity: 0; }} {100 * at / whole:.3f}%, 100% {{ opacity: 1; }} }}\n"


def _text(row: int, text: str, kind: str, column: int = 0) -> str:
    """A text in fixed-width characters in any font."""
    indent = len(text) - len(text.lstrip())
    shown = text.strip()
    x, y = EDGE + (column + indent) * WIDTH, TOP + row * HEIGHT + 13
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y}" textLength="{len(shown) * WIDTH:g}"{named}>{escape(shown)}</text>'


def _kind(text: str) -> str:
    if text.strip().startswith(("you:", "user:")):
        return "you"
    return "" if text.startswith(" ") else "step"
