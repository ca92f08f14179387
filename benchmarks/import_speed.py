"""How fast `envsnap import` reads long logs, in how much memory, and whether hostile texts cost more than their length.

Each log is written to a temporary file and read by the installed command; the megabytes a second are those of its
processor time beside those of `md5sum` on the same file, so that a busy machine does not decide. Memory is compared
with that of a quarter of the file. Hostile texts are read at one and at twice their size: a ratio far above 2 would be
a pattern that backtracks.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SIZE = int(os.environ.get("SIZE_MB", "300")) * 1_000_000
TARGET = 50
"""Megabytes a second."""
LENGTH = 400_000

START = "[2026-09-12 08:00:00] server_args=ServerArgs(model_path='m', tp_size=8, mem_fraction_static=0.9)\n"


def sglang(number: int, chance: random.Random) -> str:
    clock = f"[2026-09-12 {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
    if number % 10 < 7:
        speed = f"{chance.random() * 999:.2f}"
        return (
            f"{clock} TP{number % 8}] Decode batch. #running-req: {chance.randrange(200)}, "
            f"#token: {chance.randrange(99999)}, token usage: 0.{chance.randrange(99)}, "
            f"gen throughput (token/s): {speed}, #queue-req: 0\n"
        )
    client = f"10.0.0.{number % 256}:{chance.randrange(60000)}"
    return f'{clock}] INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def vllm(number: int, chance: random.Random) -> str:
    clock = f"09-12 08:{number // 60 % 60:02d}:{number % 60:02d}"
    speed, usage = f"{chance.random() * 9999:.1f}", f"{chance.random() * 100:.1f}"
    return (
        f"(APIServer pid=1) INFO {clock} [loggers.py:127] Engine 000: Avg prompt throughput: {speed} tokens/s, "
        f"Running: {chance.randrange(99)} reqs, GPU KV cache usage: {usage}%, "
        f"request id chatcmpl-{chance.getrandbits(128):032x}\n"
    )


def nccl(number: int, chance: random.Random) -> str:
    return (
        f"node{number % 16}:{1000 + number % 8}:{chance.randrange(9999)} [{number % 8}] NCCL INFO "
        f"Channel {number % 32:02d}/0 : {number % 128}[{number % 8}] -> {(number + 1) % 128}[{(number + 1) % 8}] "
        f"via P2P/CUMEM comm 0x{chance.getrandbits(48):x}\n"
    )


def words(_number: int, chance: random.Random) -> str:
    return " ".join(f"{chance.getrandbits(40):x}" for _ in range(12)) + " version of the environment\n"


def translated(number: int, chance: random.Random) -> str:
    request, seconds = f"{chance.getrandbits(64):x}", f"{chance.random():.3f}"
    return f"2026-09-12 08:00:{number % 60:02d} 信息：请求 {request} 已完成，耗时 {seconds} 秒，没有错误\n"


LOGS: dict[str, Callable[[int, random.Random], str]] = {
    "sglang serving": sglang,
    "vllm serving, random ids": vllm,
    "nccl, every line telling": nccl,
    "random words with a sign": words,
    "not ascii": translated,
}
HOSTILE = {
    "spaces": " " * LENGTH + "x",
    "quotes": "server_args=ServerArgs(a=" + "'" * LENGTH,
    "brackets": "server_args={'a':" + "[" * LENGTH,
    "json": '{"a":' * (LENGTH // 5),
    "fences": "```\n" * (LENGTH // 4),
    "details": "<details>\n" * (LENGTH // 10),
    "angles": "<" * LENGTH,
    "bars": "|" * LENGTH,
    "dashes": "vllm serve " + "--" * (LENGTH // 2),
    "assignments": "A=1 " * (LENGTH // 4) + "vllm serve m",
    "unclosed": "{\n" + '"a": [\n' * (LENGTH // 7),
    "prefixes": "[rank0]: " * (LENGTH // 9),
    "escapes": "\x1b[1;" * (LENGTH // 4),
}


def write(path: Path, size: int, line: Callable[[int, random.Random], str]) -> None:
    """A log of a size: a start near its end, so that the whole of it has to be read."""
    chance = random.Random(1)
    block = "".join(line(number, chance) for number in range(200_000))
    rest = size
    with path.open("w", encoding="utf-8") as file:
        while rest > 0:
            rest -= len(block.encode())
            file.write(block)
            # Other ids in each repetition: what is remembered of a line must not help with the next.
            block = "".join(line(number, chance) for number in range(200_000))
        file.write(START)


def cost(argv: list[str]) -> tuple[float, float]:
    """Processor seconds and peak MiB of a command."""
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execvp(argv[0], argv)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{argv} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    program = str(Path(sys.executable).parent / "envsnap")
    slow = 0
    print(f"{'log':28} {'MB/s':>6} {'md5sum':>8} {'peak MiB':>9} {'of a quarter':>13}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ENVSNAP_STORE"] = str(Path(folder) / "store")
        path, quarter = Path(folder) / "a.log", Path(folder) / "b.log"
        for name, line in LOGS.items():
            write(path, SIZE, line)
            write(quarter, SIZE // 4, line)
            base, _ = cost(["md5sum", str(path)])
            seconds, peak = cost([program, "import", "--stdout", str(path)])
            _, small = cost([program, "import", "--stdout", str(quarter)])
            megabytes = path.stat().st_size / 1e6
            slow += megabytes / seconds < TARGET
            print(f"{name:28} {megabytes / seconds:6.0f} {megabytes / base:8.0f} {peak:9.0f} {small:13.0f}", flush=True)
    print(f"\n{'hostile text':28} {'seconds':>8} {'of twice its length':>20}")
    for name, text in HOSTILE.items():
        one, two = (in_process(text * times) for times in (1, 2))
        print(f"{name:28} {one:8.2f} {two / max(one, 0.01):20.1f}", flush=True)
    return 1 if slow else 0


def in_process(text: str) -> float:
    from envsnap.ingest import read_text

    began = time.process_time()
    read_text(text)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
