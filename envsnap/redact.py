"""Secrets by name, by value, in URLs, in command lines: nothing that a reader could use reaches the disk.

A secret is replaced by `<redacted:KEYED-HASH>`: twelve hex digits of BLAKE2b under the store's own key. Equal secrets
of one store stay comparable, and without the key nobody can try out guesses. What is already redacted stays as it
is. Where a value does not tell, its name decides (`envsnap.secret_names`); tokens of a known shape are replaced
wherever they stand (`envsnap.secret_patterns`).
"""

from __future__ import annotations

import re

from envsnap.secret_names import HARD, NONE, SOFT, is_address, may_be_read, secret_level, words
from envsnap.secret_patterns import SUSPECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEYED_BY_IDENTITY = words(
    "packages origins pins conflicts integrity native libraries topology gpu gpus caches collectors missing events"
    " network source"
)
"""Sections whose keys are names of things (a package `secretstorage`, a repository `auth`): they promise nothing."""

_COMMAND_LINES = ("argv",)
_LEAST_PIN = 10
"""A number below it is a switch or a count, even under the name of a password."""
_OPTION = re.compile(r"--?[A-Za-z]")
_SCRIPT_OPTION = re.compile(r"-[a-z]{0,4}c")
_ASSIGNED_NAME = re.compile(r"[-+~]{0,2}[A-Za-z_@][\w.@/-]*")
_PASSWORD_OPTIONS = {"curl": ("-u", "--user", "--proxy-user"), "wget": ("-u", "--user"), "sshpass": ("-p",)}

_SHORTEST = 15
"""No token of a known shape, no URL with a password and no header is shorter."""

_suspect = SUSPECT.search


def _is_plain(text: str) -> bool:
    """Whether a text is too short for a secret that tells itself, which is true of most strings of a snapshot."""
    return len(text) < _SHORTEST and "=" not in text and ":" not in text and "@" not in text and " " not in text


class Redactor:
    """Replaces secrets under one key, which is the store's own: 1 to 64 bytes, never written into a snapshot."""

    def __init__(self, key: bytes) -> None:
        if not 1 <= len(key) <= 64:  # noqa: PLR2004 - what BLAKE2b takes
            raise ValueError("a redaction key has 1 to 64 bytes")
        self._key = key

    def hash(self, secret: str) -> str:
        """What stands in the place of a secret."""
        try:
            from _blake2 import blake2b  # the import of hashlib costs a third of an interpreter start
        except ImportError:
            from hashlib import blake2b

        digest = blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=6)
        return f"<redacted:{digest.hexdigest()}>"

    def text(self, text: str) -> str:
        """Free text (a log line, a patch, a configuration file) without secrets."""
        if _is_plain(text) or not _suspect(text.lower()):
            return text
        from envsnap.secret_text import hide_secrets

        return hide_secrets(text, self.hash)

    def url(self, text: str) -> str:
        """The URLs of a text without passwords, tokens in the place of a user, signatures and keys in the query."""
        return self.text(text)

    def value(self, name: str, text: str) -> str:
        """A value without secrets, given the name that it stands under."""
        return self._named(name, text, secret_level(name))

    def _named(self, name: str, text: str, level: int) -> str:
        if level and not may_be_read(text, level):
            from envsnap.secret_text import hide_value

            return hide_value(text, self.hash)
        if level > SOFT:
            return text
        if "@" in text and "://" not in text and is_address(name):
            return self._without_scheme(text)
        return self.text(text)

    def _without_scheme(self, text: str) -> str:
        """`user:password@proxy:3128`, as a variable for a proxy or a database may have it."""
        from envsnap.secret_text import hide_user_and_password

        userinfo, at, host = text.rpartition("@")
        if ":" not in userinfo or "<redacted:" in userinfo or " " in text:
            return self.text(text)
        return f"{hide_user_and_password(userinfo, self.hash)}{at}{host}"

    # -- documents -----------------------------------------------------------------------------------------------

    def document(self, document: dict[str, Any]) -> dict[str, Any]:
        """A copy of a snapshot document, or of some of its sections, without secrets."""
        copy: dict[str, Any] = {}
        for name, section in document.items():
            if isinstance(section, dict):
                copy[name] = self._table(section, NONE, is_named=name not in KEYED_BY_IDENTITY)
            else:
                copy[name] = self._leaf(name, section, secret_level(name))
        return copy

    def _table(self, table: dict[str, Any], around: int, *, is_named: bool) -> dict[str, Any]:
        """A table's copy. `around`: what the name of a table around it promises; `is_named`: keys promise as well."""
        copy: dict[str, Any] = {}
        for key, value in table.items():
            level = (secret_level(key) or around) if is_named else NONE
            redacted = value
            if type(value) is str:
                if level or not _is_plain(value):
                    redacted = self._named(key, value, level)
            elif type(value) is dict:
                # `credentials = {...}` is a table of secrets, `auth = {...}` one of settings.
                redacted = self._table(value, HARD if level == HARD else NONE, is_named=is_named)
            else:
                redacted = self._leaf(key, value, level)
            copy[key if len(key) < _SHORTEST else self.text(key)] = redacted
        return copy

    def _leaf(self, key: str, value: Any, level: int) -> Any:
        if isinstance(value, str):
            return self._named(key, value, level)
        if isinstance(value, list):
            if key in _COMMAND_LINES:
                return self.argv(value)
            return [
                self._table(item, HARD if level == HARD else NONE, is_named=True)
                if isinstance(item, dict)
                else self._leaf(key, item, level)
                for item in value
            ]
        if level == HARD and type(value) in (int, float) and abs(value) >= _LEAST_PIN:
            return self.hash(str(value))
        return value

    # -- command lines -------------------------------------------------------------------------------------------

    def argv(self, argv: list[str]) -> list[str]:
        """A command line without secrets: `--api-key X`, `--api-key=X`, `-e NAME=X`, whole scripts after `-c`."""
        redacted: list[str] = []
        option = ""
        takes_password: tuple[str, ...] = ()
        for argument in argv:
            if option and not self._is_next_option(option, argument):
                redacted.append(
                    self._operand(option, argument, HARD if option in takes_password else secret_level(option))
                )
                # vLLM's --api-key takes several keys; elsewhere one value is the whole answer.
                option = option if option.endswith("api-key") else ""
                continue
            redacted.append(self._argument(argument))
            takes_password = _PASSWORD_OPTIONS.get(argument.rpartition("/")[2], takes_password)
            option = argument if _OPTION.match(argument) and "=" not in argument else ""
        return redacted

    @staticmethod
    def _is_next_option(option: str, argument: str) -> bool:
        if argument.startswith("--") or not _OPTION.match(argument):
            return argument.startswith("--")
        return secret_level(option) < HARD or len(argument) <= 4  # noqa: PLR2004 - `-dpn` is one, `-Xk7+qa` is a password

    def _operand(self, option: str, argument: str, level: int) -> str:
        """What follows an option."""
        if not level and _SCRIPT_OPTION.fullmatch(option):
            return self.text(argument)
        if level or "=" not in argument:
            return self._named(option, argument, level)
        return self._argument(argument)

    def _argument(self, argument: str) -> str:
        """An argument that tells its own name, or has none."""
        name, equals, value = argument.partition("=")
        if not equals or not _ASSIGNED_NAME.fullmatch(name):
            return self.text(argument)
        inner, more, rest = value.partition("=")
        if more and not secret_level(name) and _ASSIGNED_NAME.fullmatch(inner):  # --env=HF_TOKEN=X
            return f"{name}={inner}={self.value(inner, rest)}"
        if " " in value and secret_level(name) != HARD:  # a whole command: HF_TOKEN=X python ...
            return self.text(argument)
        return f"{name}={self.value(name, value)}"
