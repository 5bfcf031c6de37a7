"""Every known form of a secret is found, text that only looks like one is not, and no text takes long."""

import random
import time

import pytest

from acp_proxy.redaction.masking import Masking, Span
from acp_proxy.redaction.secret_rules import LONG_RUN_PATTERN, RULES, SecretRule
from tests.redaction.made_up_secrets import RULE_NAMES, plant

BY_NAME = {rule.name: rule for rule in RULES}
TEXTS_BEFORE = (" ", "\n", '"', "'", "=", ":", ",", "(", "`", "")
TEXTS_AFTER = (" ", "\n", '"', "'", ",", ";", ")", "`", "")


def find_secrets(text: str) -> list[tuple[str, str]]:
    return [(span.rule.name, text[span.start : span.end]) for span in Masking().find(text)]


def get_secrets(spans: list[Span], text: str) -> list[str]:
    return [text[span.start : span.end] for span in spans]


def test_every_rule_has_an_example() -> None:
    assert list(BY_NAME) == list(RULE_NAMES)
    assert len(BY_NAME) == len(RULES)


@pytest.mark.parametrize("name", RULE_NAMES)
def test_a_secret_is_found_whole_whatever_surrounds_it(name: str) -> None:
    for number in range(30):
        chance = random.Random(repr((name, number)))
        example = plant(name, chance)
        before, after = chance.choice(TEXTS_BEFORE), chance.choice(TEXTS_AFTER)
        text = f"the key is{before or ' '}{example.text}{after} and that is all"
        assert (name, example.secret) in find_secrets(text), text


@pytest.mark.parametrize("name", RULE_NAMES)
def test_a_secret_contains_a_literal_of_its_rule(name: str) -> None:
    example = plant(name, random.Random(0))
    text = example.text.lower() if BY_NAME[name].ignores_case else example.text
    assert any(literal in text for literal in BY_NAME[name].literals)


@pytest.mark.parametrize("name", [name for name in RULE_NAMES if BY_NAME[name].is_one_run])
def test_a_secret_of_one_run_is_a_long_run_also_where_it_is_cut(name: str) -> None:
    assert LONG_RUN_PATTERN.fullmatch(plant(name, random.Random(0)).secret.encode())
    assert len(min(cut_secrets(name), key=len)) >= 16


@pytest.mark.parametrize("name", RULE_NAMES)
def test_a_literal_has_no_character_that_json_escapes(name: str) -> None:
    assert not [literal for literal in BY_NAME[name].literals if '"' in literal or "\\" in literal]


def cut_secrets(name: str) -> list[str]:
    """The cut forms of a secret that its rule still finds."""
    example = plant(name, random.Random(0))
    cuts = (example.before + example.secret[:end] + example.after for end in range(1, len(example.secret)))
    return [secret for cut in cuts for rule, secret in find_secrets(cut) if rule == name] or [example.secret]


def cut_in_half(rule: SecretRule) -> str:
    """The beginning of a secret, too short to be one."""
    example = plant(rule.name, random.Random(1))
    shown = max(len(literal) for literal in rule.literals) + 6
    return example.before + example.secret[: min(shown, len(example.secret) // 4)]


FOUND_AT_ANY_LENGTH = {
    *("password in a URL", "password in a curl command"),
    *("private key, cut off", "private key (PEM, OpenSSH, PGP)"),
}


@pytest.mark.parametrize("name", [name for name in RULE_NAMES if name not in FOUND_AT_ANY_LENGTH])
def test_half_a_secret_is_not_found(name: str) -> None:
    assert find_secrets(f"it begins with {cut_in_half(BY_NAME[name])} and so on") == []


@pytest.mark.parametrize(
    "text",
    [
        "task-" + "a" * 40,
        "the risk-based-authentication-of-everybody",
        "agent_message_chunk session/update toolCallId",
        "MAKIA" + "A" * 16,
        "AKIA" + "A" * 17,
        "https://user@example.com/a:b@c",
        "https://example.com:8080/path@x",
        "postgres://$USER:$PASSWORD@host/db",
        "postgres://{user}:{password}@host/db",
        "the bearer of bad news",
        "Bearer authentication-is-described-in-rfc-and-elsewhere",
        "-----BEGIN PUBLIC KEY-----\n" + "A" * 64 + "\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\n" + "A" * 64 + "\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY----- is how it begins",
        "eyJhbGciOiJIUzI1NiJ9 alone",
        "a.b.c eyJ.eyJ.x",
        "0123456789abcdef0123456789abcdef01234567",
        "550e8400-e29b-41d4-a716-446655440000",
        "secret_access_key = os.environ['AWS']",
        "Authorization: Basic <credentials>",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "",
    ],
)
def test_text_that_only_looks_like_a_secret_is_not_found(text: str) -> None:
    assert find_secrets(text) == []


def test_a_user_pattern_is_found_whole_and_never_as_empty_text() -> None:
    masking = Masking([r"(foo|bar)-\d+", "x*"])
    text = "see foo-12 and bar-3"
    assert get_secrets(masking.find(text), text) == ["foo-12", "bar-3"]


def make_hostile_texts(rule: SecretRule, size: int) -> list[str]:
    """Texts that give a rule much work, with many matches or none."""
    example = plant(rule.name, random.Random(2))
    parts = [
        *rule.literals,
        example.text[: len(example.text) // 2],
        example.text[:-1],
        example.text,
        "eyJ" + "a" * 20 + ".",
    ]
    parts += ["[redacted private key]", "-----BEGIN PRIVATE KEY-----", "-----", "bearer 1", "://a:"]
    return [(part * (size // len(part) + 1))[:size] for part in parts] + [part + "A" * size for part in parts]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_four_times_the_text_takes_about_four_times_as_long(rule: SecretRule) -> None:
    def cost(text: str) -> float:
        began = time.process_time()
        for _ in rule.pattern.finditer(text):
            pass
        return time.process_time() - began

    for small, large in zip(make_hostile_texts(rule, 10_000), make_hostile_texts(rule, 40_000), strict=True):
        # Only the time of this process. Quadratic time would be sixteen times as much; a tiny time proves nothing.
        attempts = ((min(cost(small) for _ in range(3)), cost(large)) for _ in range(5))
        assert any(much < 0.02 or much < 9 * little for little, much in attempts), large[:80]
