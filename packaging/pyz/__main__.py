"""The first lines of ``acp-proxy.pyz``: they unpack it once, and start it. ``packaging/pyz.py`` makes the file.

Python cannot import compiled modules from an archive, so the first start puts them into the user's cache. Every start
of an agent goes through here, so nothing is imported that Python has not loaded, and the archive has two members:
Python reads the names of all of them at each start.
"""

import os
import sys

DIGEST = "@DIGEST@"
"""Names the content. What the marks stand for, ``packaging/pyz.py`` puts there."""
PLATFORM = "@PLATFORM@"
PYTHONS = "@PYTHONS@"
"""What it has compiled modules for: a platform, such as linux-x86_64, and ``cache_tag``s of Python."""
UNPACKED = "site.zip"
UNUSED_DAYS = 30
"""Another version's directory goes if nothing was started from it for so long."""


def main() -> None:
    archive = os.path.abspath(sys.argv[0])
    place = os.path.join(cache_folder(), f"{DIGEST}-{sys.implementation.cache_tag}")
    try:
        os.utime(place)  # says that it is there, and that it is in use
    except OSError:
        prepare(archive, place)
    sys.path[0] = place
    sys.dont_write_bytecode = False  # whatever the user's variable says of other places: else each start would compile
    from acp_proxy import invocation

    invocation.zipapp = archive
    if sys.argv[1:2] == ["-m"]:  # a process of ours: invocation.make_child_command
        import runpy

        module = sys.argv[2]
        del sys.argv[1:3]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        from acp_proxy.__main__ import main as start

        start()


def cache_folder() -> str:
    """The directory for all versions, in the same cache as the registry of agents."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(base, "acp-proxy", "Cache", "pyz")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "acp-proxy", "pyz")
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".cache"), "acp-proxy", "pyz")


def prepare(archive: str, place: str) -> None:
    """Unpack the archive, or exit with a message."""
    import platform
    import sysconfig

    here, python = f"{sys.platform}-{platform.machine()}", sys.implementation.cache_tag
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        python += "t"
    if here != PLATFORM or python not in PYTHONS.split():
        fail(
            f"this file is for {PLATFORM} with {PYTHONS.replace(' ', ', ')}. {sys.executable} is {here} with {python}. "
            "Start it with another Python, or take another file."
        )
    try:
        unpack(archive, place)
    except OSError as problem:
        advice = "Free some space there, or set XDG_CACHE_HOME to another directory"
        fail(f"it cannot unpack itself into {os.path.dirname(place)}: {problem.strerror}. {advice}.")


def unpack(archive: str, place: str) -> None:
    """Put the content into ``place``: all of it or nothing, also if two processes do so at once. Raises OSError."""
    import re
    import shutil
    import tempfile
    import zipfile

    mine = sys.implementation.cache_tag.removeprefix("cpython-")
    parent = os.path.dirname(place)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    remove_unused(parent)
    new = tempfile.mkdtemp(dir=parent)
    try:
        with zipfile.ZipFile(archive) as outer, outer.open(UNPACKED) as packed, zipfile.ZipFile(packed) as inner:
            for name in inner.namelist():
                compiled = re.search(r"\.(?:cpython-|cp)(\d+)-", name)
                if compiled is None or compiled[1] == mine:  # those for other Pythons are in the same archive
                    inner.extract(name, new)
        os.rename(new, place)
    except OSError:
        if not os.path.isdir(place):  # no other process has unpacked it meanwhile
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def remove_unused(parent: str) -> None:
    """Remove what older versions, and starts that were killed, have left."""
    import shutil
    import time

    with os.scandir(parent) as found:
        for each in found:
            if each.stat().st_mtime < time.time() - UNUSED_DAYS * 24 * 3600:
                shutil.rmtree(each.path, ignore_errors=True)


def fail(text: str) -> None:
    sys.exit(f"acp-proxy: {text}")


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - whichever Python the first line finds
        own = f"{sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}"
        fail(
            f"Python 3.11 or newer is needed; {own}. Put a newer one in front: python3.12 {sys.argv[0]}\n"
            "Or take the download without .pyz, which brings its own Python."
        )
    main()
