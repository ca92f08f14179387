"""Which network plugin NCCL would load: the file that its dlopen finds, not one that merely lies somewhere.

NCCL asks the loader for `libnccl-net.so`, or for NAME and then `libnccl-net-NAME.so` where NCCL_NET_PLUGIN names one;
`none` or an empty value asks for no plugin (NCCL's src/plugin/net.cc and plugin_open.cc). The loader looks in
LD_LIBRARY_PATH, its cache and the system's folders. A plugin in a folder that none of them names, as
/opt/amazon/ofi-nccl can be, is not found: then NCCL falls back to its own sockets without an error.
"""

from __future__ import annotations

import os

from envsnap.collect.loading.cache import cached_paths
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host

SYSTEM_FOLDERS = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/lib64", "/usr/lib64", "/lib", "/usr/lib",
)  # fmt: skip
FOLDERS = 64
"""The most parts of LD_LIBRARY_PATH that are looked into."""


def find_nccl_plugin(host: Host) -> str | Missing | None:
    """The path of the plugin's file; None where NCCL uses its own transports."""
    if "environ" in host.denied:
        return host.denied["environ"]
    wanted = host.environ.get("NCCL_NET_PLUGIN", "libnccl-net.so")
    if wanted.lower() == "none":
        return None
    for name in [name for plugin in wanted.split(",") if plugin for name in _file_names(plugin)]:
        if "/" in name:
            if host.is_file(os.path.join(host.cwd or "/", name)):
                return name
            continue
        found = _load(host, name)
        if found is not None:
            return found
    return None


def _file_names(plugin: str) -> list[str]:
    if "/" in plugin or (plugin.startswith("lib") and plugin.endswith(".so")):
        return [plugin]
    return [plugin, f"libnccl-net-{plugin}.so"]


def _load(host: Host, name: str) -> str | Missing | None:
    """What a dlopen of a bare name finds."""
    for folder in _library_path(host):
        if host.is_file(f"{folder}/{name}"):
            return f"{folder}/{name}"
    try:
        cached = cached_paths(host, name)
    except FileNotFoundError:
        cached = []
    except OSError as error:
        return missing_from(error)
    if cached:
        return cached[0]
    for folder in SYSTEM_FOLDERS:
        if host.is_file(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return None


def _library_path(host: Host) -> Iterator[str]:
    for folder in host.environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")[:FOLDERS]:
        if folder:
            yield os.path.normpath(os.path.join(host.cwd or "/", folder))
