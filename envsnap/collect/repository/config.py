"""Git's configuration format, read without git: remotes, tracked branches and submodules.

The source of truth for the format is git-config(1). Included files and `url.*.insteadOf` are not followed:
the repository's own file is what is told.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Section = tuple[str, str]
    Config = dict[Section, dict[str, str]]

_SPACE = " \t\r"
"""What git takes for a space inside a line: less than Python does."""
_SECTION = re.compile(r'[ \t]*\[[ \t]*([A-Za-z0-9.-]+)[ \t]*(?:"((?:[^"\\]|\\.)*)")?[ \t]*\]')
_KEY = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

_URL = re.compile(r"\b([a-z][a-z0-9+.-]*)://(\S+)", re.IGNORECASE)


def parse_config(text: str) -> Config:
    """The settings by (section, subsection) and key in lower case; a later value of a key wins.

    Lines that are no configuration (a merge conflict in `.gitmodules`) are passed over.
    """
    config: Config = {}
    current: dict[str, str] | None = None
    for line in _logical_lines(text):
        rest = line
        section = _SECTION.match(rest)
        if section:
            current = config.setdefault(_section_name(section), {})
            rest = rest[section.end() :]
        key = _KEY.match(rest)
        if key and current is not None:
            current[key.group(1).lower()] = _value(rest[key.end() :]) if key.group(2) else "true"
    return config


def _logical_lines(text: str) -> Iterator[str]:
    """Lines, with those that end in an odd number of backslashes joined to the next."""
    held = ""
    for line in text.split("\n"):
        joined = held + line.removesuffix("\r")
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            held = joined[:-1]
            continue
        held = ""
        yield joined
    if held:
        yield held


def _section_name(found: re.Match[str]) -> Section:
    name, quoted = found.group(1).lower(), found.group(2)
    if quoted is not None:
        return name, re.sub(r"\\(.)", r"\1", quoted)
    name, _, subsection = name.partition(".")
    return name, subsection


def _value(text: str) -> str:
    """A value without its quotes, escapes and comment."""
    out: list[str] = []
    kept = 0
    in_quotes = False
    characters = iter(text.strip(_SPACE))
    for character in characters:
        if character == '"':
            in_quotes = not in_quotes
            kept = len(out)
        elif character in "#;" and not in_quotes:
            break
        else:
            if character == "\\":
                escaped = next(characters, "")
                out.append(_ESCAPES.get(escaped, escaped))
            else:
                out.append(character)
            if in_quotes or character not in _SPACE:
                kept = len(out)
    return "".join(out[:kept])


def remote_url(config: Config, branch: str | None) -> str | None:
    """The URL, without credentials, of the remote that a branch follows, else of `origin` or the only one."""
    remotes = {
        name: settings["url"]
        for (section, name), settings in config.items()
        if section == "remote" and "url" in settings
    }
    followed = config.get(("branch", branch), {}).get("remote") if branch else None
    url = remotes.get(followed or "origin") or remotes.get("origin")
    if url is None and len(remotes) == 1:
        url = next(iter(remotes.values()))
    return without_credentials(url) if url else None


def follows_remote(config: Config, branch: str) -> bool:
    """Whether a branch follows another one, so that `ahead` and `behind` exist."""
    return "merge" in config.get(("branch", branch), {})


def submodule_paths(config: Config) -> dict[str, str]:
    """Names and paths of the submodules in a `.gitmodules`; paths that lead out of the tree are left out."""
    paths = {}
    for (section, name), settings in config.items():
        path = settings.get("path", "").rstrip("/")
        if section == "submodule" and path and not path.startswith("/") and ".." not in path.split("/"):
            paths[name] = path
    return paths


def without_credentials(text: str) -> str:
    """A text in which no URL holds a password or token.

    `https://user:token@host/x` and `https://token@host/x` become `https://host/x`; over ssh the user's name
    is kept: it names the account and is no secret. A query is dropped: tokens are handed over in it too.
    """
    return _URL.sub(_without_credentials, text) if "://" in text else text


def _without_credentials(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    user = ""
    authority = rest.partition("/")[0]
    if "@" in authority:
        user = authority.rpartition("@")[0]
        rest = rest[len(user) + 1 :]
    elif "@" in rest and re.search(r":(?!\d*$)", authority):  # a slash that nobody escaped, in the password
        user, _, rest = rest.rpartition("@")
    account = user.partition(":")[0]
    kept = f"{account}@" if account and scheme.lower().endswith("ssh") else ""
    return f"{scheme}://{kept}{rest.partition('?')[0]}"
