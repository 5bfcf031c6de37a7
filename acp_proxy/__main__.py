"""The command line's first look: ``run`` starts the agent before anything slow is imported; the rest is typer's."""

import os
import sys

_COMPLETE = "_ACP_PROXY_COMPLETE"
"""Set by the shells' completion, which typer answers."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["run"] and words[1:2] not in (["-h"], ["--help"]):
        from acp_proxy.shell.launch import launch

        launch(words[1:])
    elif words == ["--version"]:
        from acp_proxy import __version__

        print(f"acp-proxy {__version__}")
    else:
        if _COMPLETE in os.environ:
            # typer would render each title by it, which takes longer than anybody waits at a prompt
            sys.modules["rich"] = None  # type: ignore[assignment]
        from acp_proxy.cli.app import app

        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(errors="replace")  # a terminal, or a file, of another character set
        try:
            app(prog_name="acp-proxy")
        except OSError as problem:  # of the output, as on a full disk: what a store does is said where it is asked
            where = f"{problem.filename}: " if problem.filename else ""
            print(f"acp-proxy: {where}{problem.strerror}", file=sys.stderr)
            os._exit(1)  # at once: what is left of the output cannot be written at the end either


if __name__ == "__main__":
    main()
