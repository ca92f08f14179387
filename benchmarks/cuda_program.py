"""A CUDA program of the driver's interface alone: it fills memory, reads it back, and says whether that ever failed.

    python benchmarks/cuda_program.py SECONDS

Prints one JSON object: `iterations`, `errors` (words that were not what had been written, and calls that failed), and
`longest_ms`, the longest iteration. It is what a capture must leave alone.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

WORDS = 16 << 20
"""64 MiB of 32-bit words."""
SAMPLE = 4096


class Cuda:
    """The driver's functions; each raises where it does not return 0."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of libcuda."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} returned {code}")


def main(seconds: float) -> int:
    """Fill and check until the time is over."""
    cuda = Cuda()
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGet", ctypes.byref(device), 0)
    cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda.call("cuCtxSetCurrent", context)
    cuda.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * WORDS))
    sample = (ctypes.c_uint32 * SAMPLE)()
    iterations = errors = 0
    longest = 0.0
    until = time.monotonic() + seconds
    print("running", file=sys.stderr, flush=True)
    while time.monotonic() < until:
        began = time.monotonic()
        cuda.call("cuMemsetD32_v2", memory, ctypes.c_uint(iterations), ctypes.c_size_t(WORDS))
        cuda.call("cuCtxSynchronize")
        place = ctypes.c_uint64(memory.value + 4 * (WORDS - SAMPLE))
        cuda.call("cuMemcpyDtoH_v2", sample, place, ctypes.c_size_t(4 * SAMPLE))
        errors += sum(word != iterations for word in sample)
        longest = max(longest, time.monotonic() - began)
        iterations += 1
    cuda.call("cuMemFree_v2", memory)
    cuda.call("cuDevicePrimaryCtxRelease_v2", device)
    print(json.dumps({"iterations": iterations, "errors": errors, "longest_ms": round(longest * 1000, 2)}))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
