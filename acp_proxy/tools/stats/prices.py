"""Tokens of every kind, and a list of prices for them. Pure, except for reading the list."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from acp_proxy.errors import UsageError
from acp_proxy.protocol import acp
from acp_proxy.transcript.usage import LARGEST_NUMBER

EXAMPLE = """\
# Prices of a million tokens. The figures here are no real ones: take those of your provider.
currency = "USD"

[models."a-model"]          # as: acp-proxy stats --by model
input = 2.50                # tokens that were not in the cache
output = 10.00
cached_read = 0.25          # without it: as input
cached_write = 3.00         # without it: as input
thought = 10.00             # without it: as output

[models."another-model"]
input = 0.50
output = 1.50
"""
_FIELDS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cached_read": "cachedReadTokens",
    "cached_write": "cachedWriteTokens",
    "thought": "thoughtTokens",
    "total": "totalTokens",
}
"""The protocol's names of the six figures."""
_KINDS = ("input", "output", "cached_read", "cached_write", "thought")
_MILLION = 1_000_000


class TokenCounts(Struct, frozen=True):
    """The six figures of the protocol's usage."""

    input: int = 0
    output: int = 0
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    total: int = 0

    @classmethod
    def read(cls, usage: object) -> "TokenCounts | None":
        """The figures in an answer; None if there is no total."""
        counts = {name: read_number(acp.member(usage, field), LARGEST_NUMBER) for name, field in _FIELDS.items()}
        return cls(**{name: int(counts[name] or 0) for name in _FIELDS}) if counts["total"] is not None else None

    @property
    def has_kinds(self) -> bool:
        """Whether more than the total is known."""
        return any(getattr(self, name) for name in _KINDS)

    def add(self, other: "TokenCounts") -> "TokenCounts":
        """The sum of both."""
        return TokenCounts(*(getattr(self, name) + getattr(other, name) for name in _FIELDS))

    def subtract(self, other: "TokenCounts") -> "TokenCounts":
        """What was added since ``other``."""
        return TokenCounts(*(max(0, getattr(self, name) - getattr(other, name)) for name in _FIELDS))

    def is_below(self, other: "TokenCounts") -> bool:
        """Whether a figure has fallen since ``other``."""
        return any(getattr(self, name) < getattr(other, name) for name in ("input", "output", "total"))

    def encode(self) -> dict[str, int]:
        """By the protocol's names."""
        return {field: getattr(self, name) for name, field in _FIELDS.items()}


class Price(Struct, frozen=True):
    """The price of a million tokens of each kind."""

    input: float
    output: float
    cached_read: float
    cached_write: float
    thought: float

    def compute(self, tokens: TokenCounts) -> float:
        """The price of these tokens.

        The protocol's total is the sum of all kinds. If an agent's total is its input and output alone, then its cached
        tokens are a part of the input, and its thoughts of the output: they count once.
        """
        amounts = {name: getattr(tokens, name) for name in _KINDS}
        beside = tokens.cached_read + tokens.cached_write + tokens.thought
        if beside and tokens.total == tokens.input + tokens.output:
            amounts["input"] = max(0, tokens.input - tokens.cached_read - tokens.cached_write)
            amounts["output"] = max(0, tokens.output - tokens.thought)
        return float(sum(amount * getattr(self, name) for name, amount in amounts.items())) / _MILLION


class Prices(Struct, frozen=True):
    """A list of prices, by the model's name in lower case."""

    currency: str
    models: Mapping[str, Price]

    def find(self, model: str) -> Price | None:
        """The price of a model; None: not in the list."""
        return self.models.get(model.casefold())


def read_prices(path: Path) -> Prices:
    """Read a list in TOML; ``EXAMPLE`` is one. Raises UsageError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"{path} cannot be read: {why}. For an example: acp-proxy stats --prices-example") from problem
    models = values.get("models")
    if not isinstance(models, dict) or not models:
        raise UsageError(f"{path} has no [models.NAME]. For an example: acp-proxy stats --prices-example")
    currency = values.get("currency", "USD")
    if not isinstance(currency, str) or not currency.isalnum():
        raise UsageError(f"{path}: currency is a word such as USD")
    return Prices(currency, {name.casefold(): _read_price(path, name, price) for name, price in models.items()})


def _read_price(path: Path, model: str, values: object) -> Price:
    if not isinstance(values, dict) or (unknown := set(values) - set(_KINDS)):
        more = f" It has no {', '.join(sorted(unknown))}." if isinstance(values, dict) else ""
        raise UsageError(f"{path}: a model has the prices {', '.join(_KINDS)}.{more}")
    for name, value in values.items():
        if read_number(value, LARGEST_NUMBER) is None:
            raise UsageError(f"{path}: {model}: {name} is a price of a million tokens, such as 2.50")
    if "input" not in values or "output" not in values:
        raise UsageError(f"{path}: {model} needs the prices input and output")
    usual = {"cached_read": values["input"], "cached_write": values["input"], "thought": values["output"]}
    return Price(**{name: float((usual | values)[name]) for name in _KINDS})


def read_number(value: object, most: float) -> float | None:
    """A number from 0 to ``most``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= most else None
