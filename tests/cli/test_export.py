"""``export`` writes the requested format, and replaces no file unasked."""

import json
import os
import random
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from acp_proxy.views.sanitize import strip_sequences
from tests.cli.commands import Command, invoke
from tests.cli.terminal import run_on_terminal, run_with_stderr_on_terminal
from tests.pipes import SMALL
from tests.redaction.made_up_secrets import plant
from tests.store.compressible import age
from tests.stored import EPOCH, WholeStore, chunk, store_session

TOKEN = plant("GitHub token", random.Random(0)).secret
TURN = [
    chunk("let me see", "agent_thought_chunk"),
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "1",
        "title": "pytest",
        "status": "completed",
        "rawOutput": "1 passed",
    },
    chunk("**done**"),
]


command = Command("export")
run, get_stdout = command.run, command.get_stdout


def test_markdown_is_the_default_format(store: WholeStore) -> None:
    store_session(store, "s", ("Mend it\n\nplease", TURN))
    stdout = get_stdout(store, "last")
    assert stdout == (
        "# Mend it\n\nagent · 2023-11-14 22:13 UTC · `/project`\n"
        "\n## 1. Mend it\n\n> Mend it\n>\n> please\n"
        "\n* ✓ `pytest`\n\n**done**\n"
    )
    assert get_stdout(store, "last", "--format", "md") == stdout


def test_each_format_has_its_defaults_and_follows_the_options(store: WholeStore) -> None:
    store_session(store, "s", ("Mend it", TURN))
    html = get_stdout(store, "s", "--format", "html")
    assert html.startswith("<!DOCTYPE html>")
    assert all(part in html for part in ("let me see", "1 passed", "<strong>done</strong>"))
    assert "let me see" in get_stdout(store, "s", "--thoughts")
    assert "1 passed" in get_stdout(store, "s", "--tools", "full")
    assert "pytest" not in get_stdout(store, "s", "--tools", "none")
    assert "let me see" not in get_stdout(store, "s", "--format", "html", "--no-thoughts")
    assert "1 passed" not in get_stdout(store, "s", "--format", "html", "--tools", "summary")
    document = json.loads(get_stdout(store, "s", "--format", "json"))
    assert [item["type"] for item in document["turns"][0]["items"]] == ["user", "thought", "tool_call", "agent"]


def test_a_compressed_transcript_is_exported_byte_for_byte_too(store: WholeStore, tmp_path: Path) -> None:
    path = store_session(store, "s", ("Mend it", [chunk(f"word{number}") for number in range(3000)]))
    with path.open("ab") as file:
        file.write(b"\x00\xff damage \r\n")
    before = path.read_bytes()
    assert run(store, "s", "--format", "jsonl").stdout_bytes == before
    age(path, 8)
    store.list_all()
    invoke("compress", "--store", str(store.root))
    assert not path.exists()
    get_stdout(store, "s", "--output", str(tmp_path / "out.jsonl"))
    assert (tmp_path / "out.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.html", "<!DOCTYPE"), ("a.md", "# "), ("a.json", '{"acp-conv'), ("a.jsonl", '{"acp-tran'), ("a", "# ")],
)
def test_the_suffix_chooses_the_format(store: WholeStore, tmp_path: Path, name: str, beginning: str) -> None:
    store_session(store, "s", ("Mend it", TURN))
    path = tmp_path / name
    assert get_stdout(store, "last", "--output", str(path)) == f"{path}\n"
    assert path.read_text(encoding="utf-8").startswith(beginning)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [name]


def test_a_format_that_contradicts_the_suffix_is_refused(store: WholeStore, tmp_path: Path) -> None:
    result = run(store, "last", "--format", "md", "-o", str(tmp_path / "x.html"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Leave out --format" in result.stderr
    assert not (tmp_path / "x.html").exists()


def test_an_unknown_suffix_is_refused(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    into = tmp_path / "session.pdf"
    result = run(store, "last", "--output", str(into))
    assert (result.exit_code, into.exists()) == (2, False)
    assert "--format" in result.stderr
    assert run(store, "last", "--output", str(into), "--format", "md").exit_code == 0


def test_a_session_that_is_named_twice_is_written_once(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    [path] = get_stdout(store, "s", "last", "-o", str(tmp_path / "several")).splitlines()
    assert [str(found) for found in (tmp_path / "several").iterdir()] == [path]


def test_a_dash_is_stdout(store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_session(store, "s", ("Mend it", TURN))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert get_stdout(store, "s", "-o", "-") == get_stdout(store, "s")
    assert run(store, "--all", "-o", "-").exit_code == 2
    assert "exclude each other" in run(store, "--all", "s", "-o", "out").stderr
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_file_is_replaced_only_with_force(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    path = tmp_path / "a.md"
    path.write_text("mine")
    result = run(store, "last", "-o", str(path))
    assert (result.exit_code, path.read_text()) == (1, "mine")
    assert "--force" in result.stderr
    get_stdout(store, "last", "-o", str(path), "--force")
    assert path.read_text(encoding="utf-8").startswith("# Mend it")


def test_an_export_that_fails_leaves_no_file(store: WholeStore, tmp_path: Path) -> None:
    path = store_session(store, "s", ("Mend it", TURN))
    store.list_all()
    path.write_bytes(path.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    for words in ((), ("--redact", "keys")):
        result = run(store, "last", "--output", str(tmp_path / "a.html"), *words)
        assert result.exit_code == 1
        assert "Upgrade" in result.stderr
    assert [found.name for found in tmp_path.iterdir()] == ["store"]


def test_several_sessions_go_to_a_directory_named_by_title(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "one", ("Mend the/../login", TURN), agent="a", at=EPOCH)
    store_session(store, "two", ("Mend the/../login", TURN), agent="b", at=EPOCH + 1)
    store_session(store, "one", ("Mend the/../login", TURN), agent="b", at=EPOCH + 2)
    told = get_stdout(store, "--all", "--format", "html", "--output", str(tmp_path / "deep" / "er"))
    index, *names = sorted(path.name for path in (tmp_path / "deep" / "er").iterdir())
    assert (index, len(names)) == ("index.html", 3)
    assert all(name.startswith("mend-the-login-") and name.endswith(".html") for name in names)
    assert sorted(Path(line).name for line in told.splitlines()) == [index, *names]
    again = run(store, "--all", "--format", "html", "--output", str(tmp_path / "deep" / "er"))
    told = f"acp-proxy: not replaced: 3 files in {tmp_path / 'deep' / 'er'}. To replace what is there: --force\n"
    assert (again.exit_code, again.stdout, again.stderr) == (1, "", told)
    forced = get_stdout(store, "one", "two", "--agent", "b", "--format", "html", "-o", f"{tmp_path}/deep/er", "--force")
    assert len(forced.splitlines()) == 3
    assert (tmp_path / "deep" / "er" / index).read_text(encoding="utf-8").count("<li data-number") == 2
    alone = run(store, "--all", "--agent", "a", "-o", f"{tmp_path}/only/")
    assert (len(alone.stdout.splitlines()), alone.stderr) == (1, f"Exported 1 session to {tmp_path / 'only'}\n")
    assert len(get_stdout(store, "--agent", "b", "one", "two", "-o", f"{tmp_path}/both").splitlines()) == 2


def test_many_files_are_listed_for_programs_alone(store: WholeStore, tmp_path: Path) -> None:
    paths = [store_session(store, f"s{number:02}", (f"Mend {number}", TURN), at=EPOCH + number) for number in range(12)]
    words = ("export", "--all", "--format", "html", "--store", str(store.root), "-o")
    screen = run_on_terminal(*words, str(tmp_path / "out"))
    told = [f"{tmp_path}/out/index.html", f"Exported 12 sessions to {tmp_path}/out"]
    assert strip_sequences(screen).splitlines()[-2:] == told
    assert "s00" not in screen
    assert len(get_stdout(store, "--all", "--format", "html", "-o", str(tmp_path / "other")).splitlines()) == 13
    for path in paths:
        path.write_bytes(path.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    failed = run(store, "--all", "--format", "html", "-o", str(tmp_path / "none"))
    assert (failed.exit_code, failed.stderr.count("Upgrade"), failed.stderr.splitlines()[-1]) == (
        1,
        10,
        "acp-proxy: not exported: 2 more",
    )


def test_the_page_of_all_sessions_hides_what_the_pages_hide(store: WholeStore, tmp_path: Path) -> None:
    turn = [chunk(f"the key is {TOKEN} and the file /home/somebody/secret.txt")]
    store_session(store, "one", (f"Mend {TOKEN}", turn), cwd="/home/somebody/project")
    store_session(store, "two", ("Mend it", turn), cwd="/home/somebody/project")
    [*_, path] = get_stdout(
        store, "--all", "--format", "html", "-o", f"{tmp_path}/out/", "--redact", "keys"
    ).splitlines()
    page = Path(path).read_text(encoding="utf-8")
    assert "<bdi>~/project</bdi>" in page
    assert "secret" in page
    assert "somebody" not in page
    assert TOKEN.lower() not in page.lower()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Räum die Größen auf!", "räum-die-größen-auf-"),
        ("Mend ä 無_題/..\\x", "mend-ä-無-題-x-"),
        ("हिन्दी 😀", "हिन्दी-"),
        ("無" * 300, "無" * 40 + "-"),
        ("😀 ...", "session-"),
        ("**Mend** [it](http://x.example)", "mend-it-"),
    ],
)
def test_the_names_of_files_keep_the_letters_of_every_script(
    store: WholeStore, tmp_path: Path, title: str, name: str
) -> None:
    store_session(store, "s", ("one", TURN))
    [row] = store.list_all()
    store.set_listed_title(row, title)
    [path] = get_stdout(store, "--all", "-o", str(tmp_path / "out")).splitlines()
    assert Path(path).is_file()
    assert re.fullmatch(f"{re.escape(name)}s-[0-9a-f]{{8}}", Path(path).stem)


@pytest.mark.parametrize(
    ("title", "begins"),
    [
        ("Why are users signed out after a few hours?", "why-are-users-signed-out-after-a-few-"),
        ("Why are users signed out after a fewhourss now", "why-are-users-signed-out-after-a-"),
        ("Why are users signed out after fifteen h. ago", "why-are-users-signed-out-after-fifteen-h-"),
        ("x" * 60, f"{'x' * 40}-"),
    ],
)
def test_the_names_of_files_end_with_a_whole_word(store: WholeStore, tmp_path: Path, title: str, begins: str) -> None:
    store_session(store, "s", (title, TURN))
    name = Path(get_stdout(store, "last", "--output", f"{tmp_path}/").strip()).name
    assert re.fullmatch(f"{begins}s-[0-9a-f]{{8}}\\.md", name)


def test_the_names_of_files_have_the_ids_of_lists(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "01abc030-7c1e-4b1f", ("Mend it", TURN), at=3.0)
    store_session(store, "01abc030-9999-4b1f", ("Mend it", TURN), at=2.0)
    store_session(store, "../é", ("Mend it", TURN), at=1.0)
    store_session(store, "untitled", ("", TURN), at=0.0)
    stems = [Path(path).stem for path in get_stdout(store, "--all", "-o", str(tmp_path / "out")).splitlines()]
    names = [re.sub("[0-9a-f]{8}$", "HASH", stem) for stem in stems]
    assert names == [*["mend-it-01abc030-HASH"] * 2, "mend-it-HASH", "session-untitled-HASH"]
    assert len(set(stems)) == 4


def test_to_export_nothing_is_a_failure_if_something_was_asked_for(store: WholeStore, tmp_path: Path) -> None:
    assert run(store, "--all", "-o", f"{tmp_path}/out/").exit_code == 0
    store_session(store, "s", ("Mend it", TURN), agent="mine")
    result = run(store, "--since", "2200-01-01", "-o", f"{tmp_path}/out/")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "There is no session to export. To see all sessions: acp-proxy list\n"
    result = run(store, "--all", "--agent", "other", "-o", f"{tmp_path}/out/")
    assert result.exit_code == 1
    assert "mine" in result.stderr
    assert not (tmp_path / "out").exists()


def test_several_sessions_in_one_file_are_refused(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "one", ("Mend it", TURN))
    store_session(store, "two", ("Mend it", TURN))
    for words in (("--all",), ("one", "two")):
        result = run(store, *words, "-o", str(tmp_path / "one.html"))
        assert (result.exit_code, (tmp_path / "one.html").exists()) == (2, False)
        assert result.stderr.endswith(f"Name a directory: --output {tmp_path / 'one'}/ --format html\n")
    advised = get_stdout(store, "--all", "-o", f"{tmp_path / 'one'}/", "--format", "html").splitlines()
    assert [Path(path).suffix for path in advised] == [".html", ".html", ".html"]
    assert get_stdout(store, "--all", "-o", f"{tmp_path / 'one.html'}/").count(".md\n") == 2
    assert get_stdout(store, "one", "two", "-o", str(tmp_path / "v1.2")).count("v1.2") == 2


def test_a_place_without_its_option_is_answered_with_that(
    store: WholeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_session(store, "s", ("Mend it", TURN))
    monkeypatch.chdir(tmp_path)
    for words, advice in (
        (["last", "out.html"], "Did you mean --output out.html?"),
        (["last", "s", "out/"], "Did you mean --output out/?"),
        (["last", "s", "out.html"], "Use --output DIR."),  # one file for several
        (["last", str(path)], "Use --output DIR."),  # a session
        (["--all"], "Use --output DIR."),
    ):
        result = run(store, *words)
        assert (result.exit_code, result.stderr) == (2, f"acp-proxy: several sessions need a directory. {advice}\n")


def test_an_unreadable_session_does_not_stop_the_others(store: WholeStore, tmp_path: Path) -> None:
    path = store_session(store, "bad", ("one", TURN))
    store_session(store, "good", ("two", TURN))
    store.list_all()
    path.unlink()
    path.mkdir()
    result = run(store, "--all", "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "not exported: bad" in result.stderr
    assert [found.name.split("-")[0] for found in (tmp_path / "out").iterdir()] == ["two"]


@pytest.mark.parametrize("form", ["md", "html", "json", "jsonl"])
def test_secrets_are_masked_across_chunks(store: WholeStore, tmp_path: Path, form: str) -> None:
    updates = [
        *(chunk(TOKEN[at : at + 7]) for at in range(0, len(TOKEN), 7)),
        chunk(f" and INTERN-1 {TOKEN}", "agent_thought_chunk"),
        {"sessionUpdate": "tool_call", "toolCallId": "1", "title": f"use {TOKEN}", "rawOutput": {"it": TOKEN}},
        {"sessionUpdate": "plan", "entries": [{"content": TOKEN, "status": "pending"}]},
    ]
    cut = f"use {'/' * 100}{TOKEN}"  # the title is cut within the token
    path = store_session(store, "s", (cut, updates), error={"code": 1, "message": f"bad {TOKEN}"})
    before = path.read_bytes()
    patterns = tmp_path / "patterns"
    patterns.write_text("INTERN-[0-9]\n")
    options = () if form == "jsonl" else ("--tools", "full", "--thoughts")
    stdout = get_stdout(store, "s", "--format", form, "--redact", str(patterns), *options)
    assert "redacted" in stdout
    assert "INTERN-1" not in stdout
    for at in range(len(TOKEN) - 12):
        assert TOKEN[at + 4 : at + 12] not in stdout
    assert TOKEN in get_stdout(store, "s", "--format", form, *options)
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_home_directories_are_hidden_everywhere(store: WholeStore, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/eve")
    text = {"type": "text", "text": "/home/eve/out"}
    resource = {"type": "resource", "resource": {"uri": "file:///home/eve/r.txt", "text": "/home/eve/in"}}
    diff = {"type": "diff", "path": "/srv/people/eve/b.py", "oldText": "/home/eve/1", "newText": "/home/eve/2"}
    content = [{"type": "content", "content": text}, {"type": "content", "content": resource}, diff]
    call = {"title": "cat /home/eve/a", "status": "completed", "content": content, "rawInput": {"in": "/home/eve/i"}}
    updates = [
        {**chunk(""), "content": {"type": "resource_link", "uri": "file:///home/eve/a.png", "name": "/home/eve/a.png"}},
        chunk("see file:///home/eve/x and C:\\Users\\eve\\x"),
        chunk("in /home/eve", "agent_thought_chunk"),
        {"sessionUpdate": "tool_call", "toolCallId": "1", "locations": [{"path": "/home/eve/l"}], **call},
        {"sessionUpdate": "tool_call", "toolCallId": "2", "title": "x", "rawOutput": {"/home/eve/o": "/home/eve"}},
        {"sessionUpdate": "plan", "entries": [{"content": "mend /home/eve/p", "status": "pending"}]},
        {"sessionUpdate": "compaction_update", "path": "/home/eve/c"},
    ]
    error = {"code": 1, "message": "no /home/eve/e"}
    store_session(store, "s", ("Mend /home/eve/project", updates), cwd="/home/eve/project", error=error)
    stdout = get_stdout(store, "s", "--format", form, "--tools", "full", "--thoughts")
    assert "~/project" in stdout
    assert "eve" not in stdout.replace("never", "")


def test_the_names_of_files_hide_home_directories_too(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend /home/eve/project", TURN))
    for form in ("md", "jsonl"):
        [path] = get_stdout(store, "--all", "--format", form, "-o", str(tmp_path / "out")).splitlines()
        assert "eve" not in path


def test_a_transcript_keeps_home_directories(store: WholeStore) -> None:
    path = store_session(store, "s", ("Mend /home/eve/project", TURN), cwd="/home/eve")
    assert get_stdout(store, "s", "--format", "jsonl").encode() == path.read_bytes()


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_the_users_title_is_masked_on_request(store: WholeStore, form: str) -> None:
    store_session(store, "s", ("one", TURN))
    [row] = store.list_all()
    store.set_listed_title(row, f"Mine with {TOKEN}")
    assert TOKEN[4:] in get_stdout(store, "s", "--format", form)
    stdout = get_stdout(store, "s", "--format", form, "--redact", "keys")
    assert "Mine with " in stdout
    assert TOKEN[4:] not in stdout


@pytest.mark.parametrize("form", ["md", "html", "json", "cast"])
def test_an_export_with_a_known_secret_says_so(store: WholeStore, form: str) -> None:
    store_session(store, "s", (f"Use {TOKEN}", TURN))
    result = run(store, "s", "--format", form)
    assert (result.exit_code, TOKEN in result.stdout.replace("\\", "")) == (0, True)
    assert "known forms of secrets" in result.stderr
    assert "--redact keys" in result.stderr
    assert run(store, "s", "--format", form, "--redact", "keys").stderr == ""


def test_contradictory_options_are_refused(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("one", TURN))
    for words, hint in (
        ((), "export last"),
        (("s", "--all"), "--all"),
        (("--all",), "--output DIR"),
        (("s", "--format", "pdf"), "'md', 'html'"),
        (("s", "--tools", "some"), "'summary', 'full'"),
        (("s", "--format", "jsonl", "--tools", "none"), "complete"),
    ):
        result = run(store, *words)
        assert result.exit_code == 2
        assert hint in result.stderr
    assert run(store, "nobody").exit_code == 1
    for force in ((), ("--force",)):
        nowhere = run(store, "s", "-o", str(tmp_path / "no" / "where.md"), *force)
        assert nowhere.exit_code == 1
        assert "choose another place" in nowhere.stderr
    (tmp_path / "file").write_text("mine")
    assert "Choose another place" in run(store, "--all", "-o", str(tmp_path / "file")).stderr
    assert run(store, "s", "--redact", str(tmp_path / "missing")).exit_code == 2


def test_a_terminal_shows_the_progress_of_an_export(store: WholeStore, tmp_path: Path) -> None:
    for number in range(3):
        store_session(store, f"s{number}", ("one", TURN))
    words = ("export", "--all", "-o", str(tmp_path / "out"), "--store", str(store.root))
    results, told = run_with_stderr_on_terminal(*words)
    assert "Exporting" in told
    assert len(results.splitlines()) == 3
    assert run(store, "--all", "-o", str(tmp_path / "again")).stderr == f"Exported 3 sessions to {tmp_path}/again\n"


def test_an_export_to_a_terminal_cannot_control_it(store: WholeStore) -> None:
    path = store_session(store, "s", ("\u202eone \x1b[2J", [chunk("\x9b31m\x7f")]))
    with path.open("ab") as file:
        file.write("\x1b[2J\x9b31m\x7f\u202e\n".encode())
    for form in ("md", "html", "json", "jsonl"):
        screen = run_on_terminal("export", "s", "--format", form, "--store", str(store.root))
        assert "one" in screen
        assert not set(screen) & set("\x1b\x9b\x7f\u202e")


def test_a_reader_may_stop_early(store: WholeStore) -> None:
    store_session(store, "s", ("one", [chunk("word\n" * 100) for _ in range(2000)]))
    words = ("export", "s", "--store", str(store.root))
    with subprocess.Popen(
        [sys.executable, "-m", "acp_proxy", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=SMALL
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"# one"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_a_terminal_recording_is_exported_by_its_suffix(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    path = tmp_path / "session.cast"
    get_stdout(store, "s", "--output", str(path))
    header, *events = map(json.loads, path.read_text().splitlines())
    assert (header["version"], header["title"]) == (2, "Mend it")
    assert "**done**" in "".join(event[2] for event in events)
    assert get_stdout(store, "s", "--format", "cast") == path.read_text()
    for option in ("--no-thoughts", "--tools=full"):
        assert run(store, "s", "--format", "cast", option).exit_code == 2


def test_web_opens_a_page_that_only_the_user_can_read(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\nprintf %s "$1" > "{seen}.new" && mv "{seen}.new" "{seen}"\n')
    browser.chmod(0o700)
    status, out, told = on_the_web(store, tmp_path, str(browser))
    assert (status, told) == (0, "")
    page = Path(out.removesuffix("\n"))
    assert seen.read_text() == page.as_uri()
    assert (page.parent.parent, page.suffix) == (tmp_path, ".html")
    assert (stat.S_IMODE(page.parent.stat().st_mode), stat.S_IMODE(page.stat().st_mode)) == (0o700, 0o600)
    assert "<strong>done</strong>" in page.read_text()


def test_without_a_browser_web_says_where_the_page_is(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "s", ("Mend it", TURN))
    status, out, told = on_the_web(store, tmp_path, str(tmp_path / "missing"))
    assert (status, out) == (1, "")
    assert Path(told.rpartition(": ")[2].removesuffix("\n")).is_file()


@pytest.mark.parametrize("words", [("--output", "a.html"), ("--format", "md"), ("--all",), ("--force",), ("other",)])
def test_web_shows_one_session_as_a_page(store: WholeStore, words: tuple[str, ...]) -> None:
    result = run(store, *(() if "--all" in words else ("s",)), "--web", *words)
    assert (result.exit_code, "--web" in result.stderr) == (2, True)


def on_the_web(store: WholeStore, folder: Path, browser: str) -> tuple[int, str, str]:
    """The exit status, stdout and stderr of --web, with one browser on the machine."""
    environment = {"BROWSER": browser, "TMPDIR": str(folder), "PATH": str(folder), "HOME": str(folder)}
    words = ["export", "s", "--web", "--store", str(store.root)]
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    result = subprocess.run(
        [sys.executable, "-m", "acp_proxy", *words], env=environment, capture_output=True, text=True, timeout=60
    )
    return result.returncode, result.stdout, result.stderr


def test_one_turn_is_exported(store: WholeStore, tmp_path: Path) -> None:
    store_session(store, "long", *((f"Prompt {number}", []) for number in (1, 2, 3)))
    for turn, left in (("2", "2"), ("-1", "3"), ("2-", "23"), ("1-2", "12")):
        text = get_stdout(store, "long", "--turn", turn)
        assert "".join(number for number in "123" if f"Prompt {number}\n" in text.partition("##")[2]) == left
    assert "has 3" in run(store, "long", "--turn", "4").stderr
    assert run(store, "long", "--turn", "1", "--output", str(tmp_path / "x.jsonl")).exit_code == 2
    assert run(store, "--all", "--turn", "1", "--output", f"{tmp_path}/").exit_code == 2
    assert run(store, "long", "--since", "1d").exit_code == 2


def test_an_export_of_all_names_a_session_that_no_list_has_read(store: WholeStore, tmp_path: Path) -> None:
    path = store_session(store, "bad", ("one", TURN))
    path.write_bytes(path.read_bytes().replace(b'"acp-transcript":1', b'"acp-transcript":9'))
    store_session(store, "good", ("two", TURN))
    result = run(store, "--all", "-o", str(tmp_path / "out"))
    assert (result.exit_code, f"not exported: {path}: " in result.stderr) == (1, True)
