"""Small files that every Linux kernel has: where one is not there, its fact is unknown rather than absent."""

from __future__ import annotations

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host


def kernel_text(host: Host, path: str) -> str | Missing:
    """The stripped text of a file, or why it is not known."""
    text = host.text_or_missing(path)
    return Missing("unsupported", f"no {path}") if text is None else text


def kernel_integer(host: Host, path: str) -> int | Missing:
    """The whole number in a file, or why it is not known."""
    return as_integer(kernel_text(host, path), path)


def optional_integer(host: Host, path: str) -> int | Missing | None:
    """The whole number in a file that only some kernels have; None where there is no such file."""
    text = host.text_or_missing(path)
    return None if text is None else as_integer(text, path)


def as_integer(text: str | Missing, path: str) -> int | Missing:
    """Read a whole number; what is none, as a cut file, is not known."""
    if isinstance(text, Missing):
        return text
    try:
        return int(text)
    except ValueError:
        return Missing("failed", f"{path}: not a number")
