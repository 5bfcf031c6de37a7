"""The documentation agrees with the command line."""

import ast
import builtins
import keyword
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from acp_proxy.cli.app import RootGroup
from scripts import cli_docs, redaction_docs
from tests import forked
from torture import __main__ as torture_page

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED_SH = re.compile(r"^( *)```sh\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
ONE_LINE = 66  # characters left beside the longest name in a terminal of 80 columns
SHELL_PUNCTUATION = re.compile(r"[();<>|&]+")


def list_commands(text: str) -> Iterator[list[str]]:
    """The words of each acp-proxy command in the text's sh blocks, without pipes and redirections."""
    for block in FENCED_SH.finditer(text):
        for line in block[2].replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            if words[:1] == ["acp-proxy"]:
                end = next((at for at, word in enumerate(words) if SHELL_PUNCTUATION.fullmatch(word)), len(words))
                yield words[:end]


@cache
def contexts_by_path() -> dict[str, typer.Context]:
    return {context.command_path: context for context in cli_docs.contexts()}


def problem_of(words: list[str]) -> str | None:
    """The error for a command or an option that does not exist; None if all exist."""
    path, rest = words[0], words[1:]
    while context := contexts_by_path().get(path):
        context.ignore_unknown_options = False
        try:
            _, rest, _ = context.command.make_parser(context).parse_args(rest)
        except typer.TyperException as error:
            return f"{path}: {error}"
        if not rest or not isinstance(context.command, TyperGroup):
            return None
        path, rest = f"{path} {rest[0]}", rest[1:]
    return f"{path}: no such command"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documented_commands_exist_with_their_options(path: Path) -> None:
    problems = [problem for words in list_commands(path.read_text(encoding="utf-8")) if (problem := problem_of(words))]
    assert not problems, "\n".join(problems)


def test_documented_commands_are_found_in_sh_blocks() -> None:
    text = "```sh\n# first\nacp-proxy run \\\n  --store x -- npx @a/b | tee log\ncd x\nacp-proxy demo  # second\n```\n"
    assert list(list_commands(text)) == [
        ["acp-proxy", "run", "--store", "x", "--", "npx", "@a/b"],
        ["acp-proxy", "demo"],
    ]


@pytest.mark.parametrize(
    "line",
    [
        "acp-proxy no-such-command",
        "acp-proxy --no-such-option",
        "acp-proxy sessions no-such-command",
        "acp-proxy list --no-such-option",
        "acp-proxy run --no-such-option agent",
    ],
)
def test_an_unknown_command_or_option_is_found(line: str) -> None:
    assert problem_of(line.split())


def test_words_after_the_agent_are_not_checked() -> None:
    assert problem_of(["acp-proxy", "run", "npx", "--no-such-option"]) is None


def leaves() -> list[typer.Context]:
    return [context for context in cli_docs.contexts() if not isinstance(context.command, TyperGroup)]


@pytest.mark.parametrize("context", leaves(), ids=lambda context: context.command_path)
def test_every_command_has_a_valid_example(context: typer.Context) -> None:
    examples = re.findall(r"^Example: (.*)$", context.command.help or "", re.MULTILINE)
    assert examples
    for words in map(shlex.split, examples):
        assert words[: len(context.command_path.split())] == context.command_path.split()
        assert problem_of(words) is None


@pytest.mark.parametrize("context", leaves(), ids=lambda context: context.command_path)
def test_every_command_fits_on_one_line_of_its_groups_help(context: typer.Context) -> None:
    assert not context.command.get_short_help_str(ONE_LINE).endswith("...")


def test_a_command_loads_no_other_command() -> None:
    told = (
        "import sys; from acp_proxy.cli.app import app; app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", told, "path"], capture_output=True, text=True, timeout=60, check=True
    )
    modules = {command.module for command in RootGroup.commands_by_name.values()} - {"acp_proxy.cli.app"}
    assert modules & set(result.stdout.split()) == {"acp_proxy.cli.path"}


def test_the_command_line_page_agrees_with_the_help() -> None:
    assert cli_docs.PAGE.read_text(encoding="utf-8") == cli_docs.page(), "run: make docs"


def test_the_redaction_table_agrees_with_the_rules() -> None:
    text = redaction_docs.PAGE.read_text(encoding="utf-8")
    assert text.count("\n|") > 20
    assert text == redaction_docs.page(text), "run: make docs"


def test_the_page_of_faults_agrees_with_the_kept_figures() -> None:
    text = torture_page.PAGE.read_text(encoding="utf-8")
    assert text == torture_page.page(torture_page.read_results()), "run: python -m torture --page"


def test_every_command_of_the_tutorial_works(tmp_path: Path) -> None:
    """They run in order, for a user who has no sessions yet, and who pastes the line that the demo prints."""
    environment = os.environ | {"HOME": str(tmp_path / "home"), "ACP_PROXY_STORE": str(tmp_path / "store")}
    environment |= {"TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "PATH": os.path.dirname(sys.executable)}
    commands = list(list_commands((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")))
    assert len(commands) > 15
    for words in commands:
        command = [sys.executable, "-m", "acp_proxy", *words[1:]]
        result = forked.run(command, cwd=tmp_path, env=environment, text=True, timeout=60)
        has_no_editor = words[1:3] == ["setup", "--agent"]  # there is none in this home
        assert result.returncode == int(has_no_editor), (words, result.stdout, result.stderr)
        assert ("has settings of agents on this machine" in " ".join(result.stderr.split())) is has_no_editor
        if pasted := re.search(r"(?:export ACP_PROXY_STORE=|--store )(\S+)", result.stdout):
            environment["ACP_PROXY_STORE"] = pasted[1]


@pytest.mark.parametrize("name", ["architecture", "extending", "glossary"])
def test_a_page_about_the_code_names_only_what_the_code_has(name: str) -> None:
    """A reader searches for these names: functions, methods, classes, constants and files."""
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "acp_proxy").rglob("*.py"))}
    words = {word for text in sources.values() for word in re.findall(r"\w+", text)}
    named = re.findall(r"`((?:[A-Za-z]\w*\.)*_?[A-Za-z]\w*)`", page)
    code = {name for name in named if name.startswith("_") or re.match(r"[A-Z]\w*\.", name) or name.isidentifier()}
    assert [name for name in sorted(code) if not set(name.split(".")) <= words] == []
    members = members_by_class(parse(text) for text in sources.values())
    pairs = [name.split(".") for name in sorted(code) if name.count(".") == 1]
    assert [pair for pair in pairs if pair[0] in members and pair[1] not in members[pair[0]]] == []
    files = {name for name in re.findall(r"`((?:\w+/)+\w+\.py)`", page) if not name.startswith("tests/")}
    assert [name for name in sorted(files) if not (ROOT / "acp_proxy" / name).is_file()] == []


def test_the_searches_for_what_names_a_kind_find_such_places() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "acp_proxy").rglob("*.py"))}
    patterns = re.findall(r"`'(.+)'`", page)
    assert len(patterns) > 10
    for pattern in patterns:
        for part in re.sub(r"\(.*?\)", "", pattern).split("|"):
            files = [path for path, text in sources.items() if re.search(part, text)]
            assert len(files) > 1, part


@cache
def parse(text: str) -> ast.Module:
    """A file's tree, which several tests read."""
    return ast.parse(text)


def walk(tree: ast.AST) -> list[ast.AST]:
    """What ``ast.walk`` gives, in half the time."""
    found = [tree]
    for node in found:  # which grows
        for name in node._fields:
            value = getattr(node, name)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
    return found


def walk_statements(tree: ast.AST) -> list[ast.AST]:
    """A tree, and the statements inside it, also those inside others. No expression has any."""
    found = [tree]
    for node in found:  # which grows
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, name, ())
    return found


@cache
def list_definitions(tree: ast.AST) -> set[str]:
    """The names that classes and functions get, and attributes; without a function's variables."""
    nodes = walk(tree)
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    bodies = [tree, *(node for node in nodes if isinstance(node, ast.ClassDef))]
    for statement in (each for body in bodies for each in getattr(body, "body", ())):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        named = (node for target in targets if target is not None for node in walk(target))
        found |= {each.id for each in named if isinstance(each, ast.Name)}
    return found


@cache
def literals(tree: ast.AST) -> set[str]:
    """The strings that are one word or a path of words, such as a method, a member of the protocol or a mode."""
    texts = (node.value for node in walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {word for text in texts if re.fullmatch(r"[\w./$-]+", text) for word in re.split(r"[./]", text)}


@cache
def list_names(tree: ast.AST) -> set[str]:
    """Every name in a file's code."""
    names = {getattr(node, field, None) for node in walk(tree) for field in ("id", "attr", "arg", "name", "module")}
    return {part for name in names if isinstance(name, str) for part in name.split(".")}


def members_by_class(trees: Iterable[ast.AST]) -> dict[str, set[str]]:
    """What classes of each name have, or inherit from classes here."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in (node for tree in trees for node in walk_statements(tree) if isinstance(node, ast.ClassDef)):
        classes.setdefault(node.name, []).append(node)

    @cache
    def members(name: str) -> set[str]:
        found = classes.get(name, [])
        bases = (base for each in found for given in each.bases for base in walk(given))
        inherited = {base.id for base in bases if isinstance(base, ast.Name)} - {name}
        return set().union(*map(list_definitions, found), *map(members, inherited))

    return {name: members(name) for name in classes}


FOREIGN_NAMES = frozenset(
    {"_meta", "allow_once", "foo.bar", "npx.cmd", "null", "quote_path", "secure_delete", "SessionInfo"}
    | {"terminal_exit", "terminal_info", "true", "user_version"}
)
"""Names in comments that are the protocol's, an agent's, git's, SQLite's or an example's."""


def unresolved(sources: dict[str, str]) -> list[str]:
    """What comments and docstrings call ``name`` or ``Class.name``, and the code has not: the file and the name.

    A name must be in the same file's code, or be defined or written as a string anywhere; a private one in its code.
    """
    trees = {path: parse(text) for path, text in sources.items()}
    words = {*dir(builtins), *keyword.kwlist, *FOREIGN_NAMES}
    words |= {part for path in sources for part in re.split(r"[/.]", path)}
    for tree in trees.values():
        words |= list_definitions(tree) | literals(tree)
    members = members_by_class(trees.values())
    missing = []
    for path, text in sources.items():
        names = re.findall(r"(?<!`)``((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\(\))?``(?!`)", text)
        here = words | list_names(trees[path]) if names else words
        for name in names:
            first, _, last = name.rpartition(".")
            known = last in members[first] if first in members else set(name.split(".")) <= here or name in here
            # A private name is of no concern to other files.
            if re.fullmatch(r"_[a-z]\w*", name) and name not in FOREIGN_NAMES:
                known = name in list_names(trees[path])
            if not known:
                missing.append(f"{path}: {name}")
    return missing


def package_sources() -> dict[str, str]:
    """The package's files by their paths in it."""
    package = ROOT / "acp_proxy"
    return {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))
    }


def other_sources() -> dict[str, str]:
    """The files of the tests and of all else beside the package, by their paths in the repository."""
    folders = ("benchmarks", "fuzz", "scripts", "simulation", "tests", "torture")
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if "node_modules" not in path.parts
    }


def test_comments_name_only_what_the_code_has() -> None:
    """A name that was changed in the code alone sends a reader to search for what is not there."""
    assert unresolved(package_sources()) == []


@pytest.mark.parametrize("name", ["gone", "One.gone", "one.gone", "local", "_help"])
def test_a_name_that_is_nowhere_is_found_in_a_comment(name: str) -> None:
    other = "def _help(): pass\n\ndef work():\n    local = 1\n    return local\n"
    one = (
        f"class One:\n    def stay(self): pass\n\none = One()\n# ``{name}``, ``One.stay``, ``work`` and ``one.stay``\n"
    )
    assert unresolved({"one.py": one, "other.py": other}) == [f"one.py: {name}"]


def unresolved_examples(sources: dict[str, str]) -> list[str]:
    """What docstrings call in lines of code, assignments and assertions, and the file's code has not: both names."""
    missing = []
    for path, text in sources.items():
        tree = parse(text)
        called: set[str] = set()
        for node in walk_statements(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                called.update(*map(list_called, node.value.value.splitlines()))
        if called:
            missing += [f"{path}: {name}" for name in sorted(called - list_names(tree) - set(dir(builtins)))]
    return missing


def list_called(line: str) -> set[str]:
    """The names of what is called in a line of code; empty for prose."""
    try:
        code = [each for each in ast.parse(line.strip()).body if isinstance(each, ast.Assign | ast.Assert)]
    except SyntaxError:
        return set()
    calls = [node.func for statement in code for node in walk(statement) if isinstance(node, ast.Call)]
    return {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}


def test_examples_call_only_what_the_code_has() -> None:
    assert unresolved_examples(package_sources() | other_sources()) == []


def test_a_name_that_is_nowhere_is_found_in_an_example() -> None:
    docstring = '"""Short forms.\n\ntold = work(gone("one"))  # one line\nIt says (more or less) what is there.\n"""\n'
    assert unresolved_examples({"one.py": f"{docstring}def work(): pass\n"}) == ["one.py: gone"]


def test_each_file_says_what_it_is_about() -> None:
    """Also that of a test: a reader searches for a subject."""
    sources = package_sources() | other_sources()
    assert [path for path, text in sources.items() if text and not text.startswith(('"""', "#!"))] == []


def test_no_constant_of_a_module_gets_two_values() -> None:
    """The second one would count for what stands above it, too."""
    twice = []
    for path, text in package_sources().items():
        given = [node.targets[0] for node in parse(text).body if isinstance(node, ast.Assign)]
        names = [target.id for target in given if isinstance(target, ast.Name) and not target.id.startswith("__")]
        twice += [f"{path}: {name}" for name in sorted({name for name in names if names.count(name) > 1})]
    assert twice == []


DESCRIBED = re.compile(r"(?:^|[.;:(] )((?:``\w+``(?:, | and )?)+):(?= )")
"""Names that a docstring explains: ``name``: …"""


def undescribable(sources: dict[str, str]) -> list[str]:
    """What docstrings explain although it is not there: the file and the name. A function explains its parameters, what
    its class has, and attributes and strings in it; a class also names and strings of the module, such as a mode."""
    trees = {path: parse(text) for path, text in sources.items()}
    members = members_by_class(trees.values())
    found: list[str] = []

    def look(path: str, node: ast.AST, known: set[str], own: set[str]) -> None:
        """``own``: what the class around this node has, and the parameters of the functions around it."""
        if isinstance(node, ast.ClassDef):
            own = members.get(node.name, set())
            known = known | own
        elif isinstance(node, ast.FunctionDef):
            own = own | parameters(node)
            known = own | attributes(node) | literals(node)
        of_methods = set().union(*map(parameters, node.body)) if isinstance(node, ast.ClassDef) else set()
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Expr(ast.Constant(str(text))):
                    names = re.findall(r"``(\w+)``", " ".join(DESCRIBED.findall(" ".join(text.split()))))
                    found.extend(f"{path}: {name}" for name in names if name not in known | of_methods)
                case ast.stmt() | ast.excepthandler() | ast.match_case():  # an expression has no docstrings
                    look(path, child, known, own)

    for path, tree in trees.items():
        look(path, tree, list_definitions(tree) | literals(tree) | set(dir(BaseException)), set())
    return found


def attributes(node: ast.AST) -> set[str]:
    """The names of attributes and of keyword arguments in a function's code."""
    found = {getattr(each, "attr", None) or getattr(each, "arg", None) for each in walk(node)}
    return {name for name in found if isinstance(name, str)}


def parameters(node: ast.AST) -> set[str]:
    """The names of a function's parameters."""
    given = walk(node.args) if isinstance(node, ast.FunctionDef) else ()
    return {each.arg for each in given if isinstance(each, ast.arg)}


def test_docstrings_explain_only_what_is_there() -> None:
    assert undescribable(package_sources()) == []


@pytest.mark.parametrize("name", ["also", "inner", "method", "elsewhere"])
def test_an_explained_name_that_is_gone_is_found(name: str) -> None:
    told = f'"""Works. ``others``: which. ``{name}``, ``field``: more. See ``what``: no description."""'
    one = f"class One:\n    field = 1\n    def work(self, others):\n        {told}\n        inner = 2\n"
    text = f"class Two:\n    elsewhere = 1\n\n{one}"
    assert undescribable({"one.py": text}) == [f"one.py: {name}"]


def test_only_one_sentence_says_what_to_do_before_the_first_release() -> None:
    """docs/releasing.md says to remove it."""
    pages = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    del pages[str(Path("docs", "releasing.md"))]
    pages["README.md"], times = re.subn(r"Until the first release, .*\n", "", pages["README.md"])
    assert times == 1
    before = re.compile(r"first release|install '?\.|clone of this repository")
    assert {name: found for name, text in pages.items() if (found := before.findall(text))} == {}
    assert '"Until the first release, …"' in (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
