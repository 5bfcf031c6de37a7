"""How many of the test secrets of two secret scanners `--redact keys` finds: `python -m scripts.secret_scanners`."""

import json
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.redaction.masking import Masking

DATA = Path(__file__).parent.parent / "tests" / "redaction" / "scanner_secrets.json"
SCANNERS = ("gitleaks", "detect-secrets")
_ENOUGH = 0.4
"""The part of a secret that must be masked. A scanner may report a whole address where its last words are secret."""


@dataclass(frozen=True, slots=True)
class ScannerRule:
    """A rule of a scanner: how many of its test secrets are found, and how many of its harmless texts are masked."""

    name: str
    found: int
    secrets: int
    masked: int
    harmless: int


def compare(scanner: str) -> list[ScannerRule]:
    """What the built-in rules find of the test secrets of each rule of a scanner."""
    masking = Masking()
    rules = []
    for name, texts in json.loads(DATA.read_text(encoding="utf-8"))[scanner].items():
        harmless = [text[::-1] for text in texts["not secrets"]]
        rules.append(
            ScannerRule(
                name[::-1],
                sum(_is_found(masking, text[::-1]) for text in texts["secrets"]),
                len(texts["secrets"]),
                sum(bool(masking.find(text)) for text in harmless),
                len(harmless),
            )
        )
    return rules


def _is_found(masking: Masking, text: str) -> bool:
    before, _, rest = text.partition("⟦")
    secret, _, after = rest.partition("⟧")
    start, end = len(before), len(before) + len(secret)
    spans = masking.find(before + secret + after)
    return sum(max(0, min(span.end, end) - max(span.start, start)) for span in spans) >= _ENOUGH * len(secret)


def table() -> str:
    """The comparison for docs/redaction.md."""
    rows = ["|scanner|its rules|found by `keys`|their test secrets|found by `keys`|", "|-|-|-|-|-|"]
    for scanner in SCANNERS:
        rules = compare(scanner)
        whole = sum(rule.found == rule.secrets for rule in rules)
        found, secrets = sum(rule.found for rule in rules), sum(rule.secrets for rule in rules)
        rows.append(f"|{scanner}|{len(rules)}|{whole}|{secrets}|{found}|")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table())
    for scanner in SCANNERS:
        for rule in compare(scanner):
            if rule.found < rule.secrets:
                print(f"{scanner}: {rule.name}: {rule.found} of {rule.secrets}")
