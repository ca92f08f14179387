"""Commands for the shell that can be pasted: everything that comes from a snapshot is quoted.

A snapshot may come from somebody else: a value is never more than one word of a command, never an option, and never
ends a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envsnap.compat import Compat

REDACTED = "<redacted:"
_OF_TORCH = ("torch", "torchvision", "torchaudio")


def quote(value: Any) -> str:
    """A value as one word of the shell; control characters are written escaped, as bash reads them."""
    import shlex

    text = str(value)
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(char) for char in text) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"


def command(template: str, *values: Any) -> str:
    """A command with its values in place of `{}`, each quoted; of a list each item is a word of its own.

    Empty where a value is missing, was redacted, or could be taken for an option.
    """
    if not template:
        return ""
    pieces = template.split("{}")
    words = [pieces[0]]
    for value, piece in zip(values, pieces[1:], strict=True):
        items = list(value) if isinstance(value, list | tuple) else [value]
        begins_word = not words[-1] or words[-1][-1] in " ;("
        for item in items:
            text = "" if item is None else str(item)
            if not text or REDACTED in text or (begins_word and text.startswith("-")):
                return ""
        words += [" ".join(quote(item) for item in items), piece]
    return "".join(words)


def in_turn(*commands: str) -> str:
    """Commands one after the other, each only after the one before it went well; those that are empty are left out."""
    return " && ".join(filter(None, commands))


def requirement(package: str, version: str, compat: Compat) -> tuple[str, str]:
    """A version as pip takes it, quoted, and the option for the index that a local tag (`+cu128`) needs.

    Two empty texts where the version cannot be asked for.
    """
    if not version:
        return "", ""
    public, _, tag = version.partition("+")
    url = compat.index_of_tag(tag) if tag else ""
    if package in _OF_TORCH and url:
        return command("{}=={}", package, public), command("--index-url {}", url)
    return command("{}=={}", package, version), command("--extra-index-url {}", url) if url else ""


def pip_install(package: str, version: str, compat: Compat, options: Sequence[str] = ()) -> str:
    """The pip command for a version, with the index that a local tag (`+cu128`) needs."""
    wanted, index = requirement(package, version, compat)
    return " ".join(filter(None, ("pip install", *options, wanted, index))) if wanted else ""


def pip_reinstall(package: str, version: str, compat: Compat) -> str:
    """The pip command that writes a package's files anew and leaves the others alone."""
    return pip_install(package, version, compat, ("--force-reinstall", "--no-deps"))


def undo_variable(name: str, before: Any) -> str:
    """The line that gives a variable its earlier value, or takes it away; empty where that value is not known."""
    if not name.isidentifier() or not name.isascii():
        return ""
    if before is None:
        return f"unset {name}"
    return f"export {name}=''" if before == "" else command(f"export {name}={{}}", before)


def checkout(path: str, commit: Any) -> str:
    """The command that takes a repository back to a commit."""
    return command("git -C {} checkout {}", path, commit) if path else ""


def kernel_parameters(words: str) -> str:
    """The command that adds parameters to the kernel's command line at the next boot; empty for unusual characters."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.=,:+- "
    if not words or any(char not in plain for char in words):
        return ""
    return f"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{words} /' /etc/default/grub && sudo update-grub"
