"""The program's entry point.

``run`` starts the agent before any slow import, and ``chain`` needs none. typer handles everything else.
"""

import gc
import os
import sys

from acp_proxy.errors import AcpProxyError

_COMPLETE = "_ACP_PROXY_COMPLETE"
"""Environment variable that a shell's completion sets; typer answers it."""

_INTERRUPTED = 130
_READER_GONE = 128 + 13
"""The exit status if stdout's reader leaves early: 128 and SIGPIPE, as shells report it of git and ls."""
_COLLECTED_OBJECTS = 50_000
"""New objects between two runs of the garbage collector. Imports leave no garbage; with Python's default, 700, looking
for it takes a tenth of a short command's time."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] in (["run"], ["chain"]) and words[1:2] not in (["-h"], ["--help"], ["--help-all"]):
        if words[0] == "run":
            from acp_proxy.relay.run_command import launch

            launch(words[1:], _find_agent)
        else:
            from acp_proxy.tools.chain.start import launch_chain

            launch_chain(words[1:])
    else:
        gc.set_threshold(_COLLECTED_OBJECTS)
        from acp_proxy.cli import stdio

        stdio.prepare()
        try:
            try:
                _command(words)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of stdout has gone
            os._exit(_READER_GONE)
        except SystemExit:
            if stdio.has_lost_reader():  # typer exits with 1, which means something else
                sys.exit(_READER_GONE)
            raise
        except KeyboardInterrupt:  # while modules are imported, or during completion; a traceback would help nobody
            os._exit(_INTERRUPTED)
        except AcpProxyError as problem:
            _fail("\n".join(str(text) for text in problem.args))
        except OSError as problem:  # neither the standard streams nor the store: those have their own messages
            _fail(f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem.strerror))


def _find_agent(command: list[str], source: str) -> list[str]:
    """The command to start: the same, or what an id of the registry stands for. Exits with 127 if that is not known.

    ``source``: the value of ``--registry``. Except on Windows, a program is found without importing anything, because
    the agent starts before anything slow is imported.
    """
    word = command[0]
    if not word.startswith("registry:") and (os.path.dirname(word) or _is_program(word)):
        return command
    from acp_proxy.relay.run_command import fail, is_terminal, say
    from acp_proxy.tools.registry.agents import Registry, RegistryError
    from acp_proxy.tools.registry.resolve import resolve

    try:
        agent = resolve(command, Registry(source, print_line=say), say, may_wait=False)
    except RegistryError as problem:
        fail(str(problem), 127)
    reason, program = agent.problem, agent.words[0]
    if len(word.split()) > 1 or "=" in word:  # a whole line in quotes, or a variable
        from acp_proxy.tools.doctor.agent_report import explain_missing_program

        reason = ". ".join(explain_missing_program(word))
    elif reason is None and not os.path.dirname(program) and not _is_program(program):
        from acp_proxy.tools.doctor.agent_report import explain_missing_runner

        reason = explain_missing_runner(program, word, is_started_by_editor=not is_terminal(0))
    if reason is not None:
        fail(reason, 127)
    for name, value in agent.variables.items():
        os.environ.setdefault(name, value)
    return agent.words


def _is_program(word: str) -> bool:
    """Whether a program of this name is on PATH."""
    if sys.platform == "win32":  # its name may have another ending there
        import shutil

        return shutil.which(word) is not None
    return any(os.access(os.path.join(folder, word), os.X_OK) for folder in os.get_exec_path())


def _fail(text: str) -> None:
    print(f"acp-proxy: {text}", file=sys.stderr)
    sys.exit(1)


def _command(words: list[str]) -> None:
    if words == ["--version"]:
        from acp_proxy import __version__

        print(f"acp-proxy {__version__}")
        return
    if _COMPLETE in os.environ:
        from acp_proxy.cli.completion import skip_rich

        skip_rich()
    from acp_proxy.cli import app as cli_app

    # The garbage collector would visit all that was imported: a fifth of a short command, at its exit.
    cli_app.on_command_imported = gc.freeze
    cli_app.app(prog_name="acp-proxy")


if __name__ == "__main__":
    main()
