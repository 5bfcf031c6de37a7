"""The order of a command's help: what it does, an example, its options, and then the rest."""

import inspect
import math
import re
import sys
from itertools import takewhile
from typing import Any

import typer
from typer.core import TyperCommand

from acp_proxy.invocation import write_as_typed

_EXAMPLE = "Example:"
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""Stands for a hyphen until the lines are made: a name that is broken at its hyphen cannot be copied."""


class Command(TyperCommand):
    """A command whose help begins with an example, so that a screen has it together with the options."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse what the parsing library accepts and no command can mean: ``-agent``, for it ``-a gent``; a number
        that is none, or too large for a machine's; an option whose value is empty.

        That is mostly a script's variable that is not set: ``prune --agent ""`` would delete the sessions of all
        agents.
        """
        if ctx.allow_interspersed_args and not ctx.resilient_parsing:  # else an agent's own words follow
            names = {name for param in self.get_params(ctx) for name in param.opts if name.startswith("--")}
            for word in takewhile(lambda word: word != "--", args):
                if f"-{word.partition('=')[0]}" in names:
                    ctx.fail(f"there is no option {word}. Did you mean -{word}?")
        rest = super().parse_args(ctx, args)
        for param in self.get_params(ctx):
            value = ctx.params.get(param.name or "")
            is_too_large = isinstance(value, int) and value > sys.maxsize
            if is_too_large or (isinstance(value, float) and math.isnan(value)):
                kind = "int" if is_too_large else "float"  # the library's own words, for a wrong number
                raise typer.BadParameter(f"'{value}' is not a valid {kind}.", ctx=ctx, param=param)
            is_empty = value == "" or (isinstance(value, list | tuple) and "" in value)
            if is_empty and param.param_type_name == "option" and is_given(ctx, param.name or ""):
                ctx.fail(f"{param.opts[0]} is empty. Give it a value, or leave it out.")
        return rest

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return write_as_typed(super().get_help(ctx).replace(_HYPHEN, "-"))

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """As other programs write them: what is required without braces, and a command with its arguments."""
        return [_strip_braces(piece).replace("AGENT", "AGENT [ARGS]...") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        brief, *other_paragraphs = _split_paragraphs(self.help)
        _write_paragraphs(formatter, [brief])
        examples = [
            line.removeprefix(_EXAMPLE).strip()
            for line in "\n".join(other_paragraphs).split("\n")
            if line.startswith(_EXAMPLE)
        ]
        indent = " " * (formatter.current_indent + formatter.indent_increment)
        if examples:  # never broken, to be copied
            formatter.write_paragraph()
            several_lines = f"{indent}Examples:\n" + "".join(f"{indent}  {example}\n" for example in examples)
            formatter.write(f"{indent}{_EXAMPLE} {examples[0]}\n" if len(examples) == 1 else several_lines)

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if row := make_help_row(param, ctx):
                sections["Arguments" if param.param_type_name == "argument" else "Options"].append(row)
        for name in [name for name, rows in sections.items() if rows]:
            with formatter.section(name):
                formatter.write_dl(sections[name])

    def format_epilog(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        _write_paragraphs(
            formatter,
            [paragraph for paragraph in _split_paragraphs(self.help)[1:] if not paragraph.startswith(_EXAMPLE)],
        )


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the option of this parameter stands on the command line."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def make_help_row(param: Any, ctx: typer.Context) -> tuple[str, str] | None:
    """The words of an option or argument, and its help without a range such as ``[x>=1]``: its own words say that, and
    the message for a number outside of it."""
    row = param.get_help_record(ctx)
    if row is None:
        return None
    names, text = row
    return names, _strip_range(text).replace("-", _HYPHEN)


def _strip_range(text: str) -> str:
    before_range, bracket, range_text = text.rpartition("  [")
    if not bracket or not range_text.endswith("]"):
        return text
    facts = [fact for fact in range_text[:-1].split("; ") if not re.search(r"\bx[<>]=?|[<>]=?x\b", fact)]
    return f"{before_range}{bracket}{'; '.join(facts)}]" if facts else before_range


def _strip_braces(piece: str) -> str:
    return piece[1:-1] if piece.startswith("{") else piece


def _split_paragraphs(text: str | None) -> list[str]:
    return inspect.cleandoc(text or "").split("\n\n")


def _write_paragraphs(formatter: Any, paragraphs: list[str]) -> None:
    if paragraphs:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(paragraphs).replace("-", _HYPHEN))
