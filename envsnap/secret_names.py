"""Whether a name promises a secret, and whether a value under such a name may still be read.

A name (of a variable, setting, option, header or table) is split into words and judged by them: `HF_TOKEN`,
`launch.args.api_key` and `X-Api-Key` promise a secret, `TOKENIZERS_PARALLELISM`, `max_total_tokens` and `cache_key`
do not. The word lists come from the variables and options of the inference engines, the model hubs, the cloud
providers and the job schedulers.
"""

from __future__ import annotations

import re

NONE = 0
"""The name says nothing of a secret."""
SOFT = 1
"""The name may mean a secret (`auth`, `key`, `session`): the value has to look like one."""
TOKEN = 2
"""The name means a token; numbers and flags stay, because counts and switches are named alike."""
HARD = 3
"""The name means a password or a key: all but switches and placeholders is a secret."""


def words(text: str) -> frozenset[str]:
    """The words of a text, to look one up among them."""
    return frozenset(text.split())


_SUSPICIOUS = re.compile(
    r"token|secret|pass|pwd|pswd|key|cred|auth|cookie|session|bearer|jwt|sig|sas|psk|otp|sid|mnemonic|pat$"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_HARD_WORDS = words(
    "password passwords passwd passphrase passcode pwd pswd secret secrets credential credentials creds cookie cookies"
    " bearer jwt authorization mnemonic apikey apikeys"
)
_HARD_ENDINGS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential", "credentials",
    "apikey", "apikeys", "accesskey", "secretkey", "privatekey", "privkey", "authkey", "signingkey", "masterkey",
    "encryptionkey", "accountkey", "cookie", "cookies",
)  # fmt: skip
_KEY_OF = words(
    "api access private secret ssh encryption decryption encrypt decrypt signing signature sign master account storage"
    " auth license licence service shared deploy app application client admin tls ssl rsa gpg pgp aes hmac jwt cookie"
    " session webhook registry subscription security preshared wireguard"
)
_PASS_OF = words(
    "db database smtp mail email redis postgres pg mysql mongo mongodb user root admin ftp http https proxy sudo"
    " rabbitmq mq amqp ssh login auth basic ldap registry docker es elastic"
)
_TOKEN_OF = words(
    "api auth access refresh bearer hf huggingface hub github gh gitlab gl npm pypi slack bot wandb session security"
    " oauth csrf xsrf personal deploy registry vault consul service user client app jwt secret private read write"
    " admin"
)
_NOT_A_TOKEN = words(
    "bos eos pad unk sep cls mask special stop start end think thinking reasoning next draft image video audio vision"
    " per first last prompt output input max min num total extra added add decoder encoder implicit each single every"
    " time tool chat call bad begin generation accepted cached prefill decode media placeholder patch point fim eot"
    " eom padding additional ignore skip allowed forced target language lang by one"
)
_JOINED_NOT_A_TOKEN = words("detoken pretoken subtoken multitoken pertoken")
_NOT_A_KEY = words(
    "cache public pub primary foreign partition sort group hash map dict config state hot routing shard metric label"
    " tag index row column lookup idempotency partial query"
)
_SOFT_WORDS = words(
    "key keys auth authentication oauth session sessionid sessid sid pass pat sig signature sas otp totp psk"
)
_ABOUT_IT = words(
    "name names path paths file files filename dir directory folder url uri host endpoint port type mode kind provider"
    " manager store backend engine ref arn count num number size length len ttl timeout expiry expires expiration age"
    " version algorithm algo format header prefix suffix field namespace region enabled enable enables required"
    " require disable disabled policy rotation scope scopes helper mount volume class map cache parser dtype level"
    " limit method parallelism usage id ids"
)
"""Last words of names that tell something about a secret, not the secret itself."""
_WITHOUT_MEANING = words(
    "value string str text plain plaintext raw base env var default new old current data pem hex json prod production"
    " dev staging test primary secondary backup v"
)

_HARD_PAIRS = frozenset({("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key")})

REMEMBERED = 50_000
"""Names whose level is kept; those of foreign texts have no end."""

_levels: dict[str, int] = {}


def secret_level(name: str) -> int:
    """How much a name promises a secret: NONE, SOFT, TOKEN or HARD."""
    level = _levels.get(name)
    if level is None:
        if len(_levels) > REMEMBERED:
            _levels.clear()
        level = _levels[name] = _judge(name) if _SUSPICIOUS.search(name.lower()) else NONE
    return level


def _judge(name: str) -> int:
    parts = [word.lower() for word in _WORD.findall(name)]
    while len(parts) > 1 and parts[-1] in _WITHOUT_MEANING:
        parts.pop()
    if not parts or name in ("PWD", "OLDPWD"):
        return NONE
    if name == "pwd":  # a directory, in most logs; `Pwd=` and `MYSQL_PWD` are passwords
        return SOFT
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in _HARD_WORDS or last.endswith(_HARD_ENDINGS):
        return HARD
    if last in ("key", "keys"):
        return HARD if before in _KEY_OF else NONE if before in _NOT_A_KEY else SOFT
    if last == "id" and before == "key":
        return HARD if {"access", "private", "secret"} & set(parts) else NONE
    if last == "id" and before in ("secret", "session", "token"):
        return {"secret": HARD, "session": SOFT, "token": NONE if parts[0] in _NOT_A_TOKEN else TOKEN}[before]
    if last == "pass" and (before in _PASS_OF or not before):
        return HARD
    if last.endswith(("token", "tokens")):
        return _judge_token(last, before)
    if last in _ABOUT_IT:
        return NONE
    if any(word in _HARD_WORDS for word in parts):
        return HARD
    if not _HARD_PAIRS.isdisjoint(zip(parts, parts[1:], strict=False)):  # noqa: RUF007 - itertools is not loaded yet
        return HARD
    if before == "token" and parts[0] in _TOKEN_OF:  # HF_TOKEN_RO
        return TOKEN
    return SOFT if last in _SOFT_WORDS else NONE


def _judge_token(last: str, before: str) -> int:
    if last == "token":
        return NONE if before in _NOT_A_TOKEN else TOKEN
    if last == "tokens":
        return TOKEN if before in _TOKEN_OF else NONE
    return NONE if last.removesuffix("s") in _JOINED_NOT_A_TOKEN else TOKEN


_FLAGS = words(
    "0 1 true false yes no on off none null nil empty undefined unset auto enabled disabled default required optional"
    " disable enable"
)
_REDACTED = r"<redacted:[0-9a-f]{12}>"
# Compiled on first use: most captures meet no suspicious value, and compiling costs more than looking.
_PLACEHOLDER = (
    r"(?i:\*{2,}|x{3,}|\.{2,}|\[?(?:redacted|masked|hidden|filtered)\]?)"
    r"|\$[A-Z_][A-Z0-9_]{2,}|\$\{[A-Za-z_]\w*\}|\$?\{\{[^{}]*\}\}"
)
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?:[,; ]+[+-]?\d+(?:\.\d+)?)*"
_MARKER = r"<\|?[\w ｜▁/.-]{1,40}\|?>|\[/?[A-Z_]{1,20}\]"
_FILE = (
    r"(?:~|\.{0,2})/(?:[^\s:]*/)?(?:[^\s/:]+\.(?:pem|key|crt|cer|p12|pfx|json|txt|ya?ml|toml|env|conf|cfg|ini|keytab)"
    r"|\.[a-z][\w.-]*(?:/[\w.-]+)*)|/(?:var/)?run/secrets/[\w./-]+"
)
_PATH = r"(?:~|\.{1,2})?/[\w.+-]+(?:/[\w.+-]*)*"
_PIECE = r"(?:[a-z]{1,12}|[A-Z]{1,12}|[A-Z][a-z]{1,11}|\d{1,4})"
_PIECES = rf"{_PIECE}(?:[._/ -]{_PIECE})*"
_VERSION_OR_DIGEST = r"v?\d+(?:\.\w+)+|(?:sha\d{1,3}|md5|blake2b):[0-9a-f]+"


def may_be_read(text: str, level: int) -> bool:
    """Whether a value under a suspicious name is no secret: a switch, a placeholder, a count, a path to a file.

    A numeric password stays a secret (HARD), a numeric `..._TOKEN` is a switch or a count.
    """
    if not text or text.lower() in _FLAGS:
        return True
    if _is(_REDACTED, text) or _is(_PLACEHOLDER, text) or _is(_FILE, text):
        return True
    if level == HARD:
        return False
    if _is(_NUMBER, text):
        return True
    if level == TOKEN:
        return _is(_MARKER, text)
    return not _looks_like_a_secret(text)


def _is(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _looks_like_a_secret(text: str) -> bool:
    """Whether a value under a name like `auth` or `key` is more likely a secret than a word, path, URL or version."""
    if "://" in text or _is(_PATH, text) or _is(_VERSION_OR_DIGEST, text):
        return False
    user, colon, password = text.partition(":")
    if colon and user and password and not password.isdecimal() and " " not in text:
        return True
    return len(text) >= 8 and not _is(_PIECES, text)  # noqa: PLR2004 - shorter ones are words and modes


def is_redacted(text: str) -> bool:
    """Whether a text is what stands in the place of a secret."""
    return _is(_REDACTED, text)


_PLAIN_USER = r"[a-z][a-z._-]{0,20}|x-access-token|oauth2"
_USER = r"[A-Za-z][\w.+-]{0,30}|\$\{?\w+\}?"


def is_user_name(text: str, *, has_password: bool) -> bool:
    """Whether the user of a URL is one, and no token in the user's place."""
    if not has_password:
        return _is(_PLAIN_USER, text)
    return _is(_USER, text) and (len(text) < 16 or not any(sign.isdigit() for sign in text))  # noqa: PLR2004


_ADDRESSES = words(
    "proxy dsn url uri database db broker redis mongo mongodb postgres mysql amqp conn connection remote index host"
    " endpoint address addr"
)


def is_address(name: str) -> bool:
    """Whether a name is that of an address, which may hold `user:password@` without a scheme before it."""
    return not _ADDRESSES.isdisjoint(word.lower() for word in _WORD.findall(name))
