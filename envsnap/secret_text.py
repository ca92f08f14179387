"""Find the secrets of a free text by their names, their shapes and their places in URLs, and hide each of them.

`hide` is what a secret is replaced with (`envsnap.redact.Redactor.hash`). Hiding twice changes nothing.
"""

from __future__ import annotations

from envsnap import secret_patterns as patterns
from envsnap.secret_names import (
    HARD,
    SOFT,
    TOKEN,
    is_redacted,
    is_user_name,
    may_be_read,
    secret_level,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    Hide = Callable[[str], str]

_ROUNDS = 8
"""A secret may stand right behind another and come into sight when that one is hidden; there is no endless text."""
_SCHEMES = ("bearer", "basic", "token", "digest", "negotiate", "apikey", "key")
_IN_QUERY = words(
    "sig sign signature key code auth sas x-amz-signature x-amz-credential x-goog-signature x-goog-credential"
    " awsaccesskeyid googleaccessid hmac"
)
"""Parameters of a URL that are secrets there, whatever they mean elsewhere."""


def hide_secrets(text: str, hide: Hide) -> str:
    """A text without secrets."""
    for _ in range(_ROUNDS):
        hidden = _hide_once(text, hide)
        if hidden == text:
            break
        text = hidden
    return text


def _hide_once(text: str, hide: Hide) -> str:
    lowered = text.lower()
    if not patterns.SUSPECT.search(lowered):
        return text
    if "-----begin" in lowered:
        text = patterns.pem_block().sub(lambda match: hide(match.group()), text)
    has_aws_key = ("akia" in lowered or "asia" in lowered) and patterns.aws_key_id().search(text)
    text = hide_in_urls(text, hide)
    text = _hide_named(text, hide)
    if patterns.shape_cues().search(lowered):
        text = patterns.token_shapes().sub(lambda match: hide(match.group()), text)
    if has_aws_key:
        text = patterns.aws_secret().sub(lambda match: hide(match.group()), text)
    return text


def hide_value(text: str, hide: Hide) -> str:
    """A whole value as a secret; the scheme of a header (`Bearer x`) stays readable."""
    scheme, blank, rest = text.partition(" ")
    if blank and scheme.lower() in _SCHEMES and rest.strip():
        return f"{scheme} {rest if is_redacted(rest) else hide(rest)}"
    return hide(text)


# -- URLs -------------------------------------------------------------------------------------------------------


def hide_in_urls(text: str, hide: Hide) -> str:
    """The URLs of a text without passwords, tokens in the place of a user, signatures and keys in the query."""
    if "@" in text and "://" in text:
        text = patterns.url().sub(lambda match: _hide_userinfo(match, hide), text)
    if "=" in text and ("&" in text or "?" in text or "#" in text or ";" in text):
        text = patterns.query().sub(lambda match: _hide_parameter(match, hide), text)
    return text


def hide_user_and_password(userinfo: str, hide: Hide) -> str:
    """What stands before the `@` of a URL: the user's name stays where it is one, the password never."""
    if is_redacted(userinfo):
        return userinfo
    user, colon, password = userinfo.partition(":")
    if user.startswith("<redacted") and userinfo[:23].endswith(">"):
        user, colon, password = userinfo[:23], userinfo[23:24], userinfo[24:]
    if user and not is_redacted(user) and not is_user_name(user, has_password=bool(password)):
        user = hide(user)
    if password and password != "x-oauth-basic" and not may_be_read(password, HARD):  # noqa: S105 - a constant of GitHub's
        password = hide(password)
    return f"{user}{colon}{password}"


def _hide_userinfo(match: re.Match[str], hide: Hide) -> str:
    if match.string.startswith("sha256:", match.end()):  # an image by its digest: `docker://name:tag@sha256:...`
        return match.group()
    return f"{match['scheme']}{hide_user_and_password(match['userinfo'], hide)}@"


def _hide_parameter(match: re.Match[str], hide: Hide) -> str:
    name, value = match["name"], match["value"]
    level = HARD if name.lower() in _IN_QUERY else secret_level(name)
    if level <= SOFT or may_be_read(value, level):
        return match.group()
    return f"{name}={hide(value)}"


# -- names and values -------------------------------------------------------------------------------------------


def _hide_named(text: str, hide: Hide) -> str:
    """Hide what stands behind a suspicious name, in any of the ways in which a value stands behind a name."""
    has_blank = " " in text or "\t" in text
    if "=" in text or ":" in text:
        if "\n" in text:
            text = patterns.indented_block().sub(lambda match: _hide_block(match, hide), text)
        text = patterns.whole_line().sub(lambda match: _hide_line(match, hide), text)
        text = patterns.assignment().sub(lambda match: _hide_assigned(match, hide), text)
    if has_blank:
        if "-" in text or "env" in text or "ENV" in text:
            text = patterns.option().sub(lambda match: _hide_assigned(match, hide), text)
        text = patterns.credentials().sub(lambda match: _hide_credentials(match, hide), text)
        text = patterns.login().sub(
            lambda match: _replace(match, "value", _unless_readable(match["value"], HARD, hide)), text
        )
    return text


def _hide_block(match: re.Match[str], hide: Hide) -> str:
    block = match["value"]
    if secret_level(match["name"]) <= SOFT:
        return match.group()
    inner = block.strip()
    start = block.index(inner) if inner else 0
    return _replace(match, "value", block[:start] + _unless_readable(inner, HARD, hide) + block[start + len(inner) :])


def _hide_line(match: re.Match[str], hide: Hide) -> str:
    level = secret_level(match["name"])
    value = match["value"].rstrip()
    if level <= SOFT or value in ("|", ">", "|-", ">-", "|+", ">+"):
        return match.group()
    return _replace(match, "value", _unless_readable(value, level, hide) + match["value"][len(value) :])


def _hide_assigned(match: re.Match[str], hide: Hide) -> str:
    level = secret_level(match["name"])
    for group in ("quoted", "items", "bare"):
        value = match[group]
        if value:
            if not level:  # `tokenizer_args="--api-key x"`
                return _replace(match, group, _hide_named(value, hide))
            if group == "items":
                return _replace(match, group, _hide_items(value, level, hide))
            if group == "bare":
                return _replace(match, group, _hide_bare(value, level, hide))
            return _replace(match, group, _unless_readable(value, level, hide))
    return match.group()


def _hide_items(text: str, level: int, hide: Hide) -> str:
    def hide_item(match: re.Match[str]) -> str:
        group = "quoted" if match["quote"] else "bare"
        return _replace(match, group, _unless_readable(match[group], level, hide))

    return patterns.item().sub(hide_item, text)


def _hide_bare(value: str, level: int, hide: Hide) -> str:
    """An unquoted value; the comma or bracket behind it is not part of it, nor is what follows `None,`."""
    first, comma, rest = value.partition(",")
    if comma and may_be_read(first, TOKEN if level == HARD else level):
        return f"{first}{comma}{_hide_named(rest, hide)}"
    word = value.rstrip(",)}].:")
    return _unless_readable(word, level, hide) + value[len(word) :]


def _hide_credentials(match: re.Match[str], hide: Hide) -> str:
    value = match["value"]
    is_secret = _is_basic(value) if match["scheme"].lower() == "basic" else _is_bearer(value)
    return _replace(match, "value", hide(value)) if is_secret else match.group()


def _is_basic(value: str) -> bool:
    """Whether a word decodes to `user:password`."""
    import binascii

    try:
        return b":" in binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except ValueError:
        return False


def _is_bearer(value: str) -> bool:
    """Whether a word behind `Bearer` is a token and not the next word of a sentence."""
    return not may_be_read(value, HARD) and (any(sign.isdigit() for sign in value) or not value.isalpha())


def _unless_readable(value: str, level: int, hide: Hide) -> str:
    scheme, blank, rest = value.partition(" ")
    if blank and scheme.lower() in _SCHEMES and may_be_read(rest.strip(), HARD):
        return value
    return value if may_be_read(value, level) else hide_value(value, hide)


def _replace(match: re.Match[str], group: str, text: str) -> str:
    """A match with one of its groups replaced."""
    start, end = match.span(group)
    return f"{match.string[match.start() : start]}{text}{match.string[end : match.end()]}"
