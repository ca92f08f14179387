"""What is written down about a launch, and what is said when it failed; and that nothing of it can keep it from running."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from envsnap.heads import read_head

READY_LINES = {
    "SGLang": "[2026-11-29 10:00:00] The server is fired up and ready to roll!",
    "vLLM": "(APIServer pid=77) INFO:     Application startup complete.",
    "uvicorn": "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
    "TGI": "2026-11-29T10:00:00.000000Z  INFO text_generation_router::server: router/src/server.rs:2210: Connected",
    "Ray Serve": "2026-11-29 10:00:00,000 INFO client.py:203 -- Application 'app' is ready at http://127.0.0.1:8000/.",
    "trainer": "{'loss': 2.3456, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.01}",
    "torchtitan": "[rank0]:[titan] step:  1  loss: 12.2354  grad_norm: 1.7",
    "Megatron": " iteration        1/     100 | consumed samples: 8 | lm loss: 1.1E+01 |",
}
LOSER = "import sys; print('starting'); sys.exit('RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.')"


@pytest.mark.parametrize("name", READY_LINES)
def test_a_server_that_says_so_is_ready_and_stays_good(launch: Any, name: str) -> None:
    done = launch("sh", "-c", 'printf "%s\n" "$LINE"; exit 1', environ={"LINE": READY_LINES[name]})
    outcome = launch.outcome()
    assert done.returncode == 1
    assert (outcome["status"], outcome["exit_code"]) == ("good", 1)
    assert 0 <= outcome["ready_after_s"] < 30
    assert b"the launch failed" not in done.stderr


@pytest.mark.parametrize(
    "line", ["Application startup failed. Exiting.", "Waiting for application startup.", "loss of signal", "Connected"]
)
def test_what_is_not_ready(launch: Any, line: str) -> None:
    launch("sh", "-c", f"echo '{line}'; exit 1")
    assert launch.outcome()["status"] == "bad"
    assert "ready_after_s" not in launch.outcome()


def test_ready_is_written_while_the_server_runs(launch: Any) -> None:
    running = launch.start("sh", "-c", "echo listening on 80; read line", stdin=subprocess.PIPE,
                           options=("--ready-pattern", "listening on [0-9]+"))  # fmt: skip
    running.stdout.readline()
    (path,) = launch.store.glob("*/*.toml")
    while not read_head(str(path)).status:
        assert running.poll() is None
        os.sched_yield()
    assert read_head(str(path)).status == "good"
    assert "ended_at" not in read_head(str(path)).outcome
    running.communicate(b"\n", timeout=60)
    assert launch.outcome()["exit_code"] == 0


def test_a_ready_line_in_two_pieces(launch: Any) -> None:
    launch("sh", "-c", "printf 'Application start'; sleep 0.05; printf 'up complete.'; exit 1", options=("-q",))
    assert launch.outcome()["status"] == "good"


def test_alive_for_long_is_good(launch: Any) -> None:
    running = launch.start("sh", "-c", "read line; exit 1", stdin=subprocess.PIPE, options=("--good-after", "0.01s"))
    paths: list[Path] = []
    while not paths or not read_head(str(paths[0])).status:
        paths = list(launch.store.glob("*/*.toml"))
        assert running.poll() is None
    running.communicate(b"\n", timeout=60)
    assert (launch.outcome()["status"], launch.outcome()["exit_code"]) == ("good", 1)


def test_the_outcome_of_a_failure(launch: Any) -> None:
    began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    done = launch.python(LOSER)
    outcome = launch.outcome()
    assert done.returncode == 1
    assert (outcome["status"], outcome["exit_code"]) == ("bad", 1)
    assert outcome["symptom"][0].startswith("RuntimeError: Not enough memory.")
    assert began <= outcome["ended_at"] <= datetime.datetime.now(datetime.UTC)


def test_a_symptom_is_bounded_and_without_secrets(launch: Any) -> None:
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    program = f"""
import sys
for n in range(3000): print("ValueError: number", n, "of", "x" * 500, file=sys.stderr)
print("\\033[31mOSError: 401 for https://user:geheim@hub/x with token {token}\\033[0m", file=sys.stderr)
sys.exit(1)
"""
    done = launch.python(program)
    (path,) = launch.store.glob("*/*.toml")
    text = path.read_text()
    assert done.returncode == 1
    assert token not in text
    assert "geheim" not in text
    symptom = tomllib.loads(text)["outcome"]["symptom"]
    assert 0 < len(symptom) <= 20
    assert sum(map(len, symptom)) <= 4096
    assert read_head(str(path)).outcome["symptom"] == symptom


def test_without_an_error_the_end_of_the_output_is_the_symptom(launch: Any) -> None:
    program = """
import sys
print("[2026-11-30 03:00:01] server_args=ServerArgs(model_path='m', tp_size=8, trust_remote_code=False)")
print("[2026-11-30 03:00:06 TP0] max_total_num_tokens=812000, chunked_prefill_size=8192")
print("leaving for reasons of its own")
sys.exit(1)
"""
    launch.python(program)
    assert launch.snapshots()[-1]["outcome"]["symptom"][0] == "leaving for reasons of its own"


def test_what_the_server_decided_is_in_the_snapshot(launch: Any) -> None:
    line = "[2026-11-29 10:00:00] server_args=ServerArgs(model_path='m', tp_size=8, attention_backend='fa3')"
    launch("sh", "-c", 'echo "$LINE"; exit 0', environ={"LINE": line})
    resolved = launch.snapshots()[0]["launch"]["resolved"]
    assert (resolved["tp_size"], resolved["attention_backend"]) == (8, "fa3")
    launch("sh", "-c", 'echo "$LINE"; exit 0', environ={"LINE": line.replace("fa3", "triton")})
    first, second = launch.snapshots()
    assert first["meta"]["fingerprint"] != second["meta"]["fingerprint"]
    assert first["meta"]["digests"]["launch"] != second["meta"]["digests"]["launch"]


def test_a_failure_is_explained_by_what_differs_from_the_last_good_run(launch: Any) -> None:
    program = launch.cwd / "server"
    program.write_text(f"#!{sys.executable}\nimport os\nif os.environ.get('NCCL_ALGO'): {LOSER}\n")
    program.chmod(0o755)
    for _ in range(2):
        assert launch.envsnap("run", "--only", "launch", "--only", "env", "--", "./server").returncode == 0
    done = launch.envsnap("run", "--only", "launch", "--only", "env", "--", "./server", code=1, NCCL_ALGO="Ring")
    assert "the launch failed (exit code 1)" in done.stderr
    assert "compared with the last good run" in done.stderr
    assert "RuntimeError: Not enough memory" in done.stderr
    assert "NCCL_ALGO" in done.stderr
    assert len(done.stderr.splitlines()) < 60
    for option in ("--no-explain", "-q"):
        done = launch.envsnap("run", "--only", "env", option, "--", "./server", code=1, NCCL_ALGO="Ring")
        assert "the launch failed" not in done.stderr


def test_without_a_good_run_the_error_alone_is_said(launch: Any) -> None:
    err = launch.python(LOSER).stderr.decode()
    assert "no good run of this program to compare with" in err
    assert "Not enough memory" in err


def test_an_explanation_says_no_secret_again(launch: Any) -> None:
    """The server's own words pass through; what is said after them is envsnap's."""
    url = "https://cdn-lfs.huggingface.co/x?Policy=ey&Signature=Zq7Kd9sLmW2xVbN4tR8yUc"
    program = (
        f"import sys\nprint('HfHubHTTPError: 403 Client Error: Forbidden for url: {url}', file=sys.stderr)\nsys.exit(1)"
    )
    theirs, ours = launch.python(program).stderr.decode().split("envsnap: the launch failed")
    assert url in theirs
    assert "403 Client Error" in ours
    assert "Zq7Kd9sLmW2xVbN4tR8yUc" not in ours


def test_quiet_says_nothing(launch: Any) -> None:
    assert launch("sh", "-c", "exit 3", options=("-q",)).stderr == b""


def test_one_word_before_the_start(launch: Any) -> None:
    assert launch("true").stderr.startswith(b"envsnap: took ")
    assert b"nothing changed since" in launch("true").stderr


# -- nothing keeps the command from running ------------------------------------------------------------------------


def test_a_store_that_cannot_be_written(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for options in (("--store", str(tmp_path / "file")), ("--store", "/proc/nowhere")):
        done = launch("sh", "-c", "echo ran; exit 7", options=options)
        assert (done.returncode, done.stdout) == (7, b"ran\n")
        assert b"warning: no snapshot: cannot store" in done.stderr


def test_a_full_disk(launch: Any) -> None:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    script = f"mount -t tmpfs -o size=4k none {launch.cwd} && exec " + " ".join(
        launch.argv("./../full", options=("--store", str(launch.cwd / "s")))
    )
    full = launch.cwd.parent / "full"
    full.write_text("#!/bin/sh\necho ran\nexit 7\n")
    full.chmod(0o755)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"cd {launch.cwd.parent}; {script.replace('./../full', str(full))}"],
        env=launch.environ, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, b"ran\n"), done.stderr
    assert b"No space left on device" in done.stderr


def test_a_snapshot_that_vanishes_while_it_runs(launch: Any) -> None:
    done = launch("sh", "-c", f"rm -r {launch.store}/*; exit 7")
    assert done.returncode == 7
    assert b"could not write down how the launch ended" in done.stderr


def test_a_capture_that_dies(launch: Any, tmp_path: Path) -> None:
    """envsnap's own modules are broken in the process that captures."""
    for broken in ("raise MemoryError", "import os; os.kill(os.getpid(), 9)", "import os; os._exit(1)"):
        (tmp_path / "sitecustomize.py").write_text(
            "import importlib.abc, sys\n"
            "class Broken(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path, target=None):\n"
            f"        if name == 'envsnap.cli.app':\n            {broken}\n"
            "sys.meta_path.insert(0, Broken())\n"
        )
        done = launch("sh", "-c", "echo ran; exit 7", environ={"PYTHONPATH": str(tmp_path)})
        assert (done.returncode, done.stdout) == (7, b"ran\n"), done.stderr
        assert b"runs without a snapshot" in done.stderr


@pytest.mark.parametrize(
    "module", ["envsnap.cli.running", "envsnap.launch.supervisor", "envsnap.launch.relay", "envsnap.launch.ready"]
)
def test_a_broken_installation(launch: Any, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.abc, sys\n"
        "class Broken(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: raise ImportError('broken')\n"
        "sys.meta_path.insert(0, Broken())\n"
    )
    done = launch("sh", "-c", "echo ran; exit 7", environ={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (7, b"ran\n"), done.stderr


def test_an_explanation_that_fails(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.abc, sys\n"
        "class Broken(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'envsnap.cli.explaining': raise ValueError('broken')\n"
        "sys.meta_path.insert(0, Broken())\n"
    )
    done = launch("sh", "-c", "exit 7", environ={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 7
    assert launch.outcome()["status"] == "bad"


def test_strict_starts_nothing_where_the_capture_failed(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = launch("echo", "ran", options=("--strict", "--store", str(tmp_path / "file")))
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"the command was not started" in done.stderr


def test_once_takes_no_snapshot_on_other_ranks(launch: Any) -> None:
    for rank in "01":
        done = launch("echo", "ran", options=("--once",), environ={"LOCAL_RANK": rank})
        assert done.stdout == b"ran\n"
    assert len(launch.snapshots()) == 1


def test_interrupted_before_the_start(launch: Any) -> None:
    """Who presses Ctrl-C while the snapshot is taken wants no command."""
    for _ in range(20):
        running = launch.start("sh", "-c", "echo ran; read line", start_new_session=True, stdin=subprocess.PIPE)
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        while running.poll() is None and not children.read_text():
            continue  # until it captures: before that, there is only an interpreter that starts
        os.killpg(running.pid, signal.SIGINT)
        out, _ = running.communicate(timeout=60)
        assert running.returncode in (130, -signal.SIGINT)
        if out == b"":
            return  # else the machine was busy and the snapshot faster than we
    raise AssertionError("the command was started each time")


def test_killed_envsnap_loses_no_verdict_that_was_known(launch: Any) -> None:
    running = launch.start("sh", "-c", "echo listening; read line", stdin=subprocess.PIPE,
                           options=("--ready-pattern", "listening"))  # fmt: skip
    paths: list[Path] = []
    while not paths or not read_head(str(paths[0])).status:
        paths = list(launch.store.glob("*/*.toml"))
    running.kill()
    assert read_head(str(paths[0])).status == "good"
    assert [name for name in os.listdir(paths[0].parent) if name.endswith(".tmp")] == []


@pytest.mark.parametrize(("times", "expected"), [(1, {"status": "bad", "exit_code": 7}), (9, {})])
def test_an_outcome_over_which_its_writer_was_killed(
    launch: Any, tmp_path: Path, times: int, expected: dict[str, Any]
) -> None:
    """It is written once more; who is killed over it each time does not keep the launch."""
    killed = tmp_path / "killed"
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.abc, os, sys\n"
        "class Deadly(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'envsnap.launch.verdict':\n"
        f"            with open({str(killed)!r}, 'a+') as file:\n"
        "                file.write('x')\n"
        f"                if file.tell() > {times}: return\n"
        "            os.kill(os.getpid(), 9)\n"
        "sys.meta_path.insert(0, Deadly())\n"
    )
    done = launch("sh", "-c", "exit 7", options=("--no-explain",), environ={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 7
    assert killed.read_text() == "xx"
    assert expected.items() <= launch.outcome().items()
    assert bool(launch.outcome()) == bool(expected)
