"""Makes the single executable of a wheel: executable.py WHEEL PYTHON FOLDER

PYTHON is the directory of a relocatable Python 3.14, such as ``uv python install`` makes. FOLDER gets
acp-proxy-PLATFORM: PyApp, which contains this Python with acp-proxy in it, unpacks it once, and then becomes it. So an
agent is started as fast as from an installed acp-proxy, by a process with the id that the editor started. Needs cargo,
uv and the package indexes; takes minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

from pyz import install, platform_name

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PYAPP = "0.31.0"
BUILT = Path(__file__).parents[1] / ".venv" / "pyapp"
"""What cargo has compiled, for the next time."""
START = Path(__file__).parent / "executable" / "start.py"
PYTHON = "3.14"
LEFT_OUT = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages")
"""Of the standard library, what acp-proxy does not need."""
OUTSIDE = ("include", "share", "libs", "tcl", "lib/pkgconfig", "lib/itcl*", "lib/tcl*", "lib/tk*", "lib/thread*")
"""The same, of what lies around it."""
LEVEL = 12


def fill(wheel: Path, python: Path, made: Path) -> Path:
    """Copy the Python without what is not needed, and install the wheel there. Returns the interpreter's path."""
    shutil.copytree(python, made, symlinks=True)
    on_windows = sys.platform == "win32"
    library = made / "Lib" if on_windows else made / "lib" / f"python{PYTHON}"
    unneeded = [library / name for name in LEFT_OUT]
    for path in [*unneeded, *(each for pattern in OUTSIDE for each in made.glob(pattern)), *made.rglob("*.a")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    interpreter = made / "python.exe" if on_windows else made / "bin" / f"python{PYTHON}"
    interpreter.chmod(0o755)
    install(wheel, str(interpreter), library / "site-packages")
    # By their content: PyApp may give the files other times than they had here.
    compiling = ("-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash")
    subprocess.run([interpreter, "-I", *compiling, library], check=True)
    return interpreter


def main() -> None:
    reader = argparse.ArgumentParser(description="Make the single executable of a wheel.")
    reader.add_argument("wheel", type=Path, metavar="WHEEL")
    reader.add_argument("python", type=Path, metavar="PYTHON", help=f"the directory of a relocatable Python {PYTHON}")
    reader.add_argument("folder", type=Path, metavar="FOLDER", help="gets acp-proxy-PLATFORM")
    given = reader.parse_args()
    wheel = given.wheel.resolve()
    with ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        version = BytesParser().parsebytes(archive.read(metadata))["Version"]
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        interpreter = fill(wheel, given.python.resolve(), away / "python")
        distribution = away / "python.tar.zst"
        with zstd.open(distribution, "wb", level=LEVEL) as packed, tarfile.open(fileobj=packed, mode="w|") as archived:
            archived.add(away / "python", "python")
        options = {
            "PROJECT_NAME": "acp-proxy",
            "PROJECT_VERSION": version,
            "DISTRIBUTION_PATH": str(distribution),
            "DISTRIBUTION_PYTHON_PATH": interpreter.relative_to(away).as_posix(),
            "PYTHON_VERSION": PYTHON,
            "FULL_ISOLATION": "1",  # this Python itself, without a virtual environment
            "SKIP_INSTALL": "1",  # nothing is downloaded, ever
            "PASS_LOCATION": "1",
            "EXEC_CODE": START.read_text(encoding="utf-8"),
        }
        for built in (BUILT / "release" / ".fingerprint").glob("pyapp-*"):
            shutil.rmtree(built)  # cargo compiles a package of an index once, although this one contains another file
        building = ("cargo", "install", "--quiet", "pyapp", "--version", PYAPP, "--locked", "--force", "--root", away)
        environment = os.environ | {f"PYAPP_{name}": value for name, value in options.items()}
        environment["CARGO_TARGET_DIR"] = str(BUILT)
        subprocess.run(building, env=environment, check=True)
        ending = ".exe" if sys.platform == "win32" else ""
        given.folder.mkdir(parents=True, exist_ok=True)
        shutil.move(away / "bin" / f"pyapp{ending}", given.folder / f"acp-proxy-{platform_name()}{ending}")


if __name__ == "__main__":
    main()
