"""The command line's first look: ``run`` starts the agent before anything slow is imported; the rest is typer's."""

import sys


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["run"] and words[1:2] != ["--help"]:
        from acp_proxy.shell.launch import launch

        launch(words[1:])
    elif words == ["--version"]:
        from acp_proxy import __version__

        print(f"acp-proxy {__version__}")
    else:
        from acp_proxy.cli.app import app

        app()


if __name__ == "__main__":
    main()
