"""Error texts: what they show, which line is the first real error, and logs that do not fit into memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from error_texts import SAMPLES, VLLM_LOG

from envsnap.compat import default
from envsnap.explain.accuse import accuse
from envsnap.explain.components import components
from envsnap.explain.prefilter import required_words
from envsnap.explain.signature_table import compiled, signatures
from envsnap.explain.signatures import KEPT_LINES, KEPT_MATCHES, NOTHING, RANKS, read_log, read_text
from envsnap.explain.view import View

IDS = [signature.id for signature in signatures()]


def test_every_signature_has_a_text_that_shows_it() -> None:
    assert sorted(IDS) == sorted(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_text_shows_its_signature(name: str) -> None:
    assert read_text(SAMPLES[name]).has(name)


@pytest.mark.parametrize("signature", signatures(), ids=lambda signature: signature.id)
def test_a_signature_is_complete(signature: object) -> None:
    one = next(known for known in signatures() if known is signature)
    assert one.rank in RANKS
    assert one.means
    assert one.component in components() or one.rank == "consequence"
    assert one.words == required_words(one.pattern), "run `python -m envsnap.explain.prefilter`"
    assert compiled(one.pattern)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("driver on your system is too old (found version 12020)", "version", "12020"),
        ("CUDA capability sm_120 is not compatible", "capability", "sm_120"),
        ("x.so: undefined symbol: ncclCommRegister", "symbol", "ncclCommRegister"),
        ("/v/x.so: undefined symbol: foo, version libnvJitLink.so.12", "version", "libnvJitLink.so.12"),
        ("libcudart.so.13: cannot open shared object file", "library", "libcudart.so.13"),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /v/a.so)", "version", "GLIBC_2.38"),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /v/a.so)", "library", "/v/a.so"),
        ("NVRM: Xid (PCI:0000:3b:00): 119, pid=1234, Timeout", "xid", "119"),
        ("nvidia-smi says Xid: 48", "xid", "48"),
        ("No module named 'flash_attn'", "module", "flash_attn"),
        ("unrecognized arguments: --tp-size", "option", "tp-size"),
    ],
)
def test_what_a_text_names_is_kept(text: str, name: str, value: str) -> None:
    assert value in [match.names.get(name) for match in read_text(text).matches]


def test_the_first_real_error_comes_before_what_it_leads_to() -> None:
    error = read_text(VLLM_LOG)
    assert error.first is not None
    assert error.first.signature.id == "undefined-symbol"
    assert "engine-died" in {match.signature.id for match in error.matches}
    assert error.components[0] == "symbol"
    assert error.frames[0].endswith("vllm/_custom_ops.py")


def test_a_consequence_alone_is_better_than_nothing() -> None:
    error = read_text("RuntimeError: Engine core initialization failed.")
    assert error.first is not None
    assert error.first.signature.rank == "consequence"
    assert error.components == ()


NUMPY_WARNING = "torch/functional_tensor.py:368: UserWarning: Failed to initialize NumPy: No module named 'numpy'"


def test_what_python_only_warns_of_is_not_the_error() -> None:
    error = read_text(
        f"{NUMPY_WARNING}\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'packaging'"
    )
    assert error.first is not None
    assert error.first.names["module"] == "packaging"
    assert read_text(f"{NUMPY_WARNING}\nsome.OddError: nobody knows it\n").first is None
    alone = read_text(NUMPY_WARNING).first
    assert alone is not None
    assert alone.signature.id == "no-module"


HEALTHY = """\
[2026-11-30 03:00:00] server_args=ServerArgs(model_path='m', trust_remote_code=False, quantization=None, disable_cuda=0)
[2026-11-30 03:00:00] Detected user specified Jinja chat template with content format: openai
[2026-11-30 03:00:01 TP0] max_total_num_tokens=812000, chunked_prefill_size=8192, context_len=40960
(EngineCore pid=7) INFO 11-30 03:00:02 [cuda.py:1] Cannot use FlashAttention backend: flash_attn is not found
W1130 03:00:02.260000 4024 torch/distributed/run.py:874] Setting OMP_NUM_THREADS for each process to be 1 in default
INFO:     Server process [7] on port 30000 shuts down
"""


def test_healthy_lines_before_a_failure_are_not_the_error() -> None:
    error = read_text(f"{HEALTHY}RuntimeError: Engine core initialization failed.\n")
    assert error.first is not None
    assert error.first.signature.id == "engine-died"
    assert read_text(f"{HEALTHY}acme.OddError: nobody knows it\n").first is None
    assert read_text(HEALTHY * 3).first is None
    assert read_text("NCCL INFO Using network Socket").first is not None


def test_a_process_is_no_fabric() -> None:
    assert not read_text("environment variable for each process\nport 30000 is down for maintenance").matches


def test_a_text_without_anything_known_says_nothing() -> None:
    assert read_text("") is NOTHING
    assert not read_text("  \n ")
    error = read_text("all is well\n")
    assert error
    assert error.first is None


def test_a_root_beats_a_symptom_that_stands_before_it() -> None:
    error = read_text("NCCL WARN something\nNCCL INFO NET/Plugin: dlerror=libfabric.so.1 not found, No plugin found\n")
    assert error.first is not None
    assert error.first.signature.id == "net-plugin"


def long_log(lines: int) -> Iterator[str]:
    """A log of a serving process, made as it is read."""
    for number in range(lines):
        yield f"INFO {number:09d} [metrics.py:417] Avg prompt throughput: {number % 977}.5 tok/s, running: 12 reqs\n"
        if number == lines // 2:
            yield "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
            yield from (f"ERROR worker {number} died unexpectedly\n" for number in range(5000))


def test_a_log_is_read_line_by_line_and_little_of_it_is_kept() -> None:
    read_text("CUDA out of memory died unexpectedly")
    seen: list[int] = []
    tracemalloc.start()
    error = read_log(long_log(200_000), seen.append)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.lines_read == 205_001
    assert seen == [50_000, 100_000, 150_000, 200_000]
    assert error.first is not None
    assert error.first.signature.id == "cuda-oom"
    assert len(error.matches) <= KEPT_MATCHES
    assert len(error.lines) <= KEPT_LINES
    assert peak < 8 << 20


def test_a_line_of_any_length_is_no_trouble() -> None:
    error = read_log(["x" * 10_000_000, "ImportError: libcudart.so.13: cannot open shared object file"])
    assert error.has("missing-library")
    assert max(map(len, error.lines)) <= 2000


@pytest.mark.parametrize(
    ("text", "accused"),
    [
        ("ImportError: libcudart.so.13: cannot open shared object file: No such file", ("torch", "cuda")),
        (
            "ImportError: /v/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E",
            ("packages", "flash-attn"),
        ),
        ("/v/vllm/_C.abi3.so: undefined symbol: ncclCommWindowRegister", ("libraries", "nccl", "torch", "version")),
        ("version `GLIBC_2.38' not found (required by /v/a.so)", ("env", "LD_LIBRARY_PATH")),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", ("gpus", "count")),
        ("NCCL WARN Bootstrap : no socket interface found", ("env", "NCCL_SOCKET_IFNAME")),
    ],
)
def test_a_text_accuses_facts(text: str, accused: tuple[str, ...]) -> None:
    assert accuse(read_text(text), [View({})], (), default()).of(accused)[0] >= 1


def test_a_text_does_not_accuse_what_it_does_not_speak_of() -> None:
    accusations = accuse(
        read_text("ImportError: libcudart.so.13: cannot open shared object file"), [View({})], (), default()
    )
    assert accusations.of(("packages", "fastapi")) == (0.0, "")


def test_what_a_log_calls_information_comes_after_its_errors() -> None:
    text = """(Worker_TP0 pid=511) INFO 05-26 03:12:22 [gpu_worker.py:578] raise --gpu-memory-utilization to 0.94
(EngineCore_DP0 pid=301) ERROR 05-26 03:12:23 [core.py:1010] OSError: [Errno 28] No space left on device
"""
    error = read_text(text)
    assert error.headline == "OSError: [Errno 28] No space left on device"
    assert error.components[0] == "disk"


def test_the_prefix_of_a_log_hides_no_exception() -> None:
    for prefix in (
        "(Worker_TP3 pid=812) ERROR 03-25 02:11:09 [multiproc_executor.py:822] ",
        "(RayWorkerVllm pid=5085) ",
        "[rank0]: ",
        "[2026-08-11 08:21:12 TP5] ",
        "ERROR 04-28 19:02:12 [core.py:396] ",
    ):
        assert read_text(prefix + "KeyError: 'qwen3'").exceptions == ("KeyError: 'qwen3'",)


def test_where_only_consequences_are_known_the_first_exception_is_shown() -> None:
    error = read_text("Scheduler hit an exception: Traceback\nMyOwnError: nobody knows this\nReceived sigquit")
    assert error.headline == "MyOwnError: nobody knows this"
    assert error.means == ""
