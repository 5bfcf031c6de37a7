"""The conversations of the demo: what a user asks, and the turn that the bundled agent plays for it.

A login that ends too early, and a feed that shows too much: found, tested, mended. The edits are made
(``agent --edit``), but no command is started: what the tools print is written here.
"""

from __future__ import annotations

from acp_proxy.tools.demo.turn import CONTEXT_SIZE, make_chunk

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any

    Step = dict[str, Any]

# --- The files of the projects.


_LOGIN = '''\
"""Logs users in."""

LOGIN_DAYS = 14


def make_cookie(user: str) -> dict[str, object]:
    """The cookie that keeps a user logged in."""
    return {"name": "login", "value": user, "max_age": LOGIN_DAYS * 24 * 60}
'''
_LOGIN_MENDED = _LOGIN.replace("24 * 60}", "24 * 60 * 60}")
_LOGIN_TEST = """\
from login import make_cookie


def test_a_login_lasts_two_weeks():
    assert make_cookie("ada")["max_age"] == 14 * 24 * 60 * 60
"""
_FEED = '''\
"""Writes the feed of the blog."""

from feedgen.feed import FeedGenerator


def write_feed(posts: list[dict[str, str]]) -> str:
    """The newest posts as an Atom feed."""
    feed = FeedGenerator()
    for post in posts:
        feed.add_entry().title(post["title"])
    return feed.atom_str().decode()
'''
_FEED_PLAIN = '''\
"""Writes the feed of the blog."""

from xml.etree import ElementTree


def write_feed(posts: list[dict[str, str]]) -> str:
    """The newest posts as an Atom feed."""
    feed = ElementTree.Element("feed", xmlns="http://www.w3.org/2005/Atom")
    for post in posts:
        entry = ElementTree.SubElement(feed, "entry")
        ElementTree.SubElement(entry, "title").text = post["title"]
    return ElementTree.tostring(feed, "unicode")
'''
_FEED_MENDED = _FEED_PLAIN.replace(
    "    for post in posts:\n", '    for post in posts:\n        if post.get("draft"):\n            continue\n'
)

FILES = {"shop": {"login.py": _LOGIN}, "blog": {"README.md": "# Blog\n\nThe posts are in posts.json.\n"}}
"""What is in each project before the conversations: texts by file name."""

# --- The parts of a turn.


def _say(text: str, part: str = "answer") -> Step:
    return {"update": make_chunk("agent_message_chunk", text, f"{part}-{{n}}")}


def _think(text: str) -> Step:
    return {"update": make_chunk("agent_thought_chunk", text, "thought-{n}")}


def _plan(status: dict[str, str]) -> Step:
    entries = [{"content": text, "priority": "medium", "status": entry_status} for text, entry_status in status.items()]
    return {"update": {"sessionUpdate": "plan", "entries": entries}}


def _call(
    name: str, title: str, kind: str, raw_input: dict[str, str], output: list[Any], *, failed: bool = False
) -> list[Step]:
    """A tool call, from its begin to its end. ``raw_input``: its input; a ``path`` is also its location."""
    about: Step = {"sessionUpdate": "tool_call", "toolCallId": f"{name}-{{n}}", "title": title, "kind": kind}
    about |= {"status": "in_progress", "rawInput": raw_input}
    if "path" in raw_input:
        about["locations"] = [{"path": raw_input["path"]}]
    end: Step = {"sessionUpdate": "tool_call_update", "toolCallId": f"{name}-{{n}}", "content": output}
    return [{"update": about}, {"update": end | {"status": "failed" if failed else "completed"}}]


def _print(text: str) -> list[Any]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _search(word: str, matches: str) -> list[Step]:
    return _call("search", f"Search for {word}", "search", {"pattern": word}, _print(matches))


def _read(file: str, text: str) -> list[Step]:
    return _call("read", f"Read {file}", "read", {"path": f"{{cwd}}/{file}"}, _print(f"```python\n{text}```"))


def _edit(name: str, file: str, old: str | None, new: str) -> list[Step]:
    path = f"{{cwd}}/{file}"
    diff = {"type": "diff", "path": path, "oldText": old, "newText": new}
    return _call(name, f"{'Write' if old is None else 'Edit'} {file}", "edit", {"path": path}, [diff])


def _run(name: str, command: str, printed: str, *, failed: bool = False) -> list[Step]:
    output = _print(f"```console\n{printed}```")
    return _call(name, command, "execute", {"command": command}, output, failed=failed)


def _use(context: int, output: int, dollars: float) -> list[Step]:
    """What the turn used: tokens of the context and of the answer; and what the session has cost so far."""
    cost = {"amount": dollars, "currency": "USD"}
    count = {"input_tokens": context, "output_tokens": output}
    quota = {"token_count": count, "model_usage": [{"model": _MODEL, "token_count": count}]}
    return [
        {"update": {"sessionUpdate": "usage_update", "used": context, "size": CONTEXT_SIZE, "cost": cost}},
        {"result": {"_meta": {"quota": quota}}},
    ]


# --- What the user asks, and what the agent does.

_MODEL = "demo-model"

WHY = "Why are users signed out after a few hours?"
MEND = "A login should last two weeks. Mend it, with a test."
REMEMBER = "What did I ask you first?"
_WHERE = "Which files deal with passwords?"
_FEED_WANTED = "Write an Atom feed of the posts"
_NO_DRAFTS = "The feed shows drafts, too. Leave them out."
_PLANNED = ("Write a test that fails", "Mend login.py", "Run the tests")
_FAILURE = """\
    def test_a_login_lasts_two_weeks():
>       assert make_cookie("ada")["max_age"] == 14 * 24 * 60 * 60
E       assert 20160 == 1209600

test_login.py:5: AssertionError
1 failed in 0.02s
"""

TURNS: dict[str, list[Step]] = {
    WHY: [
        _think("A login that ends early: who sets the age of the cookie?"),
        *_search("max_age", 'login.py:8: return {"name": "login", "value": user, "max_age": LOGIN_DAYS * 24 * 60}\n'),
        *_read("login.py", _LOGIN),
        _say(
            "`max_age` is in **seconds**, but `make_cookie` gives it minutes: 14 days are 20,160 minutes, and the"
            " browser forgets the login cookie after 20,160 seconds, which are 5.6 hours."
        ),
        *_use(8_200, 310, 0.03),
    ],
    MEND: [
        _plan(dict(zip(_PLANNED, ("in_progress", "pending", "pending"), strict=True))),
        *_edit("test", "test_login.py", None, _LOGIN_TEST),
        *_run("fail", "pytest -q test_login.py", _FAILURE, failed=True),
        _say("The test fails, as it should. Now the change:", "between"),
        *_edit("mend", "login.py", _LOGIN, _LOGIN_MENDED),
        *_run("pass", "pytest -q", "1 passed in 0.01s\n"),
        _plan(dict.fromkeys(_PLANNED, "completed")),
        _say("A login lasts two weeks now: `max_age` has seconds."),
        *_use(14_900, 640, 0.07),
    ],
    REMEMBER: [{"remember": True, "messageId": "answer-{n}"}, *_use(15_100, 40, 0.08)],
    _WHERE: [
        *_search("password", "No file has this word.\n"),
        _say("None. `login.py` makes the login cookie; passwords are checked elsewhere."),
        *_use(3_100, 90, 0.01),
    ],
    _FEED_WANTED: [
        *_edit("feed", "feed.py", None, _FEED),
        *_run("fail", "python feed.py", "ModuleNotFoundError: No module named 'feedgen'\n", failed=True),
        _say("The library is not there. Python's own will do:", "between"),
        *_edit("plain", "feed.py", _FEED, _FEED_PLAIN),
        *_run("pass", "python feed.py", "feed.xml: 12 posts\n"),
        _say("`feed.py` writes all 12 posts:\n\n```sh\npython feed.py\n```\n"),
        *_use(9_400, 720, 0.04),
    ],
    _NO_DRAFTS: [
        *_edit("mend", "feed.py", _FEED_PLAIN, _FEED_MENDED),
        *_run("pass", "python feed.py", "feed.xml: 9 posts\n"),
        _say("The feed leaves out the 3 drafts."),
        *_use(11_000, 210, 0.05),
    ],
}
"""The turn for each prompt."""

NAME, OTHER_NAME = "demo-agent", "other-demo-agent"
"""The names under which the agent runs."""
CONVERSATIONS = (
    ("shop", NAME, (_WHERE,)),
    ("blog", OTHER_NAME, (_FEED_WANTED, _NO_DRAFTS)),
    ("shop", NAME, (WHY, MEND)),
)
"""Those that ``demo --keep`` makes, the newest last: project, agent and prompts."""
