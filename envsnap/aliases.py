"""Stable stand-ins for what names a machine, a network or a person: a recording of a machine is made to be given away.

MAC and IP addresses, UUIDs, the long hexadecimal identifiers of containers and machines, serial numbers, names of
hosts and home directories. Equal ones get equal aliases under one key, in the text of files and in their paths alike,
so that a control group's name in /proc/self/cgroup still finds its directory. Secrets are `envsnap.redact`'s part.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HOME = "/home/user"

_UUID = re.compile(r"[0-9A-Fa-f]{8}([-_])(?:[0-9A-Fa-f]{4}\1){3}[0-9A-Fa-f]{12}")
_LONG_ID = re.compile(r"(?:(?<![0-9A-Za-z])|(?<=pod))(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9A-Za-z])")
_MAC = re.compile(r"(?<![0-9A-Za-z:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}(?![0-9A-Za-z:])")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\w|-[A-Za-z])")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){2,7}(?::?[0-9A-Fa-f]{1,4}){0,6}:{0,2}(?![\w:.])")
_HOME = re.compile(r"(?<![\w.-])/(?:home|Users)/[^/\s:,;\"'()<>\[\]\0]+")
_NAMES_SERIAL = re.compile(r"serial|uuid|guid|asset_tag|machine-id", re.IGNORECASE)
_SERIAL_LINE = re.compile(r"^(\s*serial(?: number)?\s*[:=]\s*)(\S+)", re.IGNORECASE | re.MULTILINE)
_COMMON_HOSTS = ("localhost", "debian", "ubuntu", "linux", "docker")
_SHORTEST_HOST = 4


class Aliases:
    """The aliases under one key; `home` and `host` are this machine's own names."""

    def __init__(self, key: bytes, *, home: str | None = None, host: str = "") -> None:
        self._key = key
        self._home = home if home and home.count("/") > 1 else None
        self.host = f"host-{self._digits(host, 6)}"
        is_telling = len(host) >= _SHORTEST_HOST and host.lower() not in _COMMON_HOSTS
        self._host = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])") if is_telling else None

    def text(self, text: str) -> str:
        """A text with every name replaced."""
        if self._home:
            text = re.sub(re.escape(self._home) + r"(?![\w.-])", HOME, text)
        text = _HOME.sub(HOME, text)
        if self._host:
            text = self._host.sub(self.host, text)
        text = _SERIAL_LINE.sub(lambda match: match[1] + self._same_shape(match[2]), text)
        for pattern, alias in self._rules():
            text = pattern.sub(alias, text)
        return text

    def content(self, path: str, text: str) -> str:
        """The text of a file; one whose name promises a serial number or an identifier is replaced as a whole."""
        if _NAMES_SERIAL.search(path.rpartition("/")[2]):
            return self._same_shape(text)
        return self.text(text)

    def _rules(self) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        return [
            (_UUID, lambda match: self._same_shape(match[0])),
            (_LONG_ID, lambda match: self._digits(match[0], len(match[0]))),
            (_MAC, self._mac),
            (_IPV4, self._address),
            (_IPV6, self._address),
        ]

    def _digits(self, text: str, count: int) -> str:
        """Hexadecimal digits that stand for a text."""
        from hashlib import blake2b

        digits = blake2b(text.lower().encode("utf-8", "surrogateescape"), key=self._key[:64], digest_size=64)
        return digits.hexdigest()[:count]

    def _same_shape(self, text: str) -> str:
        """Other digits and letters in the places of digits and letters; what is nothing but zeros stays."""
        if not set(text) - set("0-_:\n xX"):
            return text
        drawn = self._digits(text.strip(), 128)
        out = []
        for place, sign in enumerate(text):
            digit = int(drawn[place % len(drawn)], 16)
            if sign.isdigit() or sign in "abcdef":
                out.append(f"{digit:x}" if sign in "abcdef" else str(digit % 10))
            elif sign.isascii() and sign.isalpha():
                out.append("ABCDEF"[digit % 6])
            else:
                out.append(sign)
        return "".join(out)

    def _mac(self, match: re.Match[str]) -> str:
        pairs = match[0].split(":")
        if len(set(match[0].lower())) <= 2:  # noqa: PLR2004 - all zeros or a broadcast, and colons
            return match[0]
        drawn = self._digits(match[0], 2 * len(pairs))
        return ":".join(["02", *(drawn[at : at + 2] for at in range(2, len(drawn), 2))])

    def _address(self, match: re.Match[str]) -> str:
        """A private address for one that could be anybody's; version numbers and special addresses stay."""
        import ipaddress

        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or address.is_multicast or match[0].startswith("255."):
            return match[0]
        drawn = self._digits(match[0], 8)
        if address.version == 4:  # noqa: PLR2004
            return "10." + ".".join(str(int(drawn[at : at + 2], 16)) for at in (0, 2, 4))
        return f"fd00::{drawn[:4]}:{drawn[4:]}"
