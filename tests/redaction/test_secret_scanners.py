"""What other secret scanners find is found here too, except what is listed with its reason."""

import pytest

from scripts.secret_scanners import SCANNERS, ScannerRule, compare

ENTROPY = "any text that looks random, in a field that may hold a key"
CLIENT_ID = "a number or a short name that is no secret"
UNLIKE = "its test secrets are not like the provider's"
RARE = "a form of its own that is rare"
NOT_FOUND = {
    "gitleaks": {
        "asana-client-id": CLIENT_ID,
        "beamer-api-token": UNLIKE,
        "cloudflare-api-key": ENTROPY,
        "cloudflare-global-api-key": ENTROPY,
        "curl-auth-header": ENTROPY,
        "curl-auth-user": "a token as the user's name, without a password",
        "discord-client-id": CLIENT_ID,
        "discord-client-secret": UNLIKE,
        "generic-api-key": ENTROPY,
        "jwt": UNLIKE,
        "jwt-base64": "encoded text",
        "kraken-access-token": "slashes, which are much more often a path",
        "launchdarkly-access-token": UNLIKE,
        "linkedin-client-id": CLIENT_ID,
        "sidekiq-secret": RARE,
        "sonar-api-token": ENTROPY,
        "sumologic-access-id": CLIENT_ID,
        "telegram-bot-api-token": UNLIKE,
        "twitter-bearer-token": RARE,
        "vault-service-token": ENTROPY,
        "yandex-access-token": RARE,
    },
    "detect-secrets": {
        "Artifactory Credentials": "AP and ten letters, which are mostly a word",
        "SoftLayer Credentials": RARE,
        "Telegram Bot Token": UNLIKE,
        "Twilio API Key": "an account's id, which is no secret",
    },
}

HARMLESS, HARMLESS_BUT_MASKED = 198, 77
"""How many texts gitleaks calls harmless, and how many of those a rule here may mask all the same. Most are
placeholders: a key with `xxxx` has a key's form, and its entropy is not measured."""


@pytest.fixture(scope="module", params=SCANNERS)
def compared_rules(request: pytest.FixtureRequest) -> tuple[str, list[ScannerRule]]:
    return request.param, compare(request.param)


def test_each_rule_of_a_scanner_has_its_secrets_found_or_a_reason(
    compared_rules: tuple[str, list[ScannerRule]],
) -> None:
    scanner, rules = compared_rules
    assert {rule.name for rule in rules if rule.found < rule.secrets} == set(NOT_FOUND[scanner])


def test_not_more_of_what_is_no_secret_for_a_scanner_is_masked_than_known() -> None:
    rules = compare("gitleaks")
    assert sum(rule.masked for rule in rules) <= HARMLESS_BUT_MASKED
    assert sum(rule.harmless for rule in rules) == HARMLESS
