"""The command line's first look: ``run`` starts the agent before anything slow is imported; the rest is typer's."""

import os
import sys

from acp_proxy.errors import NotWritable

_COMPLETE = "_ACP_PROXY_COMPLETE"
"""Set by the shells' completion, which typer answers."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["run"] and words[1:2] not in (["-h"], ["--help"], ["--help-all"]):
        from acp_proxy.shell.launch import launch

        launch(words[1:])
    else:
        from acp_proxy.cli import standard

        standard.prepare()
        try:
            try:
                _command(words)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # who reads the output has left
            os._exit(1)
        except NotWritable as problem:
            _fail(str(problem))
        except OSError as problem:  # of none of the streams, nor of a store: that is said where it is asked
            _fail(f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem.strerror))


def _fail(text: str) -> None:
    print(f"acp-proxy: {text}", file=sys.stderr)
    sys.exit(1)


def _command(words: list[str]) -> None:
    if words == ["--version"]:
        from acp_proxy import __version__

        print(f"acp-proxy {__version__}")
        return
    if _COMPLETE in os.environ:
        # typer would render each title by it, which takes longer than anybody waits at a prompt
        sys.modules["rich"] = None  # type: ignore[assignment]
    from acp_proxy.cli.app import app

    app(prog_name="acp-proxy")


if __name__ == "__main__":
    main()
