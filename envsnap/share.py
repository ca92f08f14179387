"""The share level: what may leave the house. Names of machines, people and places become stable aliases.

Secrets are gone before (`envsnap.redact`); this hides who and where: hosts, users, home and project paths, addresses,
serial numbers, UUIDs, buckets, registries. One `Sharer` serves all files of a report, so that an alias means the same
thing in each. What stands for what is kept by the caller, never written into a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envsnap import share_words as words
from envsnap.share_words import REASONS, Redaction

__all__ = ["REASONS", "Redaction", "Sharer"]

_LEAST = 3
"""A shorter name is replaced where it stands as one, but not wherever the letters occur."""
_API_PATH = re.compile(r"/(?:v\d\b[\w/.-]*|health\w*|metrics|generate|get_\w+|simple/?|whl/?[\w/.+-]*)?")


class Sharer:
    """Replaces private names by aliases, the same in everything that one instance is given."""

    def __init__(self) -> None:
        self._aliases: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._words: dict[str, tuple[str, str]] = {}
        self._stems: set[str] = set()
        self._public: set[str] = set()
        self._versions: set[str] = set()
        self._private_sources: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, document: Mapping[str, Any]) -> None:
        """Note the names that a snapshot document knows, so that they are found in other texts as well."""
        self._public |= {words.normal(name) for name in document.get("packages", {})}
        self._public |= {part.lower() for name in document.get("env", {}) for part in str(name).split("_")}
        self._versions |= words.dotted_versions(document)
        self._learn_gpus(document.get("gpu", {}))
        self._learn_word("host", str(document.get("meta", {}).get("host", "")))
        for path, value in words.leaves_of(document):
            if isinstance(value, str):
                kind = words.kind_of_field(path)
                if kind:
                    self._learn_word(kind, words.bare_host(value) if kind == "host" else value)
                if path[-1].lower() == "no_proxy":
                    for name in value.split(","):
                        self._learn_word("host", name.strip(" .*").partition(":")[0])
                self.learn_text(value)
        for slug, row in document.get("source", {}).items():
            if isinstance(row, dict):
                remote = words.REMOTE_HOST.match(str(row.get("upstream", "")))
                is_ours = words.PUBLIC_HOSTS.fullmatch(remote.group(1)) is None if remote else not self._is_public(slug)
                if is_ours:
                    self._private_sources |= {slug, str(row.get("path", ""))}
                    self._learn_remote(str(row.get("upstream", "")))
                self._learn_project(slug)
                self._learn_project(str(row.get("path", "")).rstrip("/").rpartition("/")[2])
        self._learn_project(str(document.get("launch", {}).get("cwd", "")).rstrip("/").rpartition("/")[2])

    def learn_text(self, text: str) -> None:
        """Note the names of machines and accounts that a log or a value tells."""
        if "/" in text:
            for user in words.USER_IN_PATH.findall(text):
                self._learn_word("user", user)
        if "NCCL" in text:
            for host in words.NCCL_HOST.findall(text):
                self._learn_word("host", host)
        if "://" in text:
            for found in words.URL.finditer(text):
                if not found.group(3).startswith("["):
                    self._learn_word("host", found.group(3))
        if "@" in text:
            for user, host in words.PROMPT.findall(text):
                self._learn_word("user", user)
                self._learn_word("host", host)
        if "GPU-" in text:
            for uuid in words.GPU_UUID.findall(text):
                self._words.setdefault(uuid[4:12].lower(), self._words.get(uuid.lower(), ("gpu", uuid)))
                self._pattern = None
        if "=" in text:
            for name, value in words.NAMED.findall(text):
                kind = words.kind_of_field(("env", name))
                if kind and not value.startswith(("/", "~")):
                    self._learn_word(kind, words.bare_host(value) if kind == "host" else value)

    def _learn_remote(self, url: str) -> None:
        """Whose a private repository is stands before its name: `git@host:team/repository.git`."""
        path = re.sub(r"^[a-z+]+://[^/]*", ":", url).rpartition(":")[2]
        for part in path.strip("/").removesuffix(".git").split("/"):
            self._learn_project(part)

    def _learn_gpus(self, gpus: Mapping[str, Any]) -> None:
        rows = [(key, row) for key, row in gpus.items() if isinstance(row, dict)]
        for key, row in sorted(rows, key=lambda item: (str(item[1].get("index", "")).zfill(4), item[0])):
            if key.startswith(("index-", "pci-")) and not row.get("uuid"):
                continue
            kind = "mig" if key.startswith("mig-") else "gpu"
            uuid = str(row.get("uuid", ""))
            alias = self._alias(kind, uuid or key)
            names = {uuid, uuid.partition("-")[2]}
            if not key.startswith(("index-", "pci-")):
                names.add(key)
            for name in names - {""}:
                self._words[name.lower()] = (kind, uuid or key)
            self._aliases.setdefault((kind, key), alias)
        self._pattern = None

    def _learn_word(self, kind: str, name: str) -> None:
        name = name.strip()
        lowered = name.lower()
        if (
            lowered in words.NOBODY
            or words.DOTTED.fullmatch(name)
            or words.ALIAS.fullmatch(name)
            or "<redacted" in name
        ):
            return
        if kind == "host" and (words.PUBLIC_HOSTS.fullmatch(name) or "/" in name or " " in name or name.isdigit()):
            return
        if len(name) < _LEAST or lowered in words.COMMON_NAMES or words.normal(name) in self._public or name.isdigit():
            return
        if lowered not in self._words:
            self._words[lowered] = (kind, name)
            self._pattern = None
        if kind == "host":
            short = lowered.partition(".")[0]
            if short != lowered and short not in words.COMMON_NAMES | self._public and len(short) >= _LEAST:
                self._words.setdefault(short, (kind, name))
            self._learn_domain(lowered.partition(".")[2])
            stem = re.sub(r"\d+$", "", short)
            if stem != short and len(stem.rstrip("-_")) > _LEAST and stem.rstrip("-_") not in words.COMMON_NAMES:
                self._stems.add(stem)

    def _learn_domain(self, domain: str) -> None:
        """The domain of a machine tells whose it is, whichever machine of it is named elsewhere."""
        while "." in domain and not words.PUBLIC_HOSTS.fullmatch(domain):
            if len(domain) > len("co.uk"):
                self._words.setdefault(domain, ("host", domain))
            domain = domain.partition(".")[2]

    def _learn_project(self, name: str) -> None:
        if len(name) > _LEAST and not self._is_public(name):
            self._learn_word("project", name)

    # -- replacing -------------------------------------------------------------------------------------------------

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a snapshot document in which nothing tells who and where. Digests of the original are left out."""
        self.learn(document)
        copy: dict[str, Any] = {}
        for name, section in document.items():
            copy[name] = self._value((name,), section)
        meta = copy.get("meta")
        if isinstance(meta, dict):
            for derived in ("digests", "fingerprint"):
                meta.pop(derived, None)
        return copy

    def text(self, text: str) -> str:
        """A text (a log, a command, a rendering) in which nothing tells who and where."""
        return self._known_words(words.ANY.sub(self._found, text))

    def value(self, path: tuple[str, ...], value: Any) -> Any:
        """A fact's value in which nothing tells who and where; its path says what kind of name it is."""
        return self._value(path, value)

    def path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """A fact's path, whose parts may be names as well: a GPU, a repository."""
        return path[:1] + tuple(self.text(part) for part in path[1:])

    def redactions(self) -> list[Redaction]:
        """What was replaced so far, in the order of the aliases."""
        rows = [
            Redaction(kind, original, self._aliases[kind, original], count)
            for (kind, original), count in self._counts.items()
        ]
        order = list(REASONS)
        return sorted(rows, key=lambda row: (order.index(row.kind), int(row.alias.rpartition("-")[2]), row.original))

    def _value(self, path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(path, key): self._value((*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(path, item) for item in value]
        if not isinstance(value, str) or not value:
            return value
        kind = words.kind_of_field(path)
        if kind and value.lower() not in words.NOBODY and not words.ALIAS.fullmatch(value):
            return self._field(kind, value)
        if path[0] == "source" and path[1:2] and path[1] in self._private_sources and path[-1] in words.OF_A_REPOSITORY:
            return self._use("project", value)
        if path[0] == "events":
            value = self._event(value)
        if path[-1] == "image":
            return self._image_field(value)
        if path[0] in words.VERSIONED and words.DOTTED.fullmatch(value):
            return value
        return self.text(value)

    def _key(self, path: tuple[str, ...], key: str) -> str:
        if len(path) == 1 and path[0] in ("meta", "schema", "outcome"):
            return key
        return self.text(key)

    def _field(self, kind: str, value: str) -> str:
        """A value that is private as a whole; an address keeps its port."""
        changed = self.text(value)
        if kind == "user" and value == "root":
            return value
        if kind != "host":
            return changed if changed != value else self._use(kind, value)
        bare = words.bare_host(value)
        if changed != value or bare.lower() in words.NOBODY or "/" in bare or words.PUBLIC_HOSTS.fullmatch(bare):
            return changed
        if words.DOTTED.fullmatch(bare) or bare.isdigit():
            return changed
        return value.replace(bare, self._use("host", bare), 1)

    def _event(self, value: str) -> str:
        """An event without the message of a commit to a private repository."""
        move = words.REFLOG.match(value)
        is_private = move is not None and move.group(2) in self._private_sources
        return move.group(1) + self._use("project", move.group(3)) if move and is_private else value

    def _image_field(self, value: str) -> str:
        first, slash, rest = value.partition("/")
        if slash and ("." in first or ":" in first) and not words.PUBLIC_HOSTS.fullmatch(first.partition(":")[0]):
            return f"{self._use('registry', first)}/{self.text(rest.rpartition('/')[2])}"
        return self.text(value)

    def _alias(self, kind: str, original: str) -> str:
        known = self._aliases.get((kind, original))
        if known is None:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            known = self._aliases[kind, original] = f"{kind}-{self._numbers[kind]}"
        return known

    def _use(self, kind: str, original: str) -> str:
        if words.ALIAS.fullmatch(original):
            return original
        alias = self._alias(kind, original)
        self._counts[kind, original] = self._counts.get((kind, original), 0) + 1
        return alias

    def _known_words(self, text: str) -> str:
        if not self._words:
            return text
        if self._pattern is None:
            names = sorted(self._words, key=len, reverse=True)
            stems = "".join(f"|{re.escape(stem)}(?:\\d+|\\[[\\d,-]+\\])" for stem in sorted(self._stems))
            self._pattern = re.compile(
                rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, names))}{stems})(?![A-Za-z0-9])", re.IGNORECASE
            )
        return self._pattern.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        kind, original = self._words.get(found.group().lower(), ("host", found.group()))
        return self._use(kind, original)

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _found(self, found: re.Match[str]) -> str:
        name = found.lastgroup or ""
        return str(getattr(self, f"_{name}")(found.group(), found))

    def _serial(self, text: str, _found: re.Match[str]) -> str:
        name, number = re.fullmatch(r"(.*?[\s\"':=])([\w-]+)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        return text if not set(number) - set("0") else name + self._use("serial", number)

    def _uuid(self, text: str, _found: re.Match[str]) -> str:
        known = self._words.get(text.lower()) or self._words.get(text.partition("-")[2].lower())
        if known is not None:
            return self._use(*known)
        kind = {"GPU": "gpu", "MIG": "mig"}.get(text[:3], "uuid")
        return self._use(kind, text)

    def _bucket(self, text: str, _found: re.Match[str]) -> str:
        scheme, _, rest = text.partition("://")
        name, slash, key = rest.rpartition("@")[2].partition("/")
        hidden = f"{scheme}://{self._use('bucket', name)}"
        return f"{hidden}/{self._use('path', key)}" if slash and key else hidden + slash

    def _bucket_host(self, text: str, _found: re.Match[str]) -> str:
        inner = words.BUCKET_HOST.match(text)
        name = (inner.group(1) or inner.group(2)) if inner else text
        key = (inner.group(3) or "").strip("/") if inner else ""
        return f"https://{self._use('bucket', name)}" + (f"/{self._use('path', key)}" if key else "")

    def _url(self, text: str, _found: re.Match[str]) -> str:
        inner = words.URL.match(text)
        if inner is None:
            return text
        scheme, user, host, port, path = (inner.group(number) or "" for number in range(1, 6))
        bare = host.strip("[]")
        if words.PUBLIC_HOSTS.fullmatch(host) and "://" not in path:
            return text
        if user and "<redacted" not in user and user.rstrip("@") not in ("git", "token"):
            user = self._use("user", user.partition(":")[0].rstrip("@")) + "@"
        if words.is_everyone(bare):
            hidden = host
        elif words.DOTTED.fullmatch(bare) or ":" in bare:
            hidden = self._use("ip", bare)
        else:
            hidden = self._host(host)
        if path and not _API_PATH.fullmatch(path):
            path = f"/{self._use('path', path.strip('/'))}"
        return f"{scheme}://{user}{hidden}{port}{path}"

    def _host(self, name: str) -> str:
        if words.ALIAS.fullmatch(name) or name.lower() in words.NOBODY:
            return name
        known = self._words.get(name.lower())
        return self._use(*known) if known is not None else self._use("host", name)

    def _scp(self, text: str, _found: re.Match[str]) -> str:
        user, _, rest = text.partition("@")
        host, _, path = rest.partition(":")
        if words.PUBLIC_HOSTS.fullmatch(host):
            return text
        return f"{user if user == 'git' else self._use('user', user)}@{self._host(host)}:{self._use('path', path)}"

    def _mail(self, text: str, _found: re.Match[str]) -> str:
        user, _, host = text.partition("@")
        if user == "git":  # the account of every git server
            return text if words.PUBLIC_HOSTS.fullmatch(host) else f"git@{self._host(host)}"
        known = self._words.get(user.lower())
        hidden = self._use(*known) if known is not None else self._use("user", user)
        return f"{hidden}@{self._host(host)}"

    def _image(self, text: str, _found: re.Match[str]) -> str:
        registry, _, rest = text.partition("/")
        if words.PUBLIC_HOSTS.fullmatch(registry.partition(":")[0]):
            return text
        return f"{self._use('registry', registry)}/{rest.rpartition('/')[2]}"

    def _mac(self, text: str, _found: re.Match[str]) -> str:
        return text if set(text) <= set("0:-") else self._use("mac", text)

    def _guid(self, text: str, _found: re.Match[str]) -> str:
        return text if set(text) <= set("0:x") else self._use("guid", text)

    def _ipv6(self, text: str, _found: re.Match[str]) -> str:
        return self._use("ip", text) if text.count(":") > 1 and any(map(str.isdigit, text)) else text

    def _ipv4(self, text: str, found: re.Match[str]) -> str:
        address = re.match(r"[\d.]+", text)
        bare = address.group() if address else text
        if words.is_everyone(bare):
            return text
        is_address = len(bare) < len(text)
        before = found.string[max(found.start() - 40, 0) : found.start()]
        if not is_address and (bare in self._versions or words.VERSION_BEFORE.search(before)):
            return text
        return text.replace(bare, self._use("ip", bare), 1)

    def _fqdn(self, text: str, _found: re.Match[str]) -> str:
        return self._host(text)

    def _path(self, text: str, _found: re.Match[str]) -> str:
        parts = text.split("/")
        if len(parts) > 1 and (parts[1] in words.SYSTEM_ROOTS or (parts[1] == "usr" and parts[2:3] != ["local"])):
            return text
        shown: list[str] = []
        for place, part in enumerate(parts):
            before = parts[place - 1] if place else ""
            if not part or (place == 0 and part == "~"):
                shown.append(part)
            elif "…" in part:  # cut off by a rendering: what is left of the name may be private all the same
                shown.append("…")
            elif before in ("home", "Users", "users"):
                shown.append(self._account(part))
            elif part in ("site-packages", "dist-packages"):
                return "/".join([*shown, *parts[place:]])
            elif self._is_public(part) or (place == len(parts) - 1 and place > 1 and words.KEPT_SUFFIX.fullmatch(part)):
                shown.append(part)
            else:
                shown.append(self._use(*self._words.get(part.lower(), ("path", part))))
        return "/".join(shown)

    def _account(self, name: str) -> str:
        if words.ALIAS.fullmatch(name) or name in ("root", "ubuntu"):
            return name
        return self._use("user", self._words.get(name.lower(), ("", name))[1])

    def _is_public(self, part: str) -> bool:
        return (
            part in words.PUBLIC_PARTS
            or words.normal(part) in self._public
            or words.ALIAS.fullmatch(part) is not None
            or words.PUBLIC_SHAPES.fullmatch(part) is not None
        )
