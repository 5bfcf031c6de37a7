"""How this acp-proxy was installed: what adds the packages of an extra, upgrades it, and removes it.

Imports nothing until it is asked.
"""

import sys

_EXTRAS = {"mcp": "mcp", "sync": "obstore", "web": "uvicorn"}
"""The extras of the distribution, each with a package that it brings: what mcp brings is enough for web, too."""


def advise_install(extra: str) -> str:
    """The command that adds an extra to this installation, and keeps those that it has."""
    from importlib.util import find_spec

    extras = [name for name, package in _EXTRAS.items() if name == extra or find_spec(package) is not None]
    return _format_install_command(f"[{','.join(extras)}]")


def advise_upgrade() -> str:
    """What to do to have a newer acp-proxy."""
    from importlib.util import find_spec

    from acp_proxy import invocation

    if invocation.zipapp or invocation.executable:
        return f"replace {invocation.zipapp or invocation.executable} by a newer one"
    if "/uv/tools/" in _find_prefix():
        return "uv tool upgrade acp-proxy"
    if "/archive-v0/" in _find_prefix():
        return "uvx acp-proxy@latest"
    extras = [name for name, package in _EXTRAS.items() if find_spec(package) is not None]
    return _format_install_command(f"[{','.join(extras)}]" if extras else "", "--upgrade")


def advise_uninstall() -> str:
    """The command that removes this acp-proxy."""
    from importlib.util import find_spec

    from acp_proxy import invocation, shell_quote

    if invocation.zipapp:
        return f"delete {invocation.zipapp}"
    prefix = _find_prefix()
    if "/uv/tools/" in prefix:
        return "uv tool uninstall acp-proxy"
    if "/archive-v0/" in prefix:
        return "uv cache prune"  # the environments that uvx made are in the cache
    if "/pipx/" in prefix:
        return "pipx uninstall acp-proxy"
    if find_spec("pip") is None:  # an environment that uv made
        return shell_quote.join(["uv", "pip", "uninstall", "--python", sys.executable, "acp-proxy"])
    return shell_quote.join([sys.executable, "-m", "pip", "uninstall", "acp-proxy"])


def _format_install_command(extras: str, *options: str) -> str:
    """The command that installs this acp-proxy once more, with these ``extras``. ``options``: more words for pip."""
    from importlib.util import find_spec

    from acp_proxy import shell_quote

    source, is_editable = _find_source(extras)
    editable = ["--editable"] if is_editable else []
    prefix = _find_prefix()
    if "/archive-v0/" in prefix:  # uvx installs nothing that stays
        return shell_quote.join(["uvx", "--from", source, "acp-proxy", *sys.argv[1:]])
    for part, tool in (("/uv/tools/", "uv tool"), ("/pipx/", "pipx")):
        if part in prefix:
            return shell_quote.join([*tool.split(), "install", "--force", *editable, source])
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # an environment that uv made
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shell_quote.join([*pip, *options, *editable, source])


def _find_prefix() -> str:
    """The environment that acp-proxy is installed in."""
    return sys.prefix.replace("\\", "/")


def _find_source(extras: str) -> tuple[str, bool]:
    """What to install, with these extras, to have this acp-proxy again; and whether it is installed as editable."""
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        source = json.loads(metadata.distribution("acp-proxy").read_text("direct_url.json") or "{}")
        url, vcs = source.get("url", ""), source.get("vcs_info", {}).get("vcs", "")
        is_editable = bool(source.get("dir_info", {}).get("editable"))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return f"acp-proxy{extras}", False
    if url.startswith("file://"):
        return f"{url2pathname(urlsplit(url).path)}{extras}", is_editable
    return f"acp-proxy{extras}" + (f" @ {f'{vcs}+' if vcs else ''}{url}" if url else ""), False


def explain_no_mcp() -> str:
    """Why an agent cannot look up earlier sessions, if acp-proxy was installed without that."""
    return f"recall needs the package mcp. To install it, too: {advise_install('mcp')}"


def explain_no_web() -> str:
    """Why there are no pages in the browser, if acp-proxy was installed without them."""
    return f"web needs the packages starlette and uvicorn. To install them, too: {advise_install('web')}"
