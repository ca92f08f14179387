r"""The shapes of secrets in text: known tokens, PEM blocks, URLs with a password, headers, `name=value`.

All patterns are linear in the length of the text: a name or a word is tried once, at its beginning. They are compiled
on first use; nearly all strings of a document are cleared by `SUSPECT`, which is cheap to compile and to run.
"""

from __future__ import annotations

import functools
import re

WORDS = "token|secret|pass|pwd|pswd|key|cred|auth|cookie|session|bearer|basic|jwt|sig|sas|psk|otp|login|wandb"
"""Parts of the names that `envsnap.secret_names` may call suspicious, and of the schemes of headers; lower case."""

# Grouped by the first letter: a flat list of the same alternatives takes three to four times as long.
_GITLAB = "gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|oas)-"
_SHAPE_CUES = (
    rf":aa|a(?:sia|kia|iza|pi_org_|ge-secret)|d(?:ckr_|api[0-9a-f]{{8}}|o[opr]_v1)|eyj|fw_[a-z0-9]{{20}}|{_GITLAB}"
    r"|g(?:h[oprsu]_|sk_|ocspx|ithub_pat)|h(?:f_[a-z0-9]{20}|v[sbr]\.|ooks\.sl)|jina_|l(?:ocal-[0-9a-f]{8}|sv2_)|ms-[0-9a-f]{8}|n(?:pm_|vapi-)"
    r"|p(?:k_live|k_test|ypi-|plx-)|r(?:8_|pa_|k_live|k_test)|s(?:k-|k_live|k_test|k[0-9a-f]{8}|g\.)|tgp_v1"
    r"|w(?:ebhooks/|andb_v1)|/bot|x(?:ox|app-|ai-)|ya29|csk-"
)

SUSPECT = re.compile(
    r"@|-----begin|:aa|a(?:uth|sia|kia|iza|pi_org_|ge-secret)|b(?:earer|asic)|c(?:red|ookie|ode=|sk-|url )"
    rf"|d(?:ckr_|api[0-9a-f]{{8}}|o[opr]_v1)|eyj|fw_[a-z0-9]{{20}}|{_GITLAB}|g(?:h[oprsu]_|sk_|ocspx|ithub_pat)"
    r"|h(?:f_[a-z0-9]{20}|v[sbr]\.|ooks\.sl)"
    r"|j(?:wt|ina_)|key|l(?:ogin|ocal-[0-9a-f]{8}|sv2_)|ms-[0-9a-f]{8}|n(?:pm_|vapi-)|otp"
    r"|p(?:ass|wd|swd|sk|k_live|k_test|ypi-|plx-)|r(?:8_|pa_|k_live|k_test)"
    r"|s(?:ecret|ession|ig|as|k-|k_live|k_test|k[0-9a-f]{8}|g\.)|t(?:oken|gp_v1)|w(?:andb|ebhooks/|get )|/bot"
    r"|x(?:ox|app-|ai-)|ya29"
)
"""What every string that holds a secret contains when it is lower-cased. It promises nothing more."""


@functools.cache
def shape_cues() -> re.Pattern[str]:
    """What a lower-cased string contains that holds one of `token_shapes`."""
    return re.compile(_SHAPE_CUES)


_TOKEN_SHAPES = (
    r"hf_[A-Za-z0-9]{20,}",
    r"api_org_[A-Za-z0-9]{20,}",
    r"fw_[A-Za-z0-9]{20,}",
    r"gh[oprsu]_[A-Za-z0-9_]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    _GITLAB + r"[A-Za-z0-9_.=-]{16,}",
    r"sk-(?:ant|proj|svcacct|admin|or|lf|live)-[A-Za-z0-9_-]{16,}",
    r"sk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{40,}",
    r"sk-(?=[A-Za-z]*\d)[A-Za-z0-9]{16,}",
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{20,}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-Ag[A-Za-z0-9_-]{30,}",
    r"nvapi-[A-Za-z0-9_-]{20,}",
    r"wandb_v1_[A-Za-z0-9_]{20,}",
    r"local-[0-9a-f]{40}(?![0-9a-f])",
    r"do[opr]_v1_[0-9a-f]{32,}",
    r"dckr_[op]at_[A-Za-z0-9_-]{20,}",
    r"dapi[0-9a-f]{32}(?:-\d+)?",
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"gsk_[A-Za-z0-9]{30,}",
    r"(?:xai|pplx|csk)-[A-Za-z0-9]{30,}",
    r"r8_[A-Za-z0-9]{30,}",
    r"tgp_v1_[A-Za-z0-9_-]{30,}",
    r"jina_[A-Za-z0-9_]{30,}",
    r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
    r"rpa_[A-Z0-9]{30,}",
    r"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"SK[0-9a-f]{32}(?![0-9a-f])",
    r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,}",
)


@functools.cache
def token_shapes() -> re.Pattern[str]:
    """Tokens that are known by their prefix, wherever they stand; the address of a webhook is one as well."""
    hooks = r"(?<=hooks\.slack\.com/services/)[\w/+-]{8,}|(?<=/api/webhooks/)\d+/[\w-]{8,}|(?<=/bot)\d{8,10}:[\w-]{30,}"
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_TOKEN_SHAPES)})|{hooks}")


@functools.cache
def aws_key_id() -> re.Pattern[str]:
    """The id of an AWS key, beside which the key itself may stand."""
    return re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}")


@functools.cache
def aws_secret() -> re.Pattern[str]:
    """An AWS secret access key, which has no prefix: forty characters of base64 that are no digest."""
    return re.compile(r"(?<![A-Za-z0-9/+=])(?![0-9a-f]{40}(?![A-Za-z0-9/+]))[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])")


@functools.cache
def pem_block() -> re.Pattern[str]:
    """A private key in PEM form, cut off or not; line ends may be escaped. Certificates and public keys stay."""
    public = r"(?:TRUSTED |X509 |NEW |RSA )?(?:CERTIFICATE|PUBLIC KEY|CRL|DH PARAMETERS)"
    return re.compile(rf"-----BEGIN (?!{public})[A-Z0-9 ]+-----(?:(?!-----END )[^\0])*+(?:-----END [A-Z0-9 ]+-----)?")


@functools.cache
def url() -> re.Pattern[str]:
    """A URL with something before the host."""
    # A slash in a password has to be escaped and often is not; `host:8080/path@x` has a port and no password.
    unescaped = r"[^\s/?#\"'`:\[\]]+:(?!\d{1,5}/)[^\s?#\"'`]*"
    return re.compile(
        rf"(?P<scheme>(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{{0,30}}://)(?P<userinfo>[^\s/?#\"'`]*|{unescaped})@"
    )


@functools.cache
def query() -> re.Pattern[str]:
    """A parameter of a URL."""
    return re.compile(r"(?<=[?&;#])(?P<name>[\w.%-]{2,60})=(?P<value><redacted:[0-9a-f]{12}>|[^&#;\s\"'`<>]+)")


@functools.cache
def credentials() -> re.Pattern[str]:
    """`Bearer x`, `Basic x`: the credentials of a header without its name."""
    return re.compile(r"(?i:\b(?P<scheme>bearer|basic|apikey)[ \t]+)(?P<value>[\w.~+/=-]{4,})")


_NAME = rf"(?=[\w.-]*(?i:{WORDS}))[A-Za-z_][\w.-]*"
_VALUE = (
    r"(?:(?i:bearer|basic|token|digest|negotiate|apikey)[ \t]+)?"
    r"(?:(?P<hidden><redacted:[0-9a-f]{12}>)"
    r"|[bfru]?(?P<quote>\\*[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\n]))*+)(?P=quote)?"
    r"|[\[(](?P<items>[^\])\n]*+)[\])]"
    r"|(?P<bare>[^\s\"'`;&|<>\\\[({][^\s\"'`;&|<>\\]*+))"
)


@functools.cache
def whole_line() -> re.Pattern[str]:
    """A name at the start of a line or of a quoted text whose value goes on to its end (header, YAML, INI, .env)."""
    return re.compile(
        rf"(?:^[ \t+\-]*(?:export[ \t]+)?|(?P<quote>(?<!\\)[\"']))(?P<name>{_NAME})"
        r"(?:[ \t]*:[ \t]+|[ \t]+=[ \t]+|=(?=[^\s\"']\S*$))"
        r"(?P<value>(?(quote)(?:(?!(?P=quote))[^\n])*+|[^\s\"'\[({][^\n]*+))",
        re.MULTILINE,
    )


@functools.cache
def indented_block() -> re.Pattern[str]:
    """A YAML name whose value is the block of lines below it."""
    return re.compile(
        rf"^(?P<indent>[ \t]*)(?P<name>{_NAME})[ \t]*:[ \t]*[|>][+-]?[ \t]*\n"
        r"(?P<value>(?:(?P=indent)[ \t]+[^\n]*+\n?)++)",
        re.MULTILINE,
    )


@functools.cache
def assignment() -> re.Pattern[str]:
    """`name=value`, `name: value`, `"name": "value"`, as shells, JSON, logs and reprs write them."""
    return re.compile(rf"(?<![\w.])(?P<name>{_NAME})\\*[\"']?[ \t]*(?:=>|:=|=|:(?!//|:))[ \t]*{_VALUE}")


@functools.cache
def option() -> re.Pattern[str]:
    """`--name value` in a shell's command line; `setenv NAME value` of csh, `ENV NAME value` of a Dockerfile."""
    return re.compile(rf"(?:(?<![\w-])--?|\b(?:setenv|ENV)[ \t]+)(?P<name>{_NAME})[ \t]+(?!-){_VALUE}")


@functools.cache
def item() -> re.Pattern[str]:
    """One item of a list that a repr or JSON writes."""
    return re.compile(r"(?P<quote>[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\n]))*+)(?P=quote)|(?P<bare>[^\s,\"']+)")


@functools.cache
def login() -> re.Pattern[str]:
    """A password after words: netrc, `wandb login KEY`, `curl -u user:password`, `sshpass -p`."""
    return re.compile(
        r"(?:\blogin\s{1,8}\S+\s{1,8}password[ \t]+|\bwandb login[ \t]+(?:--\S+[ \t]+)*"
        r"|\bwandb\b[^\n]{0,60}?\b(?=[0-9a-f]{40}\b)|\bsshpass[ \t]+-p[ \t]*"
        r"|\bdocker login\b[^\n|;]{0,200}?[ \t]-p[ \t]+"
        r"|\b(?:curl|wget)\b[^\n|;]{0,500}?[ \t](?:-u|--user|--proxy-user)[ \t=]+[\"']?[^\s:\"']+:)"
        r"(?P<value><redacted:[0-9a-f]{12}>|[^\s\"'`;|&<>]+)"
    )
