"""Makes the zipapp of a wheel: pyz.py WHEEL FOLDER

FOLDER gets acp-proxy-PLATFORM.pyz, with the dependencies for this platform and for each supported version of Python,
``sync`` and ``mcp`` included: whoever has one file cannot install more. Needs uv and the package index.
"""

import argparse
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

LAUNCHER = Path(__file__).parent / "pyz" / "__main__.py"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "[mcp,sync]"
SHEBANG = b"#!/usr/bin/env python3\n"
LEFT_OUT = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"})
"""What says how a package was installed."""
PLATFORMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


def platform_name() -> str:
    """This platform in a file's name, such as linux-x86_64."""
    return f"{PLATFORMS[sys.platform]}-{platform.machine().lower()}"


def install(wheel: Path, python: str, folder: Path, *more: str) -> None:
    """Install the wheel with its dependencies into a folder. ``python``: the version, or an interpreter's path."""
    which = ("--python-version", python) if python in PYTHONS else ("--python", python)
    installing = ("uv", "pip", "install", "--quiet", "--no-build", "--link-mode", "copy", *which, *more)
    subprocess.run([*installing, "--target", folder, f"{wheel}{EXTRAS}"], check=True)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    shutil.rmtree(folder / "Scripts", ignore_errors=True)


def gather(wheel: Path, away: Path) -> dict[str, bytes]:
    """The files for all Pythons by their names: those of one version bear it in their names. Raises ValueError."""
    files: dict[str, bytes] = {}
    for version in PYTHONS:
        install(wheel, version, folder := away / version)
        for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name not in LEFT_OUT):
            name = path.relative_to(folder).as_posix()
            content = path.read_bytes()
            if files.setdefault(name, content) != content and ".dist-info/" not in name:
                raise ValueError(f"{name} is not the same for all versions of Python")
    return files


def pack(files: dict[str, bytes], compression: int) -> bytes:
    """An archive whose bytes depend on nothing but its content."""
    at = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in sorted(files.items()):
            about = zipfile.ZipInfo(name, at)
            about.external_attr = 0o644 << 16
            archive.writestr(about, content, compression, 9)
    return made.getvalue()


def assemble(files: dict[str, bytes]) -> bytes:
    """The zipapp with these files."""
    # The inner archive is stored as it is, so that its members can be read without unpacking it.
    content = pack(files, zipfile.ZIP_DEFLATED)
    marks = {
        "@DIGEST@": hashlib.sha256(content).hexdigest()[:16],
        "@PLATFORM@": f"{sys.platform}-{platform.machine()}",
        "@PYTHONS@": " ".join(f"cpython-{version.replace('.', '')}" for version in PYTHONS),
    }
    launcher = LAUNCHER.read_text(encoding="utf-8")
    for mark, value in marks.items():
        launcher = launcher.replace(mark, value)
    return SHEBANG + pack({"__main__.py": launcher.encode(), "site.zip": content}, zipfile.ZIP_STORED)


def main() -> None:
    reader = argparse.ArgumentParser(description="Make the zipapp of a wheel.")
    reader.add_argument("wheel", type=Path, metavar="WHEEL")
    reader.add_argument("folder", type=Path, metavar="FOLDER", help="gets acp-proxy-PLATFORM.pyz")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as away:
        content = assemble(gather(given.wheel.resolve(), Path(away)))
    given.folder.mkdir(parents=True, exist_ok=True)
    made = given.folder / f"acp-proxy-{platform_name()}.pyz"
    made.write_bytes(content)
    made.chmod(0o755)


if __name__ == "__main__":
    main()
