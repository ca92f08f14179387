"""The entry points of vLLM and SGLang: one snapshot a start, none without being asked, no harm whatever goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from envsnap.hooks import LOCAL_RANKS, MARKER, reason_against

SERVER = """
import logging, multiprocessing, os, sys
from importlib.metadata import entry_points

logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")

def load():
    for plugin in entry_points(group=sys.argv[1]):
        if plugin.name == "envsnap":
            plugin.load()()

if __name__ == "__main__":
    os.environ["NCCL_SET_BY_THE_SERVER"] = "1"
    load()
    load()
    for method in ("spawn", "fork"):
        workers = [multiprocessing.get_context(method).Process(target=load) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
    os.system(f'"{sys.executable}" -c "import envsnap.hooks; envsnap.hooks.take_at_start()"')
    print("ready")
"""
GROUPS = ("vllm.general_plugins", "sglang.srt.plugins")


def start(envsnap: Any, group: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (envsnap.cwd / "server.py").write_text(SERVER)
    result = subprocess.run(
        [sys.executable, "server.py", group, "--tp-size", "8"],
        cwd=envsnap.cwd, env=envsnap.environ | environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "ready\n"), result.stderr
    return result


def stored(envsnap: Any) -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in sorted(envsnap.store.glob("*/*.toml"))]


@pytest.mark.parametrize("group", GROUPS)
def test_each_start_takes_one_snapshot_whatever_workers_it_has(envsnap: Any, group: str) -> None:
    result = start(envsnap, group, ENVSNAP_AUTO="1", NCCL_DEBUG="INFO")
    (document,) = stored(envsnap)
    assert document["meta"]["trigger"] == "plugin"
    assert f"envsnap INFO snapshot {document['meta']['id'][:7]}" in result.stderr
    assert document["launch"]["argv"][1:] == ["server.py", group, "--tp-size", "8"]
    assert document["launch"]["args"] == {"tp_size": 8}
    assert document["python"]["prefix"] == sys.prefix
    # The launch's own environment, not what the server has made of it.
    assert document["env"]["NCCL_DEBUG"] == "INFO"
    assert not {"NCCL_SET_BY_THE_SERVER", MARKER} & document["env"].keys()
    start(envsnap, group, ENVSNAP_AUTO="yes")
    assert len(stored(envsnap)) == 2


@pytest.mark.parametrize("value", [None, "", "0", "off"])
def test_nothing_happens_unless_it_is_switched_on(envsnap: Any, value: str | None) -> None:
    result = start(envsnap, GROUPS[0], **({} if value is None else {"ENVSNAP_AUTO": value}))
    assert (stored(envsnap), "envsnap" in result.stderr) == ([], False)


def test_a_store_that_cannot_be_written_is_logged_and_the_server_starts(envsnap: Any) -> None:
    result = start(envsnap, GROUPS[0], ENVSNAP_AUTO="1", ENVSNAP_STORE="/proc/none")
    warnings = [line for line in result.stderr.splitlines() if line.startswith("envsnap WARNING")]
    assert len(warnings) == 1
    assert "/proc/none" in warnings[0]


def test_a_module_of_the_servers_directory_does_not_stand_in_for_ours(envsnap: Any) -> None:
    for name in ("envsnap", "json", "select"):
        (envsnap.cwd / f"{name}.py").write_text("raise SystemExit(3)")
    environ = envsnap.environ | {"ENVSNAP_AUTO": "1"}
    code = "import sys; sys.path.pop(0); import logging, envsnap.hooks as h; logging.basicConfig(level=10); h.take_at_start()"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=envsnap.cwd, env=environ, capture_output=True, text=True, check=True
    )
    assert "INFO:envsnap:snapshot" in result.stderr


def test_an_interpreter_that_is_gone_is_logged(envsnap: Any) -> None:
    code = "import sys, envsnap.hooks as h; sys.executable = '/gone'; h.take_at_start(); print('on')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=envsnap.cwd, env=envsnap.environ | {"ENVSNAP_AUTO": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "on\n"
    assert "no snapshot of this start: FileNotFoundError" in result.stderr


def test_switched_off_it_imports_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import envsnap.hooks; envsnap.hooks.take_at_start();"
        "print(sorted(set(sys.modules) - before))"
    )
    environ = {name: value for name, value in os.environ.items() if name != "ENVSNAP_AUTO"}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    loaded = {name for name in eval(result.stdout) if not name.startswith("__")}
    assert loaded <= {"envsnap", "envsnap._version", "envsnap.hooks"}


def test_both_groups_are_declared() -> None:
    for group in GROUPS:
        assert [point.value for point in entry_points(group=group) if point.name == "envsnap"] == [
            "envsnap.hooks:take_at_start"
        ]


@pytest.mark.parametrize(
    ("environ", "argv", "reason"),
    [
        ({}, ["vllm"], ""),
        ({"LOCAL_RANK": "0"}, ["vllm"], ""),
        ({"LOCAL_RANK": "1"}, ["vllm"], "rank 1"),
        ({"LOCAL_RANK": "", "SLURM_LOCALID": "3"}, ["vllm"], "rank 3"),
        ({MARKER: str(os.getpid())}, ["vllm"], "takes the one"),
        ({MARKER: "4194399"}, ["vllm"], ""),  # above the highest pid: whoever took it is gone, and so is that start
        ({MARKER: "run"}, ["vllm"], "takes the one"),
        ({}, ["/x/ray/_private/workers/default_worker.py"], "Ray"),
        ({}, [], ""),
    ],
)
def test_which_process_takes_it(environ: dict[str, str], argv: list[str], reason: str) -> None:
    why = reason_against(environ, argv)
    assert reason in why
    assert bool(why) == bool(reason)


def test_the_same_ranks_count_as_for_take() -> None:
    from envsnap.cli import taking

    assert LOCAL_RANKS == taking.LOCAL_RANKS


def _groups_in(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_the_real_frameworks_look_for_these_groups() -> None:
    site = os.environ.get("ENGINES")
    if not site:
        pytest.skip("ENGINES names no site-packages directory with the frameworks")
    assert '"vllm.general_plugins"' in _groups_in(Path(site, "vllm/plugins/__init__.py"))
    assert '"sglang.srt.plugins"' in _groups_in(Path(site, "sglang/srt/plugins/__init__.py"))
