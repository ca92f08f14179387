"""The caches collector: which place, what lies there, and that the walk is bounded and stays inside."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect import caches
from envsnap.collect.caches import Walk, collect_caches
from envsnap.collect.machine.cache_places import Places, framework_of
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

SGLANG = ["python", "-m", "sglang.launch_server", "--model-path", "m"]
VLLM = ["/opt/venv/bin/vllm", "serve", "m"]


@pytest.fixture
def launch(tmp_path):
    """A launch from a home of its own: `launch(TRITON_CACHE_DIR=...)`."""
    home = tmp_path / "home"
    home.mkdir()

    def build(argv: list[str] | None = None, **environ: str) -> Host:
        variables = {"HOME": str(home), "USER": "llm", "TMPDIR": str(tmp_path), **environ}
        return Host(environ=variables, cwd=str(tmp_path), argv=argv)

    return build


def fill(folder: Path, count: int = 1, size: int = 10) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"kernel{number}.cubin").write_bytes(b"x" * size)
    return folder


def collected(host: Host) -> dict:
    found: dict = {}
    for piece in collect_caches(host):
        if isinstance(piece["caches"], Missing):
            return piece
        found |= piece["caches"]
    return found


# -- where a cache lies --------------------------------------------------------------------------------------------

DEFAULTS = {
    "flashinfer": "home/.cache/flashinfer",
    "triton": "home/.triton/cache",
    "torchinductor": "torchinductor_llm",
    "torch-extensions": "home/.cache/torch_extensions",
    "vllm-compile": "home/.cache/vllm/torch_compile_cache",
    "deep-gemm": "home/.deep_gemm",
    "sglang-jit": "home/.cache/sglang/jit",
    "tvm-ffi": "home/.cache/tvm-ffi",
    "cuda-compute": "home/.nv/ComputeCache",
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_place_without_any_variable(launch, tmp_path, name) -> None:
    fill(tmp_path / DEFAULTS[name])
    assert {found: facts["path"] for found, facts in collected(launch()).items()} == {
        name: str(tmp_path / DEFAULTS[name])
    }


@pytest.mark.parametrize(
    ("name", "variable", "below"),
    [
        ("flashinfer", "FLASHINFER_WORKSPACE_BASE", ".cache/flashinfer"),
        ("triton", "TRITON_CACHE_DIR", ""),
        ("triton", "TRITON_HOME", ".triton/cache"),
        ("torchinductor", "TORCHINDUCTOR_CACHE_DIR", ""),
        ("torch-extensions", "TORCH_EXTENSIONS_DIR", ""),
        ("torch-extensions", "XDG_CACHE_HOME", "torch_extensions"),
        ("vllm-compile", "VLLM_CACHE_ROOT", "torch_compile_cache"),
        ("vllm-compile", "XDG_CACHE_HOME", "vllm/torch_compile_cache"),
        ("deep-gemm", "DG_JIT_CACHE_DIR", ""),
        ("deep-gemm", "SGLANG_DG_CACHE_DIR", ""),
        ("sglang-jit", "SGLANG_JIT_CACHE_DIR", ""),
        ("tvm-ffi", "TVM_FFI_CACHE_DIR", ""),
        ("cuda-compute", "CUDA_CACHE_PATH", ""),
    ],
)
def test_a_variable_wins_over_the_default(launch, tmp_path, name, variable, below) -> None:
    fill(tmp_path / DEFAULTS[name])
    place = fill(tmp_path / "given" / below)
    assert collected(launch(**{variable: str(tmp_path / "given")}))[name]["path"] == str(place)


@pytest.mark.parametrize("name", ["flashinfer", "sglang-jit", "tvm-ffi"])
def test_some_programs_do_not_know_xdg(launch, tmp_path, name) -> None:
    fill(tmp_path / DEFAULTS[name])
    found = collected(launch(XDG_CACHE_HOME=str(tmp_path / "xdg")))
    assert found[name]["path"] == str(tmp_path / DEFAULTS[name])


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("triton", SGLANG, "home/.cache/sglang/triton"),
        ("triton", VLLM, "home/.triton/cache"),
        ("triton", None, "home/.triton/cache"),
        ("flashinfer", SGLANG, "home/.cache/sglang/.cache/flashinfer"),
        ("torchinductor", SGLANG, "home/.cache/sglang/inductor"),
        ("cuda-compute", SGLANG, "home/.cache/sglang/nv"),
        ("deep-gemm", SGLANG, "home/.cache/sglang/deep_gemm"),
        ("deep-gemm", VLLM, "home/.cache/vllm/deep_gemm"),
        ("deep-gemm", None, "home/.deep_gemm"),
    ],
)
def test_the_framework_decides_between_places_that_exist(launch, tmp_path, name, argv, expected) -> None:
    for place in (
        "home/.cache/sglang/triton",
        "home/.cache/sglang/inductor",
        "home/.cache/sglang/nv",
        "home/.cache/sglang/.cache/flashinfer",
        "home/.cache/sglang/deep_gemm",
        "home/.cache/vllm/deep_gemm",
        DEFAULTS[name],
    ):
        fill(tmp_path / place)
    assert collected(launch(argv))[name]["path"] == str(tmp_path / expected)


def test_older_sglang_does_not_gather_the_caches(launch, tmp_path) -> None:
    fill(tmp_path / "home/.triton/cache")
    assert collected(launch(SGLANG))["triton"]["path"] == str(tmp_path / "home/.triton/cache")


def test_sglang_overrides_the_variable_of_deep_gemm(launch, tmp_path) -> None:
    fill(tmp_path / "own")
    fill(tmp_path / "home/.cache/deep_gemm")
    found = collected(launch(SGLANG, DG_JIT_CACHE_DIR=str(tmp_path / "own")))
    assert found["deep-gemm"]["path"] == str(tmp_path / "home/.cache/deep_gemm")


@pytest.mark.parametrize(
    ("argv", "framework"),
    [
        (SGLANG, "sglang"),
        (VLLM, "vllm"),
        (["sglang", "serve"], "sglang"),
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], "vllm"),
        (["torchrun", "train.py"], ""),
        (["python", "vllm_notes.py"], ""),
        ([], ""),
    ],
)
def test_the_framework_of_a_command(argv, framework) -> None:
    assert framework_of(argv) == framework


def test_the_users_own_home_in_a_value(launch, tmp_path) -> None:
    fill(tmp_path / "home/kernels")
    assert collected(launch(TRITON_CACHE_DIR="~/kernels"))["triton"]["path"] == str(tmp_path / "home/kernels")


def test_a_relative_value_is_below_the_working_directory(launch, tmp_path) -> None:
    fill(tmp_path / "kernels")
    assert collected(launch(TRITON_CACHE_DIR="kernels"))["triton"]["path"] == str(tmp_path / "kernels")


def test_a_user_without_a_home_has_no_caches_there() -> None:
    host = Host(root="/nowhere-at-all", environ={}, cwd="/")
    assert [place.paths for place in Places(host, host).all().values() if place.paths] == []
    assert collected(host) == {}


# -- what lies there -----------------------------------------------------------------------------------------------


def test_files_sizes_and_the_newest_time(launch, tmp_path) -> None:
    folder = fill(tmp_path / "home/.triton/cache/ABC", count=3, size=1 << 20)
    fill(tmp_path / "home/.triton/cache/DEF", count=1, size=1)
    for file in (tmp_path / "home/.triton/cache").rglob("*.cubin"):
        os.utime(file, (1_770_000_000, 1_770_000_000))
    os.utime(folder / "kernel1.cubin", (1_771_000_000, 1_771_000_000.9))
    facts = collected(launch())["triton"]
    assert facts["entries"] == 4
    assert facts["mib"] == 4  # three full and a byte
    assert facts["newest_at"] == datetime.fromtimestamp(1_771_000_000, UTC)
    assert facts["is_writable"] is True
    assert facts["locks"] == []


def test_an_empty_cache_has_no_newest_file(launch, tmp_path, gathered) -> None:
    (tmp_path / "home/.triton/cache").mkdir(parents=True)
    facts = gathered(launch(), "caches").facts["caches"]["triton"]
    assert (facts["entries"], facts["mib"]) == (0, 0)
    assert "newest_at" not in facts


def test_a_place_that_is_asked_for_and_not_there(launch, tmp_path) -> None:
    facts = collected(launch(TRITON_CACHE_DIR=str(tmp_path / "later/on")))["triton"]
    assert facts == {
        "path": str(tmp_path / "later/on"),
        "entries": 0,
        "mib": 0,
        "is_writable": True,
        "locks": [],
    }


def test_a_default_place_that_is_not_there_is_no_row(launch) -> None:
    assert collected(launch()) == {}


def test_links_are_not_followed(launch, tmp_path) -> None:
    cache = fill(tmp_path / "home/.triton/cache")
    elsewhere = fill(tmp_path / "elsewhere", count=50)
    (cache / "out").symlink_to(elsewhere)
    (cache / "up").symlink_to(cache)
    (cache / "file").symlink_to(elsewhere / "kernel0.cubin")
    assert collected(launch())["triton"]["entries"] == 1


def test_the_place_itself_may_be_a_link(launch, tmp_path) -> None:
    fill(tmp_path / "big-disk/triton", count=2)
    (tmp_path / "home/.triton").mkdir()
    (tmp_path / "home/.triton/cache").symlink_to(tmp_path / "big-disk/triton")
    facts = collected(launch())["triton"]
    assert (facts["path"], facts["entries"]) == (str(tmp_path / "home/.triton/cache"), 2)


def test_odd_files_count_nothing_and_block_nothing(launch, tmp_path) -> None:
    cache = fill(tmp_path / "home/.triton/cache")
    os.mkfifo(cache / "pipe")
    (cache / os.fsdecode(b"\xff\xfe")).write_bytes(b"")
    assert collected(launch())["triton"]["entries"] == 2


def test_more_files_than_the_bound_are_unknown_not_cut(launch, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(caches, "FILES", 10)
    fill(tmp_path / "home/.triton/cache", count=11)
    fill(tmp_path / "home/.cache/tvm-ffi", count=10)
    found = collected(launch())
    assert found["triton"]["entries"] == Missing("timeout", "more than 10 files")
    assert found["triton"]["mib"].reason == "timeout"
    assert found["triton"]["is_writable"] is True
    assert found["tvm-ffi"]["entries"] == 10


def test_a_walk_whose_time_is_over_stops(tmp_path) -> None:
    for number in range(20):
        fill(tmp_path / str(number))
    walk = Walk(str(tmp_path), time.monotonic() - 1)
    assert walk.missing is not None
    assert walk.missing.reason == "timeout"
    assert walk.files < 20


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_closed_directory_makes_the_counts_unknown(launch, tmp_path) -> None:
    cache = fill(tmp_path / "home/.triton/cache/ABC").parent
    (cache / "ABC").chmod(0)
    try:
        assert collected(launch())["triton"]["entries"].reason == "permission"
    finally:
        (cache / "ABC").chmod(0o700)


@pytest.mark.parametrize(
    ("place", "locks"),
    [
        ("home/.cache/torch_extensions", ["py312_cu128/ops/lock"]),
        ("home/.cache/flashinfer", ["py312_cu128/ops/lock"]),
        ("home/.cache/tvm-ffi", []),
        ("home/.triton/cache", []),
    ],
)
def test_only_locks_that_block_by_being_there_are_told(launch, tmp_path, place, locks) -> None:
    fill(tmp_path / place / "py312_cu128/ops")
    (tmp_path / place / "py312_cu128/ops/lock").write_bytes(b"")
    (tmp_path / place / "py312_cu128/ops.lock").write_bytes(b"")
    (facts,) = collected(launch()).values()
    assert facts["locks"] == locks


@given(tree=st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 5000), max_size=4), max_size=5))
def test_the_walk_counts_what_is_there(tmp_path_factory, tree) -> None:
    top = tmp_path_factory.mktemp("cache")
    for name, sizes in tree.items():
        (top / name).mkdir()
        for number, size in enumerate(sizes):
            (top / name / str(number)).write_bytes(b"x" * size)
    walk = Walk(str(top), time.monotonic() + 60)
    assert walk.files == sum(map(len, tree.values()))
    assert walk.size == sum(map(sum, tree.values()))


# -- peer access ---------------------------------------------------------------------------------------------------

P2P = {f"{a}->{b}": True for a in range(2) for b in range(2)}


def p2p_file(folder: Path, gpus: str = "0,1", text: str = json.dumps(P2P)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"gpu_p2p_access_cache_for_{gpus}.json"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("argv", "folder"), [(VLLM, "home/.cache/vllm"), (SGLANG, "home/.cache/sglang")])
def test_what_is_known_about_peer_access(launch, tmp_path, argv, folder) -> None:
    path = p2p_file(tmp_path / folder)
    p2p_file(tmp_path / folder, "2,3")
    p2p_file(tmp_path / "home/.cache/other")
    facts = collected(launch(argv, CUDA_VISIBLE_DEVICES="0,1"))["p2p-access"]
    assert (facts["path"], facts["entries"], facts["mib"]) == (str(path), 2, 1)


def test_no_file_for_these_gpus(launch, tmp_path) -> None:
    p2p_file(tmp_path / "home/.cache/vllm", "0,1,2,3")
    assert "p2p-access" not in collected(launch(VLLM, CUDA_VISIBLE_DEVICES="0,1"))


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "7", '{"0->1": tr'])
def test_a_damaged_file_is_told(launch, tmp_path, text) -> None:
    p2p_file(tmp_path / "home/.cache/vllm", text=text)
    assert collected(launch(VLLM, CUDA_VISIBLE_DEVICES="0,1"))["p2p-access"]["entries"].reason == "failed"


def test_all_gpus_of_the_driver_are_meant_without_a_variable(machine, gathered) -> None:
    name = "/data/cache/vllm/gpu_p2p_access_cache_for_0,1,2,3,4,5,6,7.json"
    root = machine("rtxpro6000x8", f'{name} = {{"0->1": true, "1->0": true, "0->0": true}}')
    host = Host(root=str(root), environ={"XDG_CACHE_HOME": "/data/cache"}, cwd="/")
    facts = gathered(host, "caches").facts["caches"]["p2p-access"]
    assert (facts["path"], facts["entries"]) == (name, 2)


# -- as a whole ----------------------------------------------------------------------------------------------------


def test_variables_that_could_not_be_read_leave_all_caches_unknown(gathered) -> None:
    denied = {"environ": Missing("permission", "/proc/1/environ")}
    found = gathered(Host(environ={}, cwd="/", denied=denied), "caches")
    assert found.missing["caches"] == denied["environ"]


def test_the_document_holds_them_with_their_types(launch, tmp_path, gathered) -> None:
    fill(tmp_path / "home/.triton/cache", count=2)
    facts = gathered(launch(), "caches").facts["caches"]["triton"]
    assert {name: type(value) for name, value in facts.items()} == {
        "path": str,
        "entries": int,
        "mib": int,
        "newest_at": datetime,
        "is_writable": bool,
        "locks": list,
    }


def test_two_takes_of_this_machine_agree_within_tolerance(gathered) -> None:
    before, after = (gathered(Host.here(), "caches") for _ in range(2))
    table = FactTable(collect_caches.facts)
    later = dict(leaves(after.facts))
    assert later.keys() == dict(leaves(before.facts)).keys()
    for path, value in leaves(before.facts):
        assert value == later[path] or table.find(path).tolerates(value, later[path]), path
