"""The messages of agents that ended are explained, with what to do."""

import signal

import pytest

from acp_proxy.tools.doctor.exit_reasons import explain_exit

NOT_FOUND = "the program node was not found. Install it"


@pytest.mark.parametrize(
    ("message", "means"),
    [
        ("env: node: No such file or directory", NOT_FOUND),
        ("/usr/bin/env: \u2018node\u2019: No such file or directory", NOT_FOUND),
        ("env: can't execute 'node': No such file or directory", NOT_FOUND),
        ("/bin/agent: 2: exec: node: not found", NOT_FOUND),
        ("sh: 1: node: not found", NOT_FOUND),
        ("sh: node: not found", NOT_FOUND),
        ("/bin/agent: line 2: exec: node: not found", NOT_FOUND),
        ("/bin/agent: line 2: node: command not found", NOT_FOUND),
        ("zsh:1: command not found: node", NOT_FOUND),
        ("'node' is not recognized as an internal or external command,", NOT_FOUND),
        ("Error: spawn node ENOENT", NOT_FOUND),
        (
            "Error: ANTHROPIC_API_KEY environment variable is not set",
            "Set ANTHROPIC_API_KEY: here, to try it, and for your editor",
        ),
        (
            "Please set one of: GEMINI_API_KEY, GOOGLE_CLOUD_PROJECT",
            "Set GEMINI_API_KEY: here, to try it, and for your editor",
        ),
        ("KeyError: 'MISTRAL_API_KEY'", "Set MISTRAL_API_KEY: here, to try it, and for your editor"),
        ("Error: not logged in", "needs a login or a key. Log in with its own command"),
        ("Authentication required", "needs a login or a key"),
        ("missing API key", "needs a login or a key"),
        ("Error: Cannot find module '/x/agent.js'", "/x/agent.js is missing"),
        ("ModuleNotFoundError: No module named 'agent'", "agent is missing"),
        ("error: this agent requires Node.js >= 22", "needs another version of Node"),
        ("npm error 404 Not Found - GET https://registry.example/agent", "npm does not find the package"),
        ("npm error code ETARGET", "npm does not find this version of the package. Correct its version."),
        (
            "npm ERR! notarget No matching version found for @x/agent@9.0.1.",
            "version of @x/agent. Correct its version, or take the newest, also in place of an id: npx -y @x/agent.",
        ),
        ("FetchError: getaddrinfo EAI_AGAIN registry.example", "cannot reach a server"),
        ("sh: 1: /x/agent: Permission denied", "may not use a file"),
        ("error: unknown option '--acp'", "Check its arguments"),
        ("error: unexpected argument '--acp' found", "Check its arguments"),
        ("Error: stdin is not a terminal", "wants a terminal, and so does not speak the protocol. Check its arguments"),
    ],
)
def test_a_usual_message_is_quoted_and_explained(message: str, means: str) -> None:
    told = explain_exit(1, ["Starting {0}", message, "    at x (y.js:1:2)", "Node.js v22.1.0"])
    assert told is not None
    assert told.startswith(f'The message "{message}" means: ')
    assert means in told


@pytest.mark.parametrize(
    "message",
    [
        "SyntaxError: x",
        "Node.js v14.21.3",
        "Loaded cached credentials.",
        "listening with OPENAI_API_KEY",
        "config: not found",
        "Traceback:",
        "404",
        "",
    ],
)
def test_other_messages_are_not_explained(message: str) -> None:
    assert explain_exit(1, [message]) is None
    assert explain_exit(None, [message]) is None


@pytest.mark.parametrize(
    "node", ["Node.js v14.21.3", "Node.js v18.20.4", "at wrapSafe (internal/modules/cjs/loader.js:915:16)"]
)
def test_an_error_of_syntax_in_an_old_node_means_that_it_is_too_old(node: str) -> None:
    told = explain_exit(1, ["SyntaxError: Unexpected token '??='", node])
    assert told is not None
    assert told.startswith('The message "SyntaxError: Unexpected token')
    assert told.endswith("Install a newer Node.js.")
    new_node = ["SyntaxError: Unexpected token '??='", "at (node:internal/modules/cjs/loader:9:1)", "Node.js v22.1.0"]
    assert explain_exit(1, new_node) is None


def test_the_last_of_several_messages_is_explained() -> None:
    told = explain_exit(127, ["sh: 1: python: not found", "sh: 1: node: not found"])
    assert told is not None
    assert NOT_FOUND in told


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (127, "was not found"),
        (126, "cannot be executed"),
        (-signal.SIGSEGV, "crashed"),
        (128 + signal.SIGSEGV, "crashed"),  # as a shell reports it
        *[(status, "memory has run out") for status in (-9, 137) if hasattr(signal, "SIGKILL")],
    ],
)
def test_a_status_is_explained_if_no_message_is(status: int, means: str) -> None:
    told = explain_exit(status, ["something odd"])
    assert told is not None
    assert means in told
