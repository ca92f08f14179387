"""config: the files outside the environment that set variables of NCCL, options of the kernel modules and the like.

Each by a short slug with its path, a digest and its settings. Sources of truth: NCCL's own search (`initEnv` in
NCCL's src/misc/param.cc), modprobe.d(5), pam_env(8), and `ENVSNAP_CONFIG_FILES` for what the user lists.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.declare import collector
from envsnap.collect.env import is_captured, readable
from envsnap.collect.machine.inside import inside
from envsnap.collect.small_hash import sha256
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

    Parse = Callable[[str], dict[str, str]]

FACTS = [
    FactSpec("config.*.path", IDENTITY, "string", "Where the file lies, links not followed", weight=2),
    FactSpec("config.*.digest", IDENTITY, "string", "`sha256:` of the file's contents", weight=2),
    FactSpec(
        "config.*.settings.*", IDENTITY, "string",
        "What the file sets: a variable (nccl.conf, /etc/environment), a module's option (modprobe.d)",
        weight=5, secret=True,
    ),
]  # fmt: skip

LARGEST = 4 << 20
"""Bytes of one file; a larger one is named but neither digested nor read."""
MODPROBE = "/etc/modprobe.d"
FILES = 64
"""The most files of one kind."""

_OPTION = re.compile(r'([A-Za-z0-9_-]+)=("[^"]*"|\S+)')


@collector(section="config", facts=FACTS, deadline=2.0)
def collect_config(host: Host) -> Facts:
    """Look for each file that NCCL, the module loader or the login reads, and for those that the user lists."""
    files = inside(host)
    if isinstance(files, Missing):
        return {"config": files}
    found: Facts = {}
    paths: set[str] = set()
    for slug, path, parse, is_named in _candidates(files, host):
        table = _describe(files, path, parse, is_named=is_named) if path not in paths else None
        if table is not None:
            found[free_slug(slug, found)] = table
            paths.add(path)
    return {"config": found}


def _candidates(files: Host, host: Host) -> Iterator[tuple[str, str, Parse | None, bool]]:
    """Slug, path and parser of every file that may be there, and whether somebody named it."""
    environ = host.environ
    if environ.get("NCCL_CONF_FILE"):
        yield "nccl-conf-file", _absolute(host, environ["NCCL_CONF_FILE"]), nccl_settings, True
    home = home_directory(files, host)
    if home:  # NCCL from 2.23 on leaves it out where NCCL_CONF_FILE is set
        yield "home-nccl-conf", f"{home}/.nccl.conf", nccl_settings, False
    yield "etc-nccl-conf", "/etc/nccl.conf", nccl_settings, False
    if environ.get("NCCL_TOPO_FILE"):
        yield "nccl-topo-file", _absolute(host, environ["NCCL_TOPO_FILE"]), None, True
    yield "etc-environment", "/etc/environment", environment_settings, False
    for name in _modprobe_files(files):
        yield f"modprobe-{slug_of(name.removesuffix('.conf'))}", f"{MODPROBE}/{name}", module_options, False
    for path in environ.get("ENVSNAP_CONFIG_FILES", "").split(":")[:FILES]:
        if path:
            yield slug_of(os.path.basename(path)), _absolute(host, path), None, True


def _absolute(host: Host, path: str) -> str:
    return os.path.normpath(os.path.join(host.cwd or "/", path))


def _modprobe_files(files: Host) -> list[str]:
    try:
        names = files.listdir(MODPROBE)
    except OSError:
        return []
    return [name for name in names if "nvidia" in name and name.endswith(".conf")][:FILES]


def home_directory(files: Host, host: Host) -> str | None:
    """The home directory as NCCL finds it: by the account. One of a directory service, which could block, by HOME."""
    status = host.stat(f"/proc/{host.pid}") if host.pid is not None else None
    uid = str(status.st_uid if status else os.getuid())
    try:
        accounts = files.read_text("/etc/passwd")
    except OSError:
        accounts = ""
    for line in accounts.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2] == uid:  # noqa: PLR2004 - passwd(5): name, x, uid, gid, gecos, home
            return fields[5].rstrip("/") or None
    return (host.environ.get("HOME") or "").rstrip("/") or None


def slug_of(name: str) -> str:
    """A short key made of a file's name: `50-DeviceAllow.conf` is `50-deviceallow-conf`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "file"


def free_slug(slug: str, taken: Facts) -> str:
    """A key that is not taken: the slug, else with a number behind it."""
    number, free = 1, slug
    while free in taken:
        number += 1
        free = f"{slug}-{number}"
    return free


def _describe(files: Host, path: str, parse: Parse | None, *, is_named: bool) -> Facts | None:
    """A file's facts; None where it is not there. One that is asked for by name is told of although it is absent."""
    data = read_whole(files, path)
    if data is None:
        return {"path": readable(path)} if is_named else None
    if isinstance(data, Missing):
        return {"path": readable(path), "digest": data, "settings": data if parse else None}
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    settings = parse(text) if parse else {}
    return {
        "path": readable(path),
        "digest": digest_of(data),
        "settings": {readable(name): readable(value) for name, value in settings.items()} or None,
    }


def read_whole(files: Host, path: str) -> bytes | Missing | None:
    """A file's bytes; None where it is not there, a reason where it cannot be read or is too large to be a setting."""
    try:
        data = files.read_bytes(files.realpath(path), LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return missing_from(error)
    if len(data) > LARGEST:
        return Missing("unsupported", f"{path}: larger than {LARGEST >> 20} MiB")
    return data


def digest_of(data: bytes) -> str:
    """`sha256:` and the digest of some bytes."""
    return f"sha256:{sha256(data).hex()}"


# -- formats ---------------------------------------------------------------------------------------------------------


def nccl_settings(text: str) -> dict[str, str]:
    """nccl.conf as NCCL reads it: `NAME=value` to the end of the line, blanks kept, `#` only at its start."""
    settings: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and name and not line.startswith("#"):
            settings.setdefault(name, value)  # NCCL does not set a variable twice
    return settings


def environment_settings(text: str) -> dict[str, str]:
    """/etc/environment as pam_env reads it; only variables that would be captured from the environment."""
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name = name.strip()
        if equals and is_captured(name) and not name.startswith("#"):
            settings[name] = value.strip().strip("\"'")
    return settings


def module_options(text: str) -> dict[str, str]:
    """The `options MODULE name=value` lines of a modprobe.d file; a later one wins, as it does in the kernel."""
    settings = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[0] == "options" and words[1].startswith("nvidia"):  # noqa: PLR2004
            for name, value in _OPTION.findall(words[2].partition(" #")[0]):
                settings[name] = value.strip('"')
    return settings
