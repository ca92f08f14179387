"""Commands that print one version: `python --version`, `nvcc --version`, `uname -a`, dpkg, the driver's own file.

And what a heading says about the machine that follows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_nvcc
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SOURCE = "version-lines"
DRIVER, DPKG = "nvidia-driver", "dpkg"

_PYTHON = re.compile(r"Python (\d\.\d{1,2}\.\d{1,2}\S{0,20})$")
_NVCC = re.compile(r"Cuda compilation tools, release (\d{1,2}\.\d), V(\d{1,2}\.\d\.\d{1,4})")
_UNAME = re.compile(
    r"Linux (\S{1,100}) (\d\.\d{1,2}\S{0,100}) #\S.{0,200} (x86_64|aarch64|ppc64le|riscv64)(?: GNU/Linux)?$"
)
_OS_NAME = re.compile(r'PRETTY_NAME="([^"]{2,100})"')
_GCC = re.compile(r"gcc \([^)]{1,80}\) (\d{1,2}\.\d{1,2}\.\d{1,2})")
_LDD = re.compile(r"ldd \([^)]{1,80}\) (\d\.\d{1,2})$")
_NVRM = re.compile(
    r"NVRM version:? NVIDIA UNIX (?:Open )?(?:\S{1,20} )?Kernel Module(?: for \S{1,20})?\s{1,8}(\d{3}\.\d{1,3}(?:"
    r"\.\d{1,3})?)"
)
_MODULE_GCC = re.compile(r"GCC version:  ?gcc version (\d{1,2}\.\d{1,2}\.\d{1,2})")
_DPKG = re.compile(r"[ih]i\s{1,8}([a-z0-9][a-z0-9+.-]{1,100})(?::\w{1,12})?\s{1,80}(\S{1,100})(?:\s|$)")
_MODINFO = re.compile(r"version:\s{4,20}(\d{3}\.\d{1,3}(?:\.\d{1,3})?)$")
_ULIMIT = re.compile(
    r"(max locked memory|open files|max user processes|stack size)\s{1,40}\(([^)]{1,30})\) (\S{1,24})$"
)
_HEADING = re.compile(
    r"(?:#{1,6} {0,3}|={2,}>? ?|-{2,} ?)?(?:on |for )?"
    r"((?:node|host|machine|rank)(?:[ _-][\w.-]{1,60}|\d[\w.-]{0,60}))(?: ?"
    r"\([^)]{0,60}\))? ?:?(?: ?={2,}| ?<={2,}| ?-{2,})?$",
    re.IGNORECASE,
)
_USERSPACE = re.compile(
    r"(?:nvidia-smi|nvidia-utils|libnvidia-compute|nvidia-driver-libs|nvidia-driver-cuda)(?:-\d{3})?(?:-server)?$"
)
_FABRIC = re.compile(r"(?:nvidia-fabricmanager|nvidia-fabric-manager|cuda-drivers-fabricmanager)(?:-\d{3})?$")
_DKMS = re.compile(
    r"(?:nvidia-dkms|nvidia-kernel-dkms|nvidia-open-kernel-dkms)(?:-\d{3})?(?:-open|-server|-server-open)?$"
)
_OF_THE_STACK = re.compile(
    r"nvidia|libnvidia|cuda|libcud|libnccl|libcublas|libnvinfer|linux-image|linux-modules|docker|containerd|libibv"
    r"erbs|rdma|mlnx|ofed|openmpi|libfabric|datacenter"
)
_ULIMITS = {
    "max locked memory": ("memlock", 1024),
    "open files": ("nofile", 1),
    "max user processes": ("nproc", 1),
    "stack size": ("stack", 1024),
}
_APT = re.compile(r"(?:Upgrade|Install|Downgrade|Remove): ([\w.+-]{1,100}):\w{1,12} \(")
_APT_CHANGE = re.compile(r"([\w.+-]{1,100}):\w{1,12} \(([^,()]{1,100}), ([^,()]{1,100})\)")


class VersionLineReader(Reader):
    """Lines that are a version by themselves."""

    signs = ("NVRM version",)
    longest = 1 << 16

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._is_driver_file = False

    def read(self, line: Line) -> bool:
        """Try each form."""
        text = line.bare
        if not text:
            return False
        was_driver_file, self._is_driver_file = self._is_driver_file, False
        if was_driver_file:
            found = _MODULE_GCC.match(text)
            if found:
                self.findings.block(DRIVER, line.number, line.label).put(
                    ("driver", "module_gcc"), found.group(1), line.number
                )
                return True
        if len(text) > 400:  # noqa: PLR2004 - only apt writes long lines
            return text.startswith("Upgrade: ") and self._apt(text)
        if len(text) < 80 and self._heading(line, text):  # noqa: PLR2004 - a heading is short
            return False
        return self._driver(line, text) or self._dpkg(line, text) or self._simple(line, text) or self._apt(text)

    def _heading(self, line: Line, text: str) -> bool:
        found = _HEADING.match(text)
        if not found or line.label:
            return False
        is_marked = text[0] in "#=-" or text.endswith(("=", "-", ":"))
        if is_marked or any(map(str.isdigit, found.group(1))):
            self.findings.heading = " ".join(found.group(1).split())
            return True
        return False

    def _driver(self, line: Line, text: str) -> bool:
        found = _NVRM.search(text) if "NVRM version" in text else None
        if found:
            block = self.findings.block(DRIVER, line.number, line.label)
            block.put(("driver", "version"), found.group(1), line.number)
            block.put(("driver", "flavor"), "open" if "Open Kernel" in text else "proprietary", line.number)
            self._is_driver_file = True
            return True
        found = _MODINFO.match(text)
        if found:
            self.findings.block(DRIVER, line.number, line.label).put(
                ("driver", "disk_version"), found.group(1), line.number
            )
            return True
        return False

    def _dpkg(self, line: Line, text: str) -> bool:
        found = _DPKG.match(text)
        if not found:
            return text.startswith(("Desired=Unknown/", "||/ Name", "+++-", "| Status=Not/", "|/ Err?="))
        name, full = found.groups()
        version = values.driver_version(full)
        block = self.findings.block(DPKG, line.number, line.label)
        if version and _USERSPACE.match(name):
            block.put(("driver", "userspace_version"), version, line.number)
        elif version and _FABRIC.match(name):
            block.put(("driver", "fabric_manager_version"), version, line.number)
        elif version and _DKMS.match(name):
            block.put(("driver", "disk_version"), version, line.number)
        if _OF_THE_STACK.match(name) and len(self.findings.details.get(DPKG, {})) < 1000:  # noqa: PLR2004
            self.findings.note(DPKG, name, full)
        return True

    def _simple(self, line: Line, text: str) -> bool:
        for pattern, path in _VERSIONS:
            found = pattern.match(text)
            if found:
                self.findings.block(SOURCE, line.number, line.label).put(path, found.group(1), line.number)
                return True
        found = _NVCC.search(text) if "compilation tools" in text else None
        if found:
            put_nvcc(self.findings.block(SOURCE, line.number, line.label), found.group(2), line.number)
            return True
        found = _UNAME.match(text) if text.startswith("Linux ") else None
        if found:
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("system", "kernel"), found.group(2), line.number)
            block.put(("system", "arch"), found.group(3), line.number)
            block.put(("meta", "host"), found.group(1), line.number, is_weak=True)
            return True
        found = _LDD.match(text)
        if found:
            self.findings.block(SOURCE, line.number, line.label).put(
                ("system", "libc"), f"glibc {found.group(1)}", line.number
            )
            return True
        return self._ulimit(line, text)

    def _ulimit(self, line: Line, text: str) -> bool:
        found = _ULIMIT.match(text)
        if not found:
            return False
        name, factor = _ULIMITS[found.group(1)]
        value = found.group(3)
        limit: int | str | None = "unlimited" if value == "unlimited" else values.integer(value)
        if isinstance(limit, int):
            limit *= factor
        self.findings.block("ulimit", line.number, line.label).put(("limits", name), limit, line.number)
        return True

    def _apt(self, text: str) -> bool:
        if not _APT.match(text):
            return False
        for name, before, after in _APT_CHANGE.findall(text)[:2000]:
            self.findings.add("apt", "changes", f"{name} {before} -> {after}")
        return True


_VERSIONS = (
    (_PYTHON, ("python", "version")),
    (_OS_NAME, ("system", "os")),
    (_GCC, ("system", "gcc")),
)
