"""Single values of foreign texts: words that stand for nothing, versions, sizes, addresses, names."""

from __future__ import annotations

import re

_UNKNOWN = frozenset(
    (
        "", "-", "--", "n/a", "na", "none", "null", "could not collect", "not available", "module not found", "no cuda",
        "no xpu", "no relevant packages", "not set", "not found", "not supported", "not installed", "not importable",
        "unset", "unavailable", "err!", "error", "unknown", "unknown error", "insufficient permissions", "[n/a]",
        "[not supported]", "[unknown error]", "[unknown]", "[insufficient permissions]",
        "requested functionality has been deprecated", "[requested functionality has been deprecated]",
        "gpu is lost", "[gpu is lost]", "?",
        "xxxx", "***", "[private]", "<fill in>", "[truncated]", "...",
    )
)  # fmt: skip
"""Words that programs and reporters write where there is no value."""

_REDACTED = re.compile(
    r"^(?:<[^<>]{0,80}>|\*{3,}|x{4,}|\[(?:private|redacted|removed|hidden)[^\]]{0,40}\])$", re.IGNORECASE
)
_VERSION = re.compile(r"\d+(?:\.[0-9A-Za-z]+)*(?:[._+!-]?[0-9A-Za-z]+)*(?:\.[0-9A-Za-z]+)*")
_DRIVER = re.compile(r"\d{2,4}\.\d{1,3}(?:\.\d{1,3})?(?![\d.])")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_BUS = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?$")
_SEPARATORS = re.compile(r"[-_.]+")
_UNITS = {
    "b": 1 / 1024 / 1024, "kb": 1 / 1024, "kib": 1 / 1024, "mb": 1, "mib": 1, "m": 1, "gb": 1024, "gib": 1024,
    "g": 1024, "tb": 1024 * 1024, "tib": 1024 * 1024,
}  # fmt: skip
"""Programs of this field that write GB divide by 2^30."""


def is_unknown(text: str) -> bool:
    """Whether a text stands for no value: `N/A`, `Could not collect`, `ERR!`, or what a reporter blanked."""
    word = text.strip().strip("'\"").lower().rstrip(".")
    if not word.strip("-"):
        return True
    return word in _UNKNOWN or text.strip() == "..." or bool(_REDACTED.match(word)) or word.startswith("<probe failed")


def known(text: str | None) -> str | None:
    """The text without blanks around it; None where it stands for no value."""
    if text is None or is_unknown(text):
        return None
    return text.strip()


def boolean(text: str) -> bool | None:
    """True for yes, true, on, enabled, active; False for their opposites; None for anything else."""
    word = text.strip().lower()
    if word in ("true", "yes", "on", "enabled", "active", "1"):
        return True
    if word in ("false", "no", "off", "disabled", "not active", "0"):
        return False
    return None


def switch(text: str) -> str | None:
    """`enabled` or `disabled` for the words that programs use for a switch; None for anything else."""
    state = boolean(text.rstrip("*"))
    return None if state is None else "enabled" if state else "disabled"


def version(text: str) -> str | None:
    """The first version number in a text: `(Ubuntu 9.4.0-1ubuntu1) 9.4.0` gives the one after the parentheses."""
    rest = text.rpartition(")")[2] if text.lstrip().startswith("(") and ")" in text else text
    for part in (rest, text):
        for word in part.replace(",", " ").split():
            found = _VERSION.match(word.lstrip("vV(="))
            if found and ("." in found.group() or found.group() == word):
                return found.group().rstrip(".")
    return None


def driver_version(text: str) -> str | None:
    """A driver's version such as 550.163.01 in a text; None where there is none."""
    found = _DRIVER.search(text)
    return found.group() if found else None


def integer(text: str) -> int | None:
    """The whole number that a text begins with: `46867MiB`, `300 W`, `1,048,576`; None where it begins otherwise."""
    value = number(text)
    return None if value is None else round(value)


def number(text: str) -> float | None:
    """The number that a text begins with; commas between thousands are left out."""
    found = _NUMBER.match(text.strip())
    if not found:
        return None
    digits = found.group().replace(",", "")
    try:
        return float(digits) if len(digits) < 30 else None  # noqa: PLR2004 - longer than any size in a log
    except ValueError:
        return None


def mib(text: str) -> int | None:
    """A size with its unit in MiB: `49140MiB`, `39.38 GiB`, `80 GB`; None without a unit."""
    found = _NUMBER.match(text.strip())
    if not found:
        return None
    unit = text.strip()[found.end() :].strip().split(" ", 1)[0].strip("|,;").lower()
    value = number(text)
    return round(value * _UNITS[unit]) if value is not None and unit in _UNITS else None


def gib(text: str) -> float | None:
    """A size with its unit in GiB, two or more digits kept as they are written."""
    found = _NUMBER.match(text.strip())
    if not found:
        return None
    unit = text.strip()[found.end() :].strip().split(" ", 1)[0].strip("|,;.()").lower()
    value = number(text)
    if value is None or unit not in _UNITS:
        return None
    return round(value * _UNITS[unit] / 1024, 4)


def bus_address(text: str) -> str | None:
    """A PCI address as `0000:06:00.0`, from `00000000:06:00.0`, `06:00.0` or `PCI:0000:06:00`; None otherwise."""
    found = _BUS.match(text.strip().removeprefix("PCI:").removeprefix("GPU"))
    if not found:
        return None
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def bus_address_of_number(digits: str) -> str | None:
    """A PCI address from NCCL's number of it: `1a000` is 0000:1a:00.0, `80` is 0000:00:08.0."""
    try:
        number_ = int(digits, 16)
    except ValueError:
        return None
    if number_ >= 1 << 64:
        return None
    domain, bus, device, function = number_ >> 20, number_ >> 12 & 0xFF, number_ >> 4 & 0xFF, number_ & 0xF
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def package_name(name: str) -> str:
    """A distribution's name as PEP 503 normalises it."""
    return _SEPARATORS.sub("-", name.strip()).lower()


def commit_of(text: str) -> str | None:
    """The commit in a version made by setuptools-scm: `0.6.4.post2.dev395+g02222a02.d20241217` names 02222a02."""
    found = re.search(r"[+.]g([0-9a-f]{7,40})(?:\.|$|\s)", text)
    return found.group(1) if found else None


def build_date_of(text: str) -> str | None:
    """The date of an unclean build in such a version: `+g02222a02.d20241217` was built on 2024-12-17."""
    found = re.search(r"[.+]d(\d{4})(\d{2})(\d{2})(?:\.|$|\s)", text)
    return "-".join(found.groups()) if found else None


def cuda_of_number(number_: str) -> str | None:
    """A CUDA version from its number: 12040 is 12.4, 13000 is 13.0, 9020 is 9.2."""
    value = int(number_) if number_.isdigit() and len(number_) <= 5 else 0  # noqa: PLR2004 - five digits at most
    return f"{value // 1000}.{value % 1000 // 10}" if value >= 1000 else None  # noqa: PLR2004 - CUDA 1.0


def nccl_of_number(number_: str) -> str | None:
    """An NCCL version from its number: 22105 is 2.21.5, 2708 is 2.7.8."""
    if not number_.isdigit() or len(number_) not in (4, 5):
        return None
    value = int(number_)
    if value >= 10000:  # noqa: PLR2004 - five digits since 2.9
        return f"{value // 10000}.{value % 10000 // 100}.{value % 100}"
    return f"{value // 1000}.{value % 1000 // 100}.{value % 100}"
