"""Where the caches of compiled kernels lie: resolved from variables as the programs themselves do it.

Read from the sources of flashinfer-python 0.6.3 and 0.7.4, triton 3.9, torch 2.13 and 2.14, sglang 0.5.10 and
0.5.23, vllm (envs.py, utils/deep_gemm.py), apache-tvm-ffi 0.1.15 and DeepGEMM. FlashInfer, SGLang and TVM-FFI take
`~/.cache` whatever XDG_CACHE_HOME says; vLLM and torch's extensions obey it. Newer SGLang points the others' caches
below its own directory unless their variables are set (`redirect_third_party_caches`).
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from envsnap.host import Host

USER_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Where Python's getpass.getuser looks for the user's name."""


class Place:
    """Where one cache can lie: `paths` in the order in which they are tried; `is_set` if a variable names the one."""

    __slots__ = ("is_set", "paths")

    def __init__(self, paths: list[str], *, is_set: bool = False) -> None:
        self.paths = paths
        self.is_set = is_set


class Places:
    """The places of one launch. `framework`: sglang, vllm or empty where the command does not tell.

    `view`: the files as the launch sees them.
    """

    def __init__(self, host: Host, view: Host) -> None:
        self.host = host
        self.view = view
        self.environ: Mapping[str, str] = host.environ
        self.home = host.home
        self.framework = framework_of(host.argv or [])
        self.sglang = self.environ.get("SGLANG_CACHE_DIR") or self._in_home(".cache/sglang")
        self.xdg = self.environ.get("XDG_CACHE_HOME") or self._in_home(".cache")
        self.vllm = self.environ.get("VLLM_CACHE_ROOT") or _below(self.xdg, "vllm")

    def all(self) -> dict[str, Place]:
        """Every cache of files by its name in the snapshot."""
        return {
            "flashinfer": self._flashinfer(),
            "triton": self._triton(),
            "torchinductor": self._place(
                "TORCHINDUCTOR_CACHE_DIR", self._redirected("inductor"), self._inductor_default()
            ),
            "torch-extensions": self._place("TORCH_EXTENSIONS_DIR", _below(self.xdg, "torch_extensions")),
            "vllm-compile": Place(
                self._known(_below(self.vllm, "torch_compile_cache")), is_set="VLLM_CACHE_ROOT" in self.environ
            ),
            "deep-gemm": self._deep_gemm(),
            "sglang-jit": self._place("SGLANG_JIT_CACHE_DIR", self._in_home(".cache/sglang/jit")),
            "tvm-ffi": self._place("TVM_FFI_CACHE_DIR", self._in_home(".cache/tvm-ffi")),
            "cuda-compute": self._place("CUDA_CACHE_PATH", self._redirected("nv"), self._in_home(".nv/ComputeCache")),
        }

    def p2p_folders(self) -> list[str]:
        """The directories in which vLLM and SGLang keep what they found out about peer access."""
        folders = {"sglang": (self.sglang,), "vllm": (self.vllm,)}
        return self._known(*folders.get(self.framework, (self.vllm, self.sglang)))

    def _flashinfer(self) -> Place:
        base = self.environ.get("FLASHINFER_WORKSPACE_BASE")
        if base:
            return Place(self._known(_below(base, ".cache/flashinfer")), is_set=True)
        return Place(self._ordered(self._redirected(".cache/flashinfer"), self._in_home(".cache/flashinfer")))

    def _triton(self) -> Place:
        home = self.environ.get("TRITON_HOME") or self.home
        place = self._place("TRITON_CACHE_DIR", self._redirected("triton"), _below(home, ".triton/cache"))
        return Place(place.paths, is_set=place.is_set or "TRITON_HOME" in self.environ)

    def _deep_gemm(self) -> Place:
        """SGLang overwrites DeepGEMM's own variable, vLLM fills it where it is empty."""
        of_sglang = self.environ.get("SGLANG_DG_CACHE_DIR") or self.environ.get("SGL_DG_CACHE_DIR")
        own = self.environ.get("DG_JIT_CACHE_DIR") if self.framework != "sglang" else None
        if of_sglang and self.framework != "vllm":
            return Place(self._known(of_sglang), is_set=True)
        if own:
            return Place(self._known(own), is_set=True)
        for_sglang = (_below(self.sglang, "deep_gemm"), self._in_home(".cache/deep_gemm"))
        for_vllm = (_below(self.vllm, "deep_gemm"),)
        if self.framework == "sglang":
            return Place(self._known(*for_sglang))
        if self.framework == "vllm":
            return Place(self._known(*for_vllm))
        return Place(self._known(self._in_home(".deep_gemm"), *for_sglang, *for_vllm))

    def _place(self, variable: str, *defaults: str | None) -> Place:
        given = self.environ.get(variable)
        if given:
            return Place(self._known(given), is_set=True)
        return Place(self._ordered(*defaults))

    def _ordered(self, *defaults: str | None) -> list[str]:
        """SGLang's own place first for SGLang, else last."""
        known = self._known(*defaults)
        return known if self.framework == "sglang" else known[::-1]

    def _redirected(self, name: str) -> str | None:
        return None if self.framework == "vllm" else _below(self.sglang, name)

    def _inductor_default(self) -> str | None:
        user = self._user()
        return user and f"{self._temporary()}/torchinductor_{user}"

    def _temporary(self) -> str:
        """The directory of Python's tempfile: the first that can be written to."""
        given = [self.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
        candidates = [path for path in given if path] + ["/tmp", "/var/tmp", "/usr/tmp"]  # noqa: S108 - tempfile's own
        for path in self._known(*candidates):
            if self.view.is_dir(path) and os.access(self.view.path(path), os.W_OK | os.X_OK):
                return path
        return self.host.cwd or "/"

    def _user(self) -> str | None:
        for name in USER_VARIABLES:
            if self.environ.get(name):
                return re.sub(r'[\\/:*?"<>|]', "_", self.environ[name])
        if self.host.root:
            return None
        import pwd

        owner = os.getuid()
        if self.host.pid is not None:
            process = self.host.stat(f"/proc/{self.host.pid}")
            owner = process.st_uid if process else owner
        try:
            return pwd.getpwuid(owner).pw_name
        except KeyError:
            return f"uid_{owner}"

    def _in_home(self, path: str) -> str | None:
        return _below(self.home, path)

    def _known(self, *paths: str | None) -> list[str]:
        """The paths that are known, made absolute, `~` taken for the launch's home."""
        found = []
        for path in paths:
            if not path:
                continue
            if (path == "~" or path.startswith("~/")) and self.home:
                path = self.home + path[1:]  # noqa: PLW2901
            found.append(os.path.normpath(os.path.join(self.host.cwd or "/", path)))
        return found


def framework_of(argv: list[str]) -> str:
    """Which of sglang and vllm a command starts; empty for another one."""
    for argument in argv[:16]:
        name = os.path.basename(argument)
        for framework in ("sglang", "vllm"):
            if name == framework or name.startswith(f"{framework}."):
                return framework
    return ""


def _below(folder: str | None, path: str) -> str | None:
    return os.path.join(folder, path) if folder else None
