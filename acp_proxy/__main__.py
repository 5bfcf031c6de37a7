"""The program's entry point.

``run`` starts the agent, and ``browse`` shows its list, before any slow import; ``chain`` needs none. typer handles all
other commands.
"""

import gc
import os
import sys

from acp_proxy.errors import NotWritable

_COMPLETE = "_ACP_PROXY_COMPLETE"
"""Environment variable that a shell's completion sets; typer answers it."""

_INTERRUPTED = 130
_GARBAGE = 50_000
"""New objects between two runs of the garbage collector. Imports leave no garbage; with Python's default, 700, looking
for it takes a tenth of a short command's time."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] in (["run"], ["chain"]) and words[1:2] not in (["-h"], ["--help"], ["--help-all"]):
        from acp_proxy.shell.launch import launch, launch_chain

        (launch if words[0] == "run" else launch_chain)(words[1:])
    else:
        gc.set_threshold(_GARBAGE)
        from acp_proxy.cli import standard

        standard.prepare()
        try:
            try:
                _command(words)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of stdout has gone
            os._exit(1)
        except KeyboardInterrupt:  # while modules are imported, or during completion; a traceback would help nobody
            os._exit(_INTERRUPTED)
        except NotWritable as problem:
            _fail(str(problem))
        except OSError as problem:  # neither the standard streams nor the store: those have their own messages
            _fail(f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem.strerror))


def _fail(text: str) -> None:
    print(f"acp-proxy: {text}", file=sys.stderr)
    sys.exit(1)


def _command(words: list[str]) -> None:
    if words == ["--version"]:
        from acp_proxy import __version__

        print(f"acp-proxy {__version__}")
        return
    if words == ["browse"] and _COMPLETE not in os.environ:
        from acp_proxy.cli.browse_start import quickly

        if quickly():
            return
    if _COMPLETE in os.environ:
        # with rich, typer renders each title: too slow for completion at a prompt
        sys.modules["rich"] = None  # type: ignore[assignment]
    from acp_proxy.cli import group
    from acp_proxy.cli.app import app

    group.when_imported = gc.freeze  # to visit all that was imported would take a fifth of a short command, at its exit
    app(prog_name="acp-proxy")


if __name__ == "__main__":
    main()
