"""The known forms of secrets, in one table; docs/redaction.md shows it too.

Sources: each provider's documentation of its keys, and the rules of gitleaks 8.30 (MIT, `gitleaks-license.txt`
beside this file) and detect-secrets 1.5 (Apache-2.0); docs/redaction.md says how they compare. Every pattern takes
linear time for any text: repetitions are bounded or possessive, and if something must follow them, no other match can
begin inside. A rule is tried only if the text contains one of its ``literals``. These contain no quotes or backslashes,
so they appear in the line's bytes either plainly or as escapes.
"""

import re
from dataclasses import dataclass

from acp_proxy.redaction.masks import CUT_OFF, MASK_START

LONG_RUN_PATTERN = re.compile(rb"[A-Za-z0-9+/=_.~:-]{16,}+")
"""Most secrets are long words of these characters; other texts have few of them."""
BEFORE_LENGTH = 100
"""Characters in front of a match in which ``SecretRule.preceding`` is looked for: room for the name of a setting."""
LONGEST_SECRET = 32 * 1024
"""Characters of the longest secret that a rule of this table finds completely."""


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A form of secret.

    ``name``: for the user. ``literals``: one of these must be in the text. ``group``: the part of the match to mask.
    ``mask_start``: the beginning of the mask. ``is_one_run``: the match lies in one run (``LONG_RUN_PATTERN``), which
    contains the literal. ``ignores_case``: the literals are in lower case, the text may be in any. ``preceding``: what
    must end where the match begins, in at most ``BEFORE_LENGTH`` characters. Names are frequent and values with the
    form of a secret are rare, so the value is searched for and then its name. ``is_users_pattern``: a pattern of the
    user, tried on every text.
    """

    name: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0
    mask_start: str = MASK_START
    is_one_run: bool = False
    ignores_case: bool = False
    preceding: re.Pattern[str] | None = None
    is_users_pattern: bool = False


def compile_patterns(patterns: list[str]) -> list[SecretRule]:
    """Rules for the user's patterns, which must be valid; the whole match is masked."""
    return [
        SecretRule(f"own pattern {number}", (), re.compile(text), is_users_pattern=True)
        for number, text in enumerate(patterns, 1)
    ]


_WORD = "[A-Za-z0-9]"
_BASE64URL = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_ASSIGNMENT = r"""\\{0,2}["']?\s{0,4}(?:=>|:=|[:=])\s{0,4}\\{0,2}["']?"""
"""Between a name and its value, in any language: for a rule whose pattern has the whole name, or the value's form."""
_KEY_START = r"----[- ]BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?[- ]----"
_KEY_END = r"----[- ]END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?[- ]----"
_KEY_BODY = r"(?:[^\[-]|-(?!---))"
_KEY_START_OR_MASK = rf"(?:{_KEY_START}|{re.escape(CUT_OFF)}\**+[A-Za-z0-9+/=]{{0,76}}+)"


def make_token_rule(name: str, prefix: str, body: str, *, literals: tuple[str, ...] = ()) -> SecretRule:
    """A token that begins with ``prefix``, not preceded by a letter or a digit, and goes on with ``body``: both are
    regular expressions. ``literals``: as ``SecretRule.literals``: one of them must be in the text, at its beginning or
    elsewhere in the token; none: ``prefix``, which is plain then.
    """
    # A plain beginning comes first in the pattern, because ``re`` searches for it quickly.
    start = f"(?<!{_WORD}){prefix}" if "(" in prefix or "[" in prefix else f"{prefix}(?<!{_WORD}{prefix})"
    return SecretRule(name, literals or (prefix,), re.compile(start + body), is_one_run=True)


def make_named_rule(name: str, pattern: str, literals: tuple[str, ...], *, ignores_case: bool = False) -> SecretRule:
    """A secret that only the preceding text identifies: the group of the ``pattern`` is the secret."""
    return SecretRule(name, literals, re.compile(pattern), 1, ignores_case=ignores_case)


_SERVICES = (
    r"adafruit|adobe|airtable|algolia|alibaba|artifactory|asana|atlassian|beamer|bintray|bitbucket|"
    r"bittrex|clickhouse|cloudant|cloudflare|codecov|cohere|coinbase|confluence|confluent|contentful|"
    r"datadog|discord|droneci|dropbox|etsy|facebook|fastly|finicity|finnhub|flickr|freshbooks|gitter|"
    r"gocardless|heroku|hubspot|ibm|intercom|jfrog|xray|jira|kraken|kucoin|launchdarkly|linear|"
    r"linked[_-]?in|\b(?:lob)|looker|mailchimp|mailgun|mapbox|mattermost|meraki|message[_-]?bird|netlify|"
    r"new[_-]?relic|nytimes|okta|plaid|private[_-]?ai|rapidapi|sendbird|sentry|snyk|softlayer|sonar|"
    r"squarespace|sumo|telegr|travis|twitch|twitter|typeform|vault|yandex|zendesk"
)
"""Services by whose name before it a secret is known, such as ``CODECOV_TOKEN=…``. Some have a row in ``RULES``, too,
for keys with a form of their own. A service stays here when it gets one, since it may have other keys."""
_CREDENTIALS = ("key", "token", "secret", "passw", "auth", "cred")
"""What names of credentials contain."""
_ANY_ASSIGNMENT = r"""(?:(?:=>|:{1,3}=|\?=|\.=|\|\||[=:>])[\s"'`=\\]{0,8}+|,\s{0,2}["'])"""
"""As ``_ASSIGNMENT``, and whatever else may stand there, such as ``||`` or the comma between arguments. It begins with
its sign, since the name is in front of the match (``SecretRule.preceding``). It fits many texts without a secret, so it
is for a rule that also looks at the value (``_SECRET_VALUE``)."""
_SECRET_VALUE = (
    r"(?=(?:[A-Za-z_.-]{0,150}+[0-9]++){2})"
    r"((?:[A-Za-z0-9]{1,3}\.)?[A-Za-z0-9_-]{15,150}+(?:\.[A-Za-z0-9_-]{15,150}+)?={0,2})(?![\w(\[/:@%+]|\.\w)"
)
"""It has two groups of digits, or it is a word, a name or an example. What follows must not make it a path, a call or
the like."""

# A secret is called after one rule. Of overlapping matches that is the one that begins first; of those, the longest;
# and of rules that match the same text, the earlier row here. The headings say where a row belongs: a new one goes to
# the end of the first that fits.
RULES: tuple[SecretRule, ...] = (
    # models: what answers prompts, and what watches over it
    make_token_rule(
        "OpenAI API key of a named project",
        "sk-",
        _BASE64URL + "{20,150}?T3BlbkFJ" + _BASE64URL + "{20,100}",
        literals=("T3BlbkFJ",),
    ),
    make_token_rule("Anthropic API key", "sk-ant-", _BASE64URL + "{20,300}"),
    make_token_rule(
        "OpenAI API key",
        "sk-(?:proj|svcacct|admin|None)-",
        _BASE64URL + "{20,300}",
        literals=("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
    ),
    make_token_rule("OpenAI API key, older; DeepSeek, Moonshot and others", "sk-", _WORD + "{32,100}"),
    make_token_rule("OpenRouter API key", "sk-or-v1-", _HEX + "{64}"),
    make_token_rule("Groq API key", "gsk_", _WORD + "{40,100}"),
    make_token_rule("Hugging Face token", "(?:hf_|api_org_)", _WORD + "{30,100}", literals=("hf_", "api_org_")),
    make_token_rule("NVIDIA API key", "nvapi-", _BASE64URL + "{40,100}"),
    make_token_rule("Perplexity API key", "pplx-", _WORD + "{40,100}"),
    make_token_rule("Replicate API token", "r8_", _WORD + "{37,60}"),
    make_token_rule("xAI API key", "xai-", _WORD + "{60,120}"),
    make_token_rule("LangSmith API key", "lsv2_(?:pt|sk)_", "[0-9a-f_]{32,60}", literals=("lsv2_",)),
    # work on software: repositories, packages, builds, tickets, designs, monitoring, and where teams keep secrets
    make_token_rule(
        "GitHub token", "gh[pousr]_", "[A-Za-z0-9_]{36,255}", literals=("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
    ),
    make_token_rule("GitHub fine-grained token", "github_pat_", "[A-Za-z0-9_]{36,255}"),
    make_token_rule(
        "GitLab token",
        "(?:gl(?:pat|dt|rt|cbt|ptt|ft|agent|soat|ffct|imt|oas)-|GR1348941)",
        _BASE64URL + r"{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
        literals=(
            "glpat-",
            "gldt-",
            "glrt-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glagent-",
            "glsoat-",
            "glffct-",
            "glimt-",
            "gloas-",
            "GR1348941",
        ),
    ),
    make_token_rule("npm token", "npm_", _WORD + "{36,100}"),
    make_named_rule(
        "npm token of a private registry", r":_authToken=\s{0,4}[\"']?([A-Za-z0-9_=+/.-]{16,2000}+)", (":_authToken=",)
    ),
    make_named_rule("GitLab session cookie", "_gitlab_session=([0-9a-z]{32})", ("_gitlab_session=",)),
    make_token_rule("PyPI token", "pypi-AgE", _BASE64URL + "{50,1000}"),
    make_token_rule("RubyGems key", "rubygems_", _HEX + "{48}"),
    make_token_rule(
        "Docker Hub token", "dckr_(?:pat|oat)_", _BASE64URL + "{20,100}", literals=("dckr_pat_", "dckr_oat_")
    ),
    make_token_rule("Postman API key", "PMAK-", "[0-9a-f-]{40,80}"),
    make_token_rule("Linear API key", "lin_(?:api|oauth)_", _WORD + "{32,100}", literals=("lin_api_", "lin_oauth_")),
    make_token_rule("Notion token", "ntn_", _WORD + "{40,100}"),
    make_token_rule("Figma token", "figd_", _BASE64URL + "{30,100}"),
    make_token_rule("Atlassian API token", "ATATT3", "[A-Za-z0-9_=-]{80,300}"),
    make_token_rule("Sentry token", "sntry[su]_", "[A-Za-z0-9_+/=-]{40,500}", literals=("sntrys_", "sntryu_")),
    make_token_rule("Grafana token", "(?:glsa_|glc_)", "[A-Za-z0-9_+/=-]{32,500}", literals=("glsa_", "glc_")),
    SecretRule(
        "Grafana API key, older",
        ("eyJrIjoi",),
        re.compile(rf"(?<!{_BASE64URL})eyJrIjoi[A-Za-z0-9]{{70,400}}"),
        is_one_run=True,
    ),
    make_token_rule(
        "New Relic key",
        "(?:NRAK-|NRJS-|NRII-)",
        "[A-Za-z0-9-]{19,32}(?![A-Za-z0-9-])",
        literals=("NRAK-", "NRJS-", "NRII-"),
    ),
    make_token_rule("1Password service account token", "ops_eyJ", "[A-Za-z0-9+/]{200,2000}={0,3}"),
    make_token_rule(
        "1Password secret key", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"
    ),
    make_token_rule("Artifactory API key", "AKCp", _WORD + "{60,90}(?![A-Za-z0-9])"),
    make_token_rule("Artifactory reference token", "cmVmd", _WORD + "{59}(?![A-Za-z0-9])"),
    make_token_rule("Clojars token", "CLOJARS_", "[A-Za-z0-9]{60}"),
    make_token_rule("Doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", "[A-Za-z0-9._-]{40,80}", literals=("dp.",)),
    make_token_rule(
        "Harness personal token", r"pat\.", _BASE64URL + rf"{{22}}\.{_WORD}{{24}}\.{_WORD}{{20}}", literals=("pat.",)
    ),
    make_token_rule(
        "Harness service account token",
        r"sat\.",
        _BASE64URL + rf"{{22}}\.{_WORD}{{24}}\.{_WORD}{{20}}",
        literals=("sat.",),
    ),
    make_token_rule("Infracost API token", "ico-", _WORD + "{32}(?![A-Za-z0-9-])"),
    make_token_rule("Octopus Deploy API key", "API-", "[A-Z0-9]{26,32}(?![A-Za-z0-9-])"),
    make_token_rule("Prefect API token", "pnu_", _WORD + "{36}(?![A-Za-z0-9])"),
    make_token_rule("Pulumi token", "pul-", _HEX + "{40}(?![A-Za-z0-9])"),
    make_token_rule("ReadMe API token", "rdme_", "[a-z0-9]{70}"),
    make_token_rule("Sourcegraph token", "sgp_", "(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}(?![A-Za-z0-9])"),
    # clouds: computers, storage, databases, and who may use them
    make_token_rule(
        "AWS access key id",
        "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])",
        "[A-Z0-9]{16}(?![A-Za-z0-9])",
        literals=("AKIA", "ASIA", "ABIA", "ACCA", "A3T"),
    ),
    make_named_rule(
        "AWS secret access key, after its name",
        rf"(?i:secret_?access_?key|aws_?secret_?key){_ASSIGNMENT}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        ("secret_access_key", "secretaccess", "secret_accesskey", "aws_secret_key", "awssecretkey"),
        ignores_case=True,
    ),
    make_named_rule(
        "AWS session token, after its name",
        rf"(?i:session_?token){_ASSIGNMENT}([A-Za-z0-9/+=]{{100,4096}}+)",
        ("session_token", "sessiontoken"),
        ignores_case=True,
    ),
    make_token_rule(
        "Amazon Bedrock API key",
        "(?:ABSK|bedrock-api-key-)",
        "[A-Za-z0-9+/]{28,2000}={0,2}",
        literals=("ABSK", "bedrock-api-key-"),
    ),
    make_token_rule("Alibaba Cloud access key id", "LTAI", _WORD + "{20}(?![A-Za-z0-9])"),
    make_token_rule("Cloudflare origin CA key", r"v1\.0-", _HEX + "{24}-" + _HEX + "{146}", literals=("v1.0-",)),
    make_token_rule("Dynatrace token", r"dt0c01\.", rf"{_WORD}{{24}}\.{_WORD}{{64}}", literals=("dt0c01.",)),
    make_token_rule("Heroku API key", "HRKU-AA", _BASE64URL + "{58}"),
    make_token_rule("OpenShift token", "sha256~", _BASE64URL + "{43}(?![A-Za-z0-9_-])"),
    make_token_rule("Scalingo token", "tk-us-", _BASE64URL + "{48}"),
    SecretRule(
        "Terraform Cloud token",
        (".atlasv1.",),
        re.compile(rf"(?<!{_WORD}){_WORD}{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,70}}"),
        is_one_run=True,
    ),
    SecretRule(
        "Authress access key",
        (".acc_", ".acc-"),
        re.compile(
            rf"(?<!{_WORD})(?:sc|ext|scauth|authress)_{_WORD}{{5,30}}\.{_WORD}{{4,6}}"
            r"\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}"
        ),
        is_one_run=True,
    ),
    make_token_rule("Google API key", "AIza", _BASE64URL + "{35}(?![A-Za-z0-9_-])"),
    make_token_rule("Google OAuth access token", r"ya29\.", _BASE64URL + "{20,2048}", literals=("ya29.",)),
    make_token_rule("Google OAuth client secret", "GOCSPX-", _BASE64URL + "{28,40}"),
    make_token_rule("Google OAuth refresh token", "1//0", _BASE64URL + "{30,200}"),
    make_named_rule(
        "Azure storage and service keys",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
        ("AccountKey=", "SharedAccessKey="),
    ),
    SecretRule(
        "Azure AD client secret",
        ("Q~",),
        re.compile(r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
        is_one_run=True,
    ),
    make_token_rule("DigitalOcean token", "do[opr]_v1_", _HEX + "{64}", literals=("doo_v1_", "dop_v1_", "dor_v1_")),
    make_token_rule("Databricks token", "dapi", _HEX + "{32}(?:-[0-9])?"),
    make_token_rule("HashiCorp Vault token", r"hv[sbr]\.", _BASE64URL + "{24,300}", literals=("hvs.", "hvb.", "hvr.")),
    make_token_rule("Supabase key", "(?:sbp_|sb_secret_)", "[A-Za-z0-9_]{30,100}", literals=("sbp_", "sb_secret_")),
    make_token_rule("PlanetScale token", "pscale_(?:tkn|pw|oauth)_", "[A-Za-z0-9_=.-]{32,100}", literals=("pscale_",)),
    make_token_rule(
        "Fly.io token", "(?:fo1_|fm[12][ar]?_)", "[A-Za-z0-9_+/=-]{40,2000}", literals=("fo1_", "fm1", "fm2")
    ),
    # services on the web: messages, payments, parcels, forms, maps, and what fits nowhere else
    make_token_rule(
        "Slack token", r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-", "[A-Za-z0-9-]{12,300}", literals=("xox", "xapp-")
    ),
    make_named_rule(
        "Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{30,200})", ("slack.com/",)
    ),
    make_named_rule("Discord webhook", r"/api/webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{60,100})", ("/api/webhooks/",)),
    make_named_rule(
        "Discord bot token, in a text that names Discord or a bot",
        r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{23,27}\.([A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45})",
        ("discord", "bot ", "bot_token"),
        ignores_case=True,
    ),
    make_named_rule("Telegram bot token", r"(?<![A-Za-z0-9])[0-9]{8,10}:(AA[A-Za-z0-9_-]{32,34})", (":AA",)),
    make_named_rule(
        "Microsoft Teams webhook",
        r"\.webhook\.office\.com/webhookb2/([A-Za-z0-9@-]{36,150}/IncomingWebhook/[A-Za-z0-9/-]{32,150})",
        ("/IncomingWebhook/",),
    ),
    make_token_rule("Facebook access token", "EAA[CM]", _WORD + "{100,400}", literals=("EAAM", "EAAC")),
    make_named_rule(
        "Facebook app token, in a text that names Facebook",
        r"(?<![0-9])[0-9]{15,16}(?:\||%7[Cc]|%)([A-Za-z0-9_-]{27,40})(?![A-Za-z0-9_-])",
        ("facebook",),
        ignores_case=True,
    ),
    make_token_rule(
        "Stripe key", "[sr]k_(?:live|test|prod)_", _WORD + "{10,250}", literals=("k_live_", "k_test_", "k_prod_")
    ),
    make_token_rule("Brevo API key", "xkeysib-", _HEX + "{64}-" + _WORD + "{16}"),
    make_token_rule("Duffel token", "duffel_(?:test|live)_", "[A-Za-z0-9_=-]{43}", literals=("duffel_",)),
    make_token_rule("EasyPost API key", "EZ[AT]K", _WORD + "{54}(?![A-Za-z0-9])", literals=("EZAK", "EZTK")),
    make_token_rule(
        "Flutterwave key",
        "FLW(?:SECK|PUBK)(?:_TEST)?-",
        "[A-Za-z0-9]{12,40}(?:-X)?",
        literals=("FLWSECK-", "FLWPUBK-", "FLWSECK_", "FLWPUBK_"),
    ),
    make_token_rule("Frame.io token", "fio-u-", "[A-Za-z0-9_=-]{64}"),
    make_token_rule(
        "Plaid token", "access-(?:sandbox|development|production)-", "[0-9a-f-]{36}", literals=("access-",)
    ),
    make_token_rule(
        "SettleMint token", "sm_[aps]at_", _WORD + "{16}(?![A-Za-z0-9])", literals=("sm_aat_", "sm_pat_", "sm_sat_")
    ),
    make_token_rule("Shippo token", "shippo_(?:live|test)_", "[a-fA-F0-9]{40}", literals=("shippo_",)),
    make_token_rule("Typeform token", "tfp_", "[A-Za-z0-9_.=-]{40,80}"),
    make_token_rule("42 API secret", "s-s4t2(?:ud|af)-", _HEX + "{64}", literals=("s-s4t2",)),
    make_token_rule("Adobe client secret", "p8e-", _WORD + "{32}(?![A-Za-z0-9])"),
    make_token_rule("Defined Networking token", "dnkey-", "[A-Za-z0-9_=-]{40,120}"),
    make_token_rule("Yandex API key", "AQVN", _BASE64URL + "{35,38}(?![A-Za-z0-9_-])"),
    SecretRule(
        "MaxMind license key",
        ("_mmk",),
        re.compile(rf"(?<!{_WORD}){_WORD}{{6}}_{_WORD}{{29}}_mmk(?!{_WORD})"),
        is_one_run=True,
    ),
    SecretRule(
        "Mailchimp API key",
        tuple(f"-us{number}" for number in range(1, 10)),
        re.compile(rf"(?<!{_WORD})[0-9a-f]{{32}}-us[0-9]{{1,2}}(?![0-9])"),
        is_one_run=True,
    ),
    make_token_rule("Stripe webhook secret", "whsec_", "[A-Za-z0-9+/=]{24,100}"),
    make_token_rule(
        "Square token", r"(?:EAAA|sq0[a-z]{3}-)", _BASE64URL + "{22,60}(?![A-Za-z0-9_+/=-])", literals=("EAAA", "sq0")
    ),
    make_token_rule(
        "Shopify token", "shp(?:at|ca|pa|ss)_", "[0-9a-fA-F]{32}", literals=("shpat_", "shpca_", "shppa_", "shpss_")
    ),
    make_token_rule("Twilio API key", "SK", _HEX + "{32}(?![A-Za-z0-9])"),
    make_token_rule("SendGrid API key", r"SG\.", _BASE64URL + r"{16,32}\." + _BASE64URL + "{16,64}", literals=("SG.",)),
    make_token_rule("Mailgun API key", "key-", _HEX + "{32}(?![A-Za-z0-9])"),
    # of no one service
    SecretRule(
        "JSON Web Token",
        ("eyJ",),
        re.compile(
            rf"(?<![A-Za-z0-9_-])eyJ{_BASE64URL}{{8,4000}}+\.eyJ{_BASE64URL}{{8,8000}}+\.{_BASE64URL}{{16,4000}}"
        ),
        is_one_run=True,
    ),
    make_token_rule("age secret key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    SecretRule(
        "private key (PEM, OpenSSH, PGP)",
        ("PRIVATE",),
        re.compile(rf"{_KEY_START}{_KEY_BODY}{{20,24000}}+{_KEY_END}"),
    ),
    SecretRule(
        "private key, cut off",
        ("PRIVATE", "private"),
        re.compile(
            rf"{_KEY_START_OR_MASK}(?:{_KEY_BODY}{{1,24000}}+{_KEY_END}|(?:[\s\\]{{0,8}}+[A-Za-z0-9+/=]{{16,4000}}+){{1,400}}+)"
        ),
        mask_start=CUT_OFF,
    ),
    SecretRule(
        "key, token or secret after a name that says so",
        _CREDENTIALS,
        re.compile(_ANY_ASSIGNMENT + _SECRET_VALUE),
        1,
        ignores_case=True,
        preceding=re.compile(
            rf"(?:(?i:{_SERVICES})[\w.-]{{0,20}}?(?i:{'|'.join(_CREDENTIALS)})"
            r"|(?i:api|access|auth|client|secret|private|bearer|refresh)[_-]?(?i:key|token|secret)"
            r"|(?i:authorization)"
            r"|(?<![A-Za-z0-9])[A-Z0-9_]{0,60}(?:TOKEN|KEY|SECRET|PASSWORD)(?![\w-]))"
            r"(?:[\w.-]|[ \t]\w){0,20}[\s\"'`\\]{0,4}\Z"
        ),
    ),
    make_named_rule(
        "password in a curl command",
        r"curl\b[^|;&<>]{0,400}?\s(?:-u|--user)[= ]?\s{0,3}[\"']?[\w.@+-]{0,64}:(?![$<{])([^\s\"'<>\\]{3,256}+)",
        ("curl",),
    ),
    make_named_rule(
        "Bearer token",
        r"(?:\b[Bb]earer|\bBEARER)\s{1,3}(?=[A-Za-z._~+/=-]{0,512}[0-9])([A-Za-z0-9._~+/=-]{16,4096}+)",
        ("bearer",),
        ignores_case=True,
    ),
    make_named_rule(
        "Basic and token authorization",
        rf"(?i:authorization){_ASSIGNMENT}(?i:basic|token)\s{{1,3}}([A-Za-z0-9._~+/=-]{{8,4096}}+)",
        ("authorization",),
        ignores_case=True,
    ),
    make_named_rule(
        "password in a URL", r"""://[^\s/?#:@"'<>\\]{0,128}+:(?![$<{])([^\s/?#"'<>\\]{1,256})@""", ("://",)
    ),
)
