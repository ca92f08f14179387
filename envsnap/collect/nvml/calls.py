"""Questions to NVML, each announced before it is asked and guarded by itself.

One answer that does not come must not cost another: `ask` returns the value, None where the GPU, the driver
or the binding does not have the feature, or `Missing` where there is an answer and it could not be had. What
the return codes of NVML mean is in its header, nvml.h; what its Python binding does with them was read in
nvidia-ml-py 12.535 to 13.615.
"""

from __future__ import annotations

import sys

from envsnap.collect.progress import at
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999

# Codes that say "not here": invalid argument (a link that the card has not), not supported, not found, a
# function that the driver does not have, no data, a structure that it does not know, a question it gave up.
_DOES_NOT_EXIST = frozenset((2, NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, 21, 25, 26))

_WORDS = {
    1: "not initialised",
    NO_PERMISSION: "no permission",
    8: "power cable not attached",
    DRIVER_NOT_LOADED: "driver not loaded",
    10: "timeout in the driver",
    11: "interrupt trouble",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 not found",
    14: "corrupted infoROM",
    GPU_IS_LOST: "GPU is lost",
    16: "GPU requires a reset",
    17: "blocked by the operating system",
    VERSION_MISMATCH: "driver/library version mismatch",
    19: "in use",
    20: "insufficient memory",
    23: "insufficient resources",
    UNKNOWN: "unknown error",
}


class NvmlRefusedError(Exception):
    """NVML cannot be used at all: its return `code`, or 0 where the binding itself is the trouble."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Nvml:
    """An initialised NVML; `close` ends it. `last_code` is the return code of the latest question."""

    def __init__(self, binding: Any) -> None:
        self._binding = binding
        self.last_code = 0

    def ask(self, name: str, *arguments: Any, about: str = "", read: Callable[[Any], Any] | None = None) -> Any:
        """The answer of one function, converted by `read`: a value, None (does not exist) or `Missing`."""
        self.last_code = 0
        function = getattr(self._binding, name, None)
        if function is None:  # an older binding
            return None
        at(f"{name}({about})")
        try:
            answer = function(*arguments)
            return answer if read is None else read(answer)
        except Exception as error:  # noqa: BLE001 - the binding raises far more than its own NVMLError
            self.last_code = _code(error)
            return outcome(error)

    def handle(self, index: int) -> Any:
        """The handle of a GPU, or why there is none: here the driver attaches it, so here it hangs."""
        return self.ask("nvmlDeviceGetHandleByIndex", index, about=f"GPU {index}")

    def close(self) -> None:
        """End the session; an error changes nothing any more."""
        self.ask("nvmlShutdown")


class Gpu:
    """One device behind a handle, with the name that people know it by."""

    __slots__ = ("handle", "index", "is_lost", "key", "label", "nvml", "pci", "uuid")

    def __init__(self, nvml: Nvml, handle: Any, index: int, label: str) -> None:
        self.nvml = nvml
        self.handle = handle
        self.index = index
        self.label = label
        self.key = ""
        self.pci = ""
        self.uuid = ""
        self.is_lost = False

    def ask(self, name: str, *arguments: Any, read: Callable[[Any], Any] | None = None) -> Any:
        """As `Nvml.ask`, about this GPU. A lost one is not asked again: each question can take seconds."""
        if self.is_lost:
            return None
        answer = self.nvml.ask(name, self.handle, *arguments, about=self.label, read=read)
        self.is_lost = self.nvml.last_code == GPU_IS_LOST
        return None if self.is_lost else answer

    def number(self, name: str, *arguments: Any) -> int | None:
        """The answer where it is a whole number; None where it is anything else."""
        answer = self.ask(name, *arguments)
        return answer if isinstance(answer, int) else None


def open_nvml() -> Nvml:
    """Load nvidia-ml-py and initialise NVML. Raises NvmlRefusedError."""
    at("import of nvidia-ml-py")
    try:
        binding = _import_binding()
    except Exception as error:
        raise NvmlRefusedError(0, f"nvidia-ml-py cannot be imported: {error}") from error
    at("nvmlInit()")
    try:
        binding.nvmlInit()
    except Exception as error:
        raise NvmlRefusedError(_code(error), f"NVML: {_words(error)}") from error
    return Nvml(binding)


def version_of_loaded_library() -> str | None:
    """What the loaded libnvidia-ml says of itself: drivers from 535 answer without initialisation."""
    binding = sys.modules.get("pynvml")
    answer = Nvml(binding).ask("nvmlSystemGetNVMLVersion", read=text) if binding else None
    return answer if isinstance(answer, str) else None


def outcome(error: Exception) -> Missing | None:
    """What an exception of the binding means for the fact that was asked for."""
    code = _code(error)
    if code in _DOES_NOT_EXIST:
        return None
    if code == NO_PERMISSION:
        return Missing("permission", "NVML")
    if code:
        return Missing("failed", _words(error))
    return Missing("failed", f"answer that cannot be read: {type(error).__name__}")


def text(answer: Any) -> str:
    """A string answer, which the binding gives as text or as bytes."""
    return (answer.decode("utf-8", "backslashreplace") if isinstance(answer, bytes) else str(answer)).strip()


def _code(error: Exception) -> int:
    """The return code behind an exception; 0 where there is none."""
    code = getattr(error, "value", None)
    if isinstance(code, int):
        return code
    # Raised for a function that exists in several versions, this one not; it is no NVMLError.
    return FUNCTION_NOT_FOUND if type(error).__name__ == "NVMLLibraryMismatchError" else 0


def _words(error: Exception) -> str:
    code = _code(error)
    return _WORDS.get(code) or (f"error {code}" if code else f"{type(error).__name__}: {error}")


def _import_binding() -> Any:
    """Import pynvml without the two thirds of its cost that only Windows needs.

    It imports `ctypes.util`, and with it subprocess and shutil, for a function that it never calls on Linux.
    """
    if "ctypes.util" in sys.modules:
        import pynvml

        return pynvml
    stand_in = type(sys)("ctypes.util")
    stand_in.find_library = lambda _name: None  # type: ignore[attr-defined]
    sys.modules["ctypes.util"] = stand_in
    try:
        import pynvml
    finally:
        del sys.modules["ctypes.util"]
    return pynvml
