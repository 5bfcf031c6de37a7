"""Made-up secrets of every known form: well-formed, different each time, and belonging to nobody."""

import random
import string
from collections.abc import Callable
from dataclasses import dataclass

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD, HEX, BASE64URL = LOWER + UPPER + DIGITS, DIGITS + "abcdef", LOWER + UPPER + DIGITS + "_-"
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


def plant(rule: str, chance: random.Random) -> Planted:
    """A secret that this rule finds."""
    return _SHAPES[rule](chance)


def draw(chance: random.Random, alphabet: str, count: int) -> str:
    """Characters of a secret: letters at both ends, and a digit among them."""
    inside = "".join(chance.choices(alphabet, k=count - 3))
    letters = [one for one in alphabet if one.isalpha()]
    return chance.choice(letters) + "7" + inside + chance.choice(letters)


def _token(prefix: str, alphabet: str, count: int, *, before: str = "", after: str = "") -> Callable[..., Planted]:
    return lambda chance: Planted(prefix + draw(chance, alphabet, count), before, after)


def _key_lines(chance: random.Random, count: int) -> str:
    return "".join("\n" + draw(chance, BASE64, 64) for _ in range(count))


def _private_key(chance: random.Random) -> Planted:
    kind = chance.choice(("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "))
    body = _key_lines(chance, chance.randint(3, 30)) + "\n" + draw(chance, BASE64, 30)
    return Planted(f"-----BEGIN {kind}PRIVATE KEY-----{body}==\n-----END {kind}PRIVATE KEY-----")


def _cut_off(chance: random.Random) -> Planted:
    return Planted(f"-----BEGIN PRIVATE KEY-----{_key_lines(chance, 5)}", after="\n...")


def _web_token(chance: random.Random) -> Planted:
    return Planted(f"eyJ{draw(chance, BASE64URL, 30)}.eyJ{draw(chance, BASE64URL, 120)}.{draw(chance, BASE64URL, 43)}")


_SHAPES: dict[str, Callable[[random.Random], Planted]] = {
    "OpenAI API key of a named project": lambda chance: Planted(
        f"sk-my-project-{draw(chance, BASE64URL, 30)}T3BlbkFJ{draw(chance, BASE64URL, 40)}"
    ),
    "Anthropic API key": _token("sk-ant-api03-", BASE64URL, 95),
    "OpenAI API key": _token("sk-proj-", BASE64URL, 140),
    "OpenAI API key, older; DeepSeek, Moonshot and others": _token("sk-", WORD, 48),
    "OpenRouter API key": _token("sk-or-v1-", HEX, 64),
    "Groq API key": _token("gsk_", WORD, 52),
    "Hugging Face token": _token("hf_", WORD, 34),
    "NVIDIA API key": _token("nvapi-", BASE64URL, 64),
    "Perplexity API key": _token("pplx-", WORD, 48),
    "Replicate API token": _token("r8_", WORD, 37),
    "xAI API key": _token("xai-", WORD, 80),
    "LangSmith API key": _token("lsv2_pt_", HEX, 43),
    "GitHub token": _token("ghp_", WORD, 36),
    "GitHub fine-grained token": _token("github_pat_", WORD + "_", 82),
    "GitLab token": _token("glpat-", BASE64URL, 20),
    "npm token": _token("npm_", WORD, 36),
    "npm token of a private registry": _token("", BASE64URL, 36, before="//npm.example.com/:_authToken="),
    "GitLab session cookie": _token("", LOWER + DIGITS, 32, before="Cookie: _gitlab_session="),
    "PyPI token": _token("pypi-AgEIcHlwaS5vcmc", BASE64URL, 150),
    "RubyGems key": _token("rubygems_", HEX, 48),
    "Docker Hub token": _token("dckr_pat_", BASE64URL, 27),
    "Postman API key": lambda chance: Planted(f"PMAK-{draw(chance, HEX, 24)}-{draw(chance, HEX, 34)}"),
    "Linear API key": _token("lin_api_", WORD, 40),
    "Notion token": _token("ntn_", WORD, 46),
    "Figma token": _token("figd_", BASE64URL, 40),
    "Atlassian API token": _token("ATATT3", BASE64URL, 186),
    "Sentry token": _token("sntrys_", BASE64, 150),
    "Grafana token": _token("glsa_", WORD, 41),
    "Grafana API key, older": _token("eyJrIjoi", WORD, 90),
    "New Relic key": _token("NRAK-", UPPER + DIGITS, 27),
    "1Password service account token": _token("ops_eyJ", BASE64, 300),
    "1Password secret key": lambda chance: Planted(
        "-".join(
            [
                "A3",
                draw(chance, UPPER, 6),
                draw(chance, UPPER, 11),
                *(draw(chance, UPPER, 5) for _ in range(3)),
            ]
        )
    ),
    "Artifactory API key": _token("AKCp", WORD, 69),
    "Artifactory reference token": _token("cmVmd", WORD, 59),
    "Clojars token": _token("CLOJARS_", LOWER + DIGITS, 60),
    "Doppler token": _token("dp.pt.", WORD, 43),
    "Harness personal token": lambda chance: Planted(
        f"pat.{draw(chance, BASE64URL, 22)}.{draw(chance, WORD, 24)}.{draw(chance, WORD, 20)}"
    ),
    "Harness service account token": lambda chance: Planted(
        f"sat.{draw(chance, BASE64URL, 22)}.{draw(chance, WORD, 24)}.{draw(chance, WORD, 20)}"
    ),
    "Infracost API token": _token("ico-", WORD, 32),
    "Octopus Deploy API key": _token("API-", UPPER + DIGITS, 26),
    "Prefect API token": _token("pnu_", WORD, 36),
    "Pulumi token": _token("pul-", HEX, 40),
    "ReadMe API token": _token("rdme_", LOWER + DIGITS, 70),
    "Sourcegraph token": _token("sgp_", HEX, 40),
    "AWS access key id": _token("AKIA", UPPER + DIGITS, 16),
    "AWS secret access key, after its name": _token("", BASE64, 40, before="AWS_SECRET_ACCESS_KEY="),
    "AWS session token, after its name": _token("", BASE64, 300, before='"SessionToken": "', after='"'),
    "Amazon Bedrock API key": _token("ABSK", BASE64, 128),
    "Alibaba Cloud access key id": _token("LTAI", WORD, 20),
    "Cloudflare origin CA key": lambda chance: Planted(f"v1.0-{draw(chance, HEX, 24)}-{draw(chance, HEX, 146)}"),
    "Dynatrace token": lambda chance: Planted(f"dt0c01.{draw(chance, UPPER, 24)}.{draw(chance, UPPER, 64)}"),
    "Heroku API key": _token("HRKU-AA", BASE64URL, 58),
    "OpenShift token": _token("sha256~", BASE64URL, 43),
    "Scalingo token": _token("tk-us-", BASE64URL, 48),
    "Terraform Cloud token": lambda chance: Planted(f"{draw(chance, WORD, 14)}.atlasv1.{draw(chance, BASE64URL, 67)}"),
    "Authress access key": lambda chance: Planted(
        f"sc_{draw(chance, WORD, 20)}.{draw(chance, WORD, 5)}"
        f".acc_{draw(chance, WORD, 16)}.{draw(chance, BASE64URL, 60)}"
    ),
    "Google API key": _token("AIza", BASE64URL, 35),
    "Google OAuth access token": _token("ya29.", BASE64URL, 200),
    "Google OAuth client secret": _token("GOCSPX-", BASE64URL, 28),
    "Google OAuth refresh token": _token("1//0", BASE64URL, 100),
    "Azure storage and service keys": lambda chance: Planted(draw(chance, BASE64, 86) + "==", "AccountKey=", ";"),
    "Azure AD client secret": lambda chance: Planted(f"{draw(chance, WORD, 3)}8Q~{draw(chance, WORD, 34)}"),
    "DigitalOcean token": _token("dop_v1_", HEX, 64),
    "Databricks token": _token("dapi", HEX, 32),
    "HashiCorp Vault token": _token("hvs.", BASE64URL, 95),
    "Supabase key": _token("sbp_", HEX, 40),
    "PlanetScale token": _token("pscale_tkn_", WORD, 43),
    "Fly.io token": _token("fo1_", BASE64URL, 43),
    "Slack token": lambda chance: Planted(f"xoxb-{draw(chance, DIGITS + 'a', 12)}-{draw(chance, WORD, 24)}"),
    "Slack webhook": lambda chance: Planted(
        f"{draw(chance, UPPER, 9)}/{draw(chance, UPPER, 11)}/{draw(chance, WORD, 24)}",
        "https://hooks.slack.com/services/",
    ),
    "Discord webhook": _token("", BASE64URL, 68, before="https://discord.com/api/webhooks/1234567890123456789/"),
    "Discord bot token, in a text that names Discord or a bot": lambda chance: Planted(
        f"{draw(chance, WORD, 6)}.{draw(chance, BASE64URL, 38)}",
        f"Authorization: Bot M{draw(chance, WORD, 25)}.",
    ),
    "Telegram bot token": lambda chance: Planted(
        f"AA{draw(chance, BASE64URL, 33)}", f"{chance.randrange(10**8, 10**10)}:"
    ),
    "Microsoft Teams webhook": lambda chance: Planted(
        f"{draw(chance, HEX, 73)}/IncomingWebhook/{draw(chance, HEX, 32)}/{draw(chance, HEX, 36)}",
        "https://example.webhook.office.com/webhookb2/",
    ),
    "Facebook access token": _token("EAAM", WORD, 140),
    "Facebook app token, in a text that names Facebook": lambda chance: Planted(
        draw(chance, BASE64URL, 27), f"facebook {chance.randrange(10**14, 10**15)}|"
    ),
    "Stripe key": _token("sk_live_", WORD, 24),
    "Brevo API key": lambda chance: Planted(f"xkeysib-{draw(chance, HEX, 64)}-{draw(chance, WORD, 16)}"),
    "Duffel token": _token("duffel_live_", BASE64URL, 43),
    "EasyPost API key": _token("EZAK", WORD, 54),
    "Flutterwave key": lambda chance: Planted(f"FLWSECK_TEST-{draw(chance, HEX, 32)}-X"),
    "Frame.io token": _token("fio-u-", BASE64URL, 64),
    "Plaid token": _token("access-production-", HEX, 36),
    "SettleMint token": _token("sm_pat_", WORD, 16),
    "Shippo token": _token("shippo_live_", HEX, 40),
    "Typeform token": _token("tfp_", BASE64URL, 59),
    "42 API secret": _token("s-s4t2ud-", HEX, 64),
    "Adobe client secret": _token("p8e-", HEX, 32),
    "Defined Networking token": lambda chance: Planted(
        f"dnkey-{draw(chance, BASE64URL, 26)}-{draw(chance, BASE64URL, 52)}"
    ),
    "Yandex API key": _token("AQVN", BASE64URL, 35),
    "MaxMind license key": lambda chance: Planted(f"{draw(chance, WORD, 6)}_{draw(chance, WORD, 29)}_mmk"),
    "Mailchimp API key": lambda chance: Planted(f"{draw(chance, HEX, 32)}-us12"),
    "Stripe webhook secret": _token("whsec_", WORD, 32),
    "Square token": _token("sq0csp-", BASE64URL, 43),
    "Shopify token": _token("shpat_", HEX, 32),
    "Twilio API key": _token("SK", HEX, 32),
    "SendGrid API key": lambda chance: Planted(f"SG.{draw(chance, BASE64URL, 22)}.{draw(chance, BASE64URL, 43)}"),
    "Mailgun API key": _token("key-", HEX, 32),
    "JSON Web Token": _web_token,
    "age secret key": _token("AGE-SECRET-KEY-1", UPPER + DIGITS, 58),
    "private key (PEM, OpenSSH, PGP)": _private_key,
    "private key, cut off": _cut_off,
    "key, token or secret after a name that says so": lambda chance: Planted(
        f"7{draw(chance, WORD, 38)}", 'datadog_api_key = "', '"'
    ),
    "password in a curl command": _token("", WORD, 12, before="curl -s -u admin:", after=" https://example.com"),
    "Bearer token": _token("", BASE64URL + "._", 40, before="Authorization: Bearer "),
    "Basic and token authorization": _token("", BASE64, 24, before="Authorization: Basic "),
    "password in a URL": _token("", WORD, 12, before="postgres://admin:", after="@db.example.com/x"),
}
RULE_NAMES = tuple(_SHAPES)
