"""Made-up secrets of every known form: well-formed, different each time, and belonging to nobody."""

import random
import string
from collections.abc import Callable
from dataclasses import dataclass

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD, HEX, SAFE = LOWER + UPPER + DIGITS, DIGITS + "abcdef", LOWER + UPPER + DIGITS + "_-"
BASE64 = LOWER + UPPER + DIGITS + "+/"


@dataclass(frozen=True, slots=True)
class Planted:
    """A secret, with the text around it that makes it recognisable."""

    secret: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + self.secret + self.after


def planted(rule: str, chance: random.Random) -> Planted:
    """A secret that this rule finds."""
    return _SHAPES[rule](chance)


def some(chance: random.Random, alphabet: str, count: int) -> str:
    """Characters of a secret: letters at both ends, and a digit among them."""
    inside = "".join(chance.choices(alphabet, k=count - 3))
    letters = [one for one in alphabet if one.isalpha()]
    return chance.choice(letters) + "7" + inside + chance.choice(letters)


def _token(prefix: str, alphabet: str, count: int, *, before: str = "", after: str = "") -> Callable[..., Planted]:
    return lambda chance: Planted(prefix + some(chance, alphabet, count), before, after)


def _key_lines(chance: random.Random, count: int) -> str:
    return "".join("\n" + some(chance, BASE64, 64) for _ in range(count))


def _private_key(chance: random.Random) -> Planted:
    kind = chance.choice(("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "))
    body = _key_lines(chance, chance.randint(3, 30)) + "\n" + some(chance, BASE64, 30)
    return Planted(f"-----BEGIN {kind}PRIVATE KEY-----{body}==\n-----END {kind}PRIVATE KEY-----")


def _cut_off(chance: random.Random) -> Planted:
    return Planted(f"-----BEGIN PRIVATE KEY-----{_key_lines(chance, 5)}", after="\n...")


def _web_token(chance: random.Random) -> Planted:
    return Planted(f"eyJ{some(chance, SAFE, 30)}.eyJ{some(chance, SAFE, 120)}.{some(chance, SAFE, 43)}")


_SHAPES: dict[str, Callable[[random.Random], Planted]] = {
    "Anthropic API key": _token("sk-ant-api03-", SAFE, 95),
    "OpenAI API key": _token("sk-proj-", SAFE, 140),
    "OpenAI API key, older; DeepSeek, Moonshot and others": _token("sk-", WORD, 48),
    "OpenRouter API key": _token("sk-or-v1-", HEX, 64),
    "Groq API key": _token("gsk_", WORD, 52),
    "Hugging Face token": _token("hf_", WORD, 34),
    "NVIDIA API key": _token("nvapi-", SAFE, 64),
    "Perplexity API key": _token("pplx-", WORD, 48),
    "Replicate API token": _token("r8_", WORD, 37),
    "xAI API key": _token("xai-", WORD, 80),
    "LangSmith API key": _token("lsv2_pt_", HEX, 43),
    "GitHub token": _token("ghp_", WORD, 36),
    "GitHub fine-grained token": _token("github_pat_", WORD + "_", 82),
    "GitLab token": _token("glpat-", SAFE, 20),
    "npm token": _token("npm_", WORD, 36),
    "PyPI token": _token("pypi-AgEIcHlwaS5vcmc", SAFE, 150),
    "RubyGems key": _token("rubygems_", HEX, 48),
    "Docker Hub token": _token("dckr_pat_", SAFE, 27),
    "Postman API key": lambda chance: Planted(f"PMAK-{some(chance, HEX, 24)}-{some(chance, HEX, 34)}"),
    "Linear API key": _token("lin_api_", WORD, 40),
    "Notion token": _token("ntn_", WORD, 46),
    "Figma token": _token("figd_", SAFE, 40),
    "Atlassian API token": _token("ATATT3", SAFE, 186),
    "Sentry token": _token("sntrys_", BASE64, 150),
    "Grafana token": _token("glsa_", WORD, 41),
    "New Relic key": _token("NRAK-", UPPER + DIGITS, 27),
    "AWS access key id": _token("AKIA", UPPER + DIGITS, 16),
    "AWS secret access key, behind its name": _token("", BASE64, 40, before="AWS_SECRET_ACCESS_KEY="),
    "AWS session token, behind its name": _token("", BASE64, 300, before='"SessionToken": "', after='"'),
    "Google API key": _token("AIza", SAFE, 35),
    "Google OAuth access token": _token("ya29.", SAFE, 200),
    "Google OAuth client secret": _token("GOCSPX-", SAFE, 28),
    "Google OAuth refresh token": _token("1//0", SAFE, 100),
    "Azure storage and service keys": lambda chance: Planted(some(chance, BASE64, 86) + "==", "AccountKey=", ";"),
    "Azure AD client secret": lambda chance: Planted(f"{some(chance, WORD, 3)}8Q~{some(chance, WORD, 34)}"),
    "DigitalOcean token": _token("dop_v1_", HEX, 64),
    "Databricks token": _token("dapi", HEX, 32),
    "HashiCorp Vault token": _token("hvs.", SAFE, 95),
    "Supabase key": _token("sbp_", HEX, 40),
    "PlanetScale token": _token("pscale_tkn_", WORD, 43),
    "Fly.io token": _token("fo1_", SAFE, 43),
    "Slack token": lambda chance: Planted(f"xoxb-{some(chance, DIGITS + 'a', 12)}-{some(chance, WORD, 24)}"),
    "Slack webhook": lambda chance: Planted(
        f"{some(chance, UPPER, 9)}/{some(chance, UPPER, 11)}/{some(chance, WORD, 24)}",
        "https://hooks.slack.com/services/",
    ),
    "Discord webhook": _token("", SAFE, 68, before="https://discord.com/api/webhooks/1234567890123456789/"),
    "Discord bot token, in a text that names Discord or a bot": lambda chance: Planted(
        f"{some(chance, WORD, 6)}.{some(chance, SAFE, 38)}", f"DISCORD_TOKEN=M{some(chance, WORD, 25)}."
    ),
    "Telegram bot token": lambda chance: Planted(f"AA{some(chance, SAFE, 33)}", f"{chance.randrange(10**8, 10**10)}:"),
    "Stripe key": _token("sk_live_", WORD, 24),
    "Stripe webhook secret": _token("whsec_", WORD, 32),
    "Square token": _token("sq0csp-", SAFE, 43),
    "Shopify token": _token("shpat_", HEX, 32),
    "Twilio API key": _token("SK", HEX, 32),
    "SendGrid API key": lambda chance: Planted(f"SG.{some(chance, SAFE, 22)}.{some(chance, SAFE, 43)}"),
    "Mailgun API key": _token("key-", HEX, 32),
    "JSON Web Token": _web_token,
    "age secret key": _token("AGE-SECRET-KEY-1", UPPER + DIGITS, 58),
    "private key (PEM, OpenSSH, PGP)": _private_key,
    "private key, cut off": _cut_off,
    "Bearer token": _token("", SAFE + "._", 40, before="Authorization: Bearer "),
    "Basic and token authorization": _token("", BASE64, 24, before="Authorization: Basic "),
    "password in a URL": _token("", WORD, 12, before="postgres://admin:", after="@db.example.com/x"),
}
RULES = tuple(_SHAPES)
