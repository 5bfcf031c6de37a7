"""The known forms of secrets, in one table; docs/redaction.md shows it too.

Source: each provider's documentation of its keys. Every pattern takes linear time for any text: repetitions are bounded
or possessive, and if something must follow them, no other match can begin inside. A rule is tried only if the text
contains one of its ``literals``. These contain no quotes or backslashes, so they appear in the line's bytes either
plainly or as escapes.
"""

import re
from dataclasses import dataclass

MARK = "[redacted]"
RUNS = re.compile(rb"[A-Za-z0-9+/=_.~:-]{16,}+")
"""Most secrets are long words of these characters; other texts have few of them."""
CUT_OFF = "[redacted private key]"
"""The mask of a private key without its end: the next chunk still belongs to the key."""
LONGEST = 32 * 1024
"""Characters of the longest secret that a rule of this table finds completely."""


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A form of secret.

    ``name``: for the user. ``literals``: one of these must be in the text. ``group``: the part of the match to mask.
    ``mark``: the beginning of the mask. ``runs``: the match lies in one of ``RUNS``, which contains the literal.
    ``own``: a pattern of the user, tried on every text.
    """

    name: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0
    mark: str = MARK
    runs: bool = False
    own: bool = False


def own(patterns: list[str]) -> list[SecretRule]:
    """Rules for the user's patterns, which must be valid; the whole match is masked."""
    return [
        SecretRule(f"own pattern {number}", (), re.compile(text), own=True) for number, text in enumerate(patterns, 1)
    ]


_WORD = "[A-Za-z0-9]"
_SAFE = "[A-Za-z0-9_-]"  # the alphabet of base64url
_HEX = "[0-9a-f]"
_IS = r"""\\{0,2}["']?\s{0,4}(?:=>|:=|[:=])\s{0,4}\\{0,2}["']?"""  # between a name and its value, in any language
_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"(?:[^\[-]|-(?!----))"
_KEY_BEGINS = rf"(?:{_BEGIN}|{re.escape(CUT_OFF)}\**+[A-Za-z0-9+/=]{{0,76}}+)"


def _token(name: str, prefix: str, body: str, *literals: str) -> SecretRule:
    """A token with a known beginning, not preceded by a letter or a digit. A plain beginning comes first in the
    pattern, because ``re`` searches for it quickly.
    """
    begins = f"(?<!{_WORD}){prefix}" if "(" in prefix or "[" in prefix else f"{prefix}(?<!{_WORD}{prefix})"
    return SecretRule(name, literals or (prefix,), re.compile(begins + body), runs=True)


def _named(name: str, pattern: str, *literals: str) -> SecretRule:
    """A secret that only the preceding text identifies: the group is the secret."""
    return SecretRule(name, literals, re.compile(pattern), 1)


RULES: tuple[SecretRule, ...] = (
    # models
    _token("Anthropic API key", "sk-ant-", _SAFE + "{20,300}"),
    _token(
        *("OpenAI API key", "sk-(?:proj|svcacct|admin|None)-", _SAFE + "{20,300}"),
        *("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
    ),
    _token("OpenAI API key, older; DeepSeek, Moonshot and others", "sk-", _WORD + "{32,100}"),
    _token("OpenRouter API key", "sk-or-v1-", _HEX + "{64}"),
    _token("Groq API key", "gsk_", _WORD + "{40,100}"),
    _token("Hugging Face token", "(?:hf_|api_org_)", _WORD + "{30,100}", "hf_", "api_org_"),
    _token("NVIDIA API key", "nvapi-", _SAFE + "{40,100}"),
    _token("Perplexity API key", "pplx-", _WORD + "{40,100}"),
    _token("Replicate API token", "r8_", _WORD + "{37,60}"),
    _token("xAI API key", "xai-", _WORD + "{60,120}"),
    _token("LangSmith API key", "lsv2_(?:pt|sk)_", "[0-9a-f_]{32,60}", "lsv2_"),
    # code
    _token("GitHub token", "gh[pousr]_", "[A-Za-z0-9_]{36,255}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _token("GitHub fine-grained token", "github_pat_", "[A-Za-z0-9_]{36,255}"),
    _token(
        *("GitLab token", "gl(?:pat|dt|rt|cbt|ptt|ft|agent|soat)-"),
        _SAFE + r"{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
        *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glagent-", "glsoat-"),
    ),
    _token("npm token", "npm_", _WORD + "{36,100}"),
    _token("PyPI token", "pypi-AgE", _SAFE + "{50,1000}"),
    _token("RubyGems key", "rubygems_", _HEX + "{48}"),
    _token("Docker Hub token", "dckr_(?:pat|oat)_", _SAFE + "{20,100}", "dckr_pat_", "dckr_oat_"),
    _token("Postman API key", "PMAK-", "[0-9a-f-]{40,80}"),
    _token("Linear API key", "lin_(?:api|oauth)_", _WORD + "{32,100}", "lin_api_", "lin_oauth_"),
    _token("Notion token", "ntn_", _WORD + "{40,100}"),
    _token("Figma token", "figd_", _SAFE + "{30,100}"),
    _token("Atlassian API token", "ATATT3", "[A-Za-z0-9_=-]{80,300}"),
    _token("Sentry token", "sntry[su]_", "[A-Za-z0-9_+/=-]{40,500}", "sntrys_", "sntryu_"),
    _token("Grafana token", "(?:glsa_|glc_)", "[A-Za-z0-9_+/=-]{32,500}", "glsa_", "glc_"),
    _token("New Relic key", "NRAK-", "[A-Z0-9]{27}"),
    # clouds
    _token(
        *("AWS access key id", "(?:AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
        *("AKIA", "ASIA", "ABIA", "ACCA"),
    ),
    _named(
        "AWS secret access key, behind its name",
        rf"(?i:secret_?access_?key|aws_?secret_?key){_IS}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        *("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey", "ecretaccesskey", "ecretAccesskey"),
        *("aws_secret_key", "AWS_SECRET_KEY", "awsSecretKey"),
    ),
    _named(
        "AWS session token, behind its name",
        rf"(?i:session_?token){_IS}([A-Za-z0-9/+=]{{100,4096}}+)",
        *("ession_token", "ESSION_TOKEN", "essionToken"),
    ),
    _token("Google API key", "AIza", _SAFE + "{35}(?![A-Za-z0-9_-])"),
    _token("Google OAuth access token", r"ya29\.", _SAFE + "{20,2048}", "ya29."),
    _token("Google OAuth client secret", "GOCSPX-", _SAFE + "{28,40}"),
    _token("Google OAuth refresh token", "1//0", _SAFE + "{30,200}"),
    _named(
        "Azure storage and service keys",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
        *("AccountKey=", "SharedAccessKey="),
    ),
    SecretRule(
        "Azure AD client secret",
        ("Q~",),
        re.compile(r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
        runs=True,
    ),
    _token("DigitalOcean token", "do[opr]_v1_", _HEX + "{64}", "doo_v1_", "dop_v1_", "dor_v1_"),
    _token("Databricks token", "dapi", _HEX + "{32}(?:-[0-9])?"),
    _token("HashiCorp Vault token", r"hv[sbr]\.", _SAFE + "{24,300}", "hvs.", "hvb.", "hvr."),
    _token("Supabase key", "(?:sbp_|sb_secret_)", "[A-Za-z0-9_]{30,100}", "sbp_", "sb_secret_"),
    _token("PlanetScale token", "pscale_(?:tkn|pw|oauth)_", "[A-Za-z0-9_=.-]{32,100}", "pscale_"),
    _token("Fly.io token", "(?:fo1_|fm[12][ar]?_)", "[A-Za-z0-9_+/=-]{40,2000}", "fo1_", "fm1", "fm2"),
    # messages and payments
    _token("Slack token", r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-", "[A-Za-z0-9-]{12,300}", "xox", "xapp-"),
    _named(
        "Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{30,200})", "slack.com/"
    ),
    _named("Discord webhook", r"/api/webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{60,100})", "/api/webhooks/"),
    _named(
        "Discord bot token, in a text that names Discord or a bot",
        r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{23,27}\.([A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45})",
        *("iscord", "ISCORD", "Bot ", "BOT_TOKEN"),
    ),
    _named("Telegram bot token", r"(?<![A-Za-z0-9])[0-9]{8,10}:(AA[A-Za-z0-9_-]{32,34})", ":AA"),
    _token("Stripe key", "[sr]k_(?:live|test)_", _WORD + "{10,250}", "k_live_", "k_test_"),
    _token("Stripe webhook secret", "whsec_", "[A-Za-z0-9+/=]{24,100}"),
    _token("Square token", r"(?:EAAA|sq0[a-z]{3}-)", _SAFE + "{22,60}(?![A-Za-z0-9_+/=-])", "EAAA", "sq0"),
    _token("Shopify token", "shp(?:at|ca|pa|ss)_", "[0-9a-fA-F]{32}", "shpat_", "shpca_", "shppa_", "shpss_"),
    _token("Twilio API key", "SK", _HEX + "{32}(?![A-Za-z0-9])"),
    _token("SendGrid API key", r"SG\.", _SAFE + r"{16,32}\." + _SAFE + "{16,64}", "SG."),
    _token("Mailgun API key", "key-", _HEX + "{32}(?![A-Za-z0-9])"),
    # of any kind
    SecretRule(
        "JSON Web Token",
        ("eyJ",),
        re.compile(rf"(?<![A-Za-z0-9_-])eyJ{_SAFE}{{8,4000}}+\.eyJ{_SAFE}{{8,8000}}+\.{_SAFE}{{16,4000}}"),
        runs=True,
    ),
    _token("age secret key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    SecretRule(
        "private key (PEM, OpenSSH, PGP)",
        ("PRIVATE",),
        re.compile(rf"{_BEGIN}{_BODY}{{20,24000}}+{_END}"),
    ),
    SecretRule(
        "private key, cut off",
        ("PRIVATE", "private"),
        re.compile(
            rf"{_KEY_BEGINS}(?:{_BODY}{{1,24000}}+{_END}|(?:[\s\\]{{0,8}}+[A-Za-z0-9+/=]{{16,4000}}+){{1,400}}+)"
        ),
        mark=CUT_OFF,
    ),
    _named(
        "Bearer token",
        r"(?:\b[Bb]earer|\bBEARER)\s{1,3}(?=[A-Za-z._~+/=-]{0,512}[0-9])([A-Za-z0-9._~+/=-]{16,4096}+)",
        *("earer", "EARER"),
    ),
    _named(
        "Basic and token authorization",
        rf"(?i:authorization){_IS}(?i:basic|token)\s{{1,3}}([A-Za-z0-9._~+/=-]{{8,4096}}+)",
        *("uthorization", "UTHORIZATION"),
    ),
    _named(
        "password in a URL",
        r"""://[^\s/?#:@"'<>\\]{0,128}+:(?![$<{])([^\s/?#"'<>\\]{1,256})@""",
        "://",
    ),
)
