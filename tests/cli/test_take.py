"""`envsnap take` as people run it: what it writes, what it says, and what it does where the machine is broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envsnap.collect.registry import fact_table, modules
from envsnap.facts import join_path, leaves
from envsnap.render.json_text import to_json
from envsnap.render.schema_page import json_schema

ROOT = os.geteuid() == 0


def test_prints_the_id_and_stores_one_file(envsnap: Any) -> None:
    result = envsnap("take", "--tag", "prod", "--note", "before the upgrade")
    assert re.fullmatch(r"[0-9a-f]{7}\n", result.stdout)
    (path,) = envsnap.store.glob("*/*.toml")
    document = tomllib.loads(path.read_text())
    assert document["meta"]["id"].startswith(result.stdout.strip())
    assert document["meta"]["tags"] == ["prod"]
    assert document["meta"]["note"] == "before the upgrade"
    assert document["meta"]["trigger"] == "take"
    assert sorted(os.listdir(envsnap.store)) == sorted([".gitignore", ".key", path.parent.name])


def test_every_collector_answers_on_this_machine(envsnap: Any) -> None:
    snapshot = envsnap.take()
    assert set(snapshot.collectors) == set(modules())
    failed = {name: result for name, result in snapshot.collectors.items() if result["status"] not in ("ok", "partial")}
    assert failed == {}


def test_every_fact_is_declared(envsnap: Any) -> None:
    table = fact_table()
    undeclared = [join_path(path) for path, _ in leaves(envsnap.take().facts) if table.find(path) is None]
    assert undeclared == []


def test_document_obeys_the_json_schema(envsnap: Any, reference_documents: dict[str, dict[str, Any]]) -> None:
    schema = json_schema(fact_table().specs)
    for document in [envsnap.take().document, *reference_documents.values()]:
        jsonschema.validate(json.loads(to_json(document)), schema)


def test_two_takes_one_after_the_other_differ_in_nothing(envsnap: Any) -> None:
    """Any volatile fact that is not declared as one fails here."""
    first, second = envsnap.take(), envsnap.take()
    result = json.loads(envsnap("diff", first.id[:7], second.id[:7], "--json").stdout)
    assert result["changes"] == []
    assert result["unknown"] == []
    assert first.meta["fingerprint"] == second.meta["fingerprint"]


def test_second_take_says_that_nothing_changed(envsnap: Any) -> None:
    assert "first snapshot" in envsnap("take").stderr
    assert re.search(r"nothing changed since [0-9a-f]{7} \(just now\)", envsnap("take").stderr)


def test_changed_variable_is_said_at_once(envsnap: Any) -> None:
    envsnap("take")
    assert "NCCL_P2P_DISABLE unset → 1" in envsnap("take", NCCL_P2P_DISABLE="1").stderr


def test_stdout_prints_the_document_and_stores_nothing(envsnap: Any) -> None:
    document = tomllib.loads(envsnap("take", "--stdout").stdout)
    assert document["schema"] == 1
    assert list(envsnap.store.glob("*/*.toml")) == []


def test_quiet_says_only_the_id(envsnap: Any) -> None:
    result = envsnap("take", "-q")
    assert len(result.stdout) == 8
    assert result.stderr == ""


def test_command_line_is_described(envsnap: Any) -> None:
    snapshot = envsnap.take("--", sys.executable, "-m", "sglang.launch_server", "--model-path", "x", "--tp", "8")
    assert snapshot.facts["launch"]["argv"][1:3] == ["-m", "sglang.launch_server"]
    assert snapshot.facts["launch"]["framework"] == "sglang"
    assert snapshot.facts["launch"]["cwd"] == str(envsnap.cwd)


def test_without_a_command_argv_is_unknown_not_absent(envsnap: Any) -> None:
    with_command = envsnap.take("--", sys.executable, "serve.py")
    without = envsnap.take()
    result = json.loads(envsnap("diff", with_command.id, without.id, "--json").stdout)
    assert "launch.argv" not in {change["path"] for change in result["changes"]}
    assert "launch.argv" in {change["path"] for change in result["unknown"]}


def test_skipped_section_is_not_asked(envsnap: Any) -> None:
    snapshot = envsnap.take("--skip", "source", "--skip", "packages")
    assert snapshot.collectors["source"]["status"] == "skipped"
    assert snapshot.missing[("packages",)].reason == "not-asked"
    only = envsnap.take("--only", "env")
    assert "packages" not in only.facts
    assert "env" in only.facts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nonsense"], "no section `nonsense`"),
        (["--timeout", "soon"], "is no time"),
        (["--timeout", "0s"], "between"),
        (["--pid", "999999999"], "no process 999999999"),
        (["--python", "/no/such/python"], "/no/such/python"),
        (["--repo", "/no/such/dir"], "/no/such/dir"),
        (["--tagg", "x"], "No such option"),
        (["--pid", "1", "--", "cmd"], "neither"),
    ],
)
def test_wrong_use_is_one_error_with_exit_2(envsnap: Any, arguments: list[str], words: str) -> None:
    result = envsnap("take", *arguments, code=2)
    assert words in result.stderr
    assert result.stderr.startswith("error: ")
    assert not envsnap.store.exists() or not list(envsnap.store.glob("*/*.toml"))


def test_running_process_is_described(envsnap: Any) -> None:
    environ = envsnap.environ | {"NCCL_ALGO": "Tree", "HF_TOKEN": "hf_" + "a" * 34}
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"], env=environ, cwd=envsnap.cwd,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stdout.readline() == b"up\n"
        snapshot = envsnap.take("--pid", str(server.pid))
        server.communicate(b"\n")
    assert snapshot.facts["env"]["NCCL_ALGO"] == "Tree"
    assert snapshot.facts["env"]["HF_TOKEN"].startswith("<redacted:")
    assert snapshot.facts["launch"]["argv"][1] == "-c"
    assert snapshot.facts["launch"]["cwd"] == str(envsnap.cwd)
    assert snapshot.facts["python"]["prefix"] == sys.prefix


@pytest.mark.skipif(not ROOT, reason="only root can start a process as somebody else")
def test_process_of_somebody_else_is_a_reason_not_an_error(envsnap: Any) -> None:
    with subprocess.Popen(["sleep", "600"], user=65534) as other:
        try:
            done = subprocess.run(
                ["setpriv", "--bounding-set", "-sys_ptrace", envsnap.program, "take", "--pid", str(other.pid), "--stdout"],
                env=envsnap.environ, cwd=envsnap.cwd, capture_output=True, check=False,
            )  # fmt: skip
        finally:
            other.kill()
    assert done.returncode == 0, done.stderr
    document = tomllib.loads(done.stdout.decode())
    assert document["missing"]["launch.cwd"].startswith("permission")
    assert "cwd" not in document.get("launch", {})
    assert document["collectors"]["launch"]["status"] == "partial"


def test_strict_demands_completeness(envsnap: Any) -> None:
    result = envsnap("take", "--strict", "--timeout", "1ms", code=3)
    assert "incomplete" in result.stderr
    assert len(list(envsnap.store.glob("*/*.toml"))) == 1


def test_only_the_first_process_of_a_node_takes(envsnap: Any) -> None:
    assert envsnap("take", "--once", LOCAL_RANK="3").stdout == ""
    assert envsnap("take", "--once", LOCAL_RANK="0").stdout != ""
    assert envsnap("take", "--once").stdout != ""


# -- where the machine is broken -----------------------------------------------------------------------------------


def test_without_proc_and_sys(envsnap: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    snapshot = envsnap.take(ENVSNAP_ROOT=str(empty))
    assert snapshot.facts["env"]["VIRTUAL_ENV"] == sys.prefix
    assert not [name for name, result in snapshot.collectors.items() if result["status"] == "timeout"]


def test_without_a_home(envsnap: Any) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        del envsnap.environ[name]
    envsnap.take()


def test_in_a_deleted_directory(envsnap: Any) -> None:
    script = f"cd $(mktemp -d) && rmdir $PWD && exec {envsnap.program} take"
    done = subprocess.run(["bash", "-c", script], env=envsnap.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = envsnap.store.glob("*/*.toml")
    assert "launch.cwd" in tomllib.loads(path.read_text())["missing"]


def test_store_that_is_a_file(envsnap: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = envsnap("take", "--store", str(tmp_path / "file"), code=2)
    assert "cannot" in result.stderr
    assert "hint: " in result.stderr
    assert (tmp_path / "file").read_text() == "x"


def test_full_disk_leaves_no_file(envsnap: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12k", "envsnap-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        result = envsnap("take", "--store", str(disk / "store"), code=2)
        assert "No space left on device" in result.stderr
        assert "--stdout" in result.stderr
        assert list(disk.rglob("*.toml*")) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_read_only_store(envsnap: Any, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "envsnap-test", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("cannot mount a read-only file system here")
    try:
        result = envsnap("take", "--store", str(disk / "store"), code=2)
        assert "Read-only file system" in result.stderr
        assert tomllib.loads(envsnap("take", "--store", str(disk / "store"), "--stdout").stdout)["schema"] == 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams(envsnap: Any, closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{envsnap.program} take {closed}"],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(envsnap.store.glob("*/*.toml"))) == 1


@pytest.mark.parametrize(
    "arguments", ["log", "show", "show --missing", "diff latest now", "export latest --format env"]
)
def test_a_full_disk_behind_standard_output_is_said_in_a_line(envsnap: Any, arguments: str) -> None:
    envsnap.take()
    result = envsnap(
        "-c", f"{envsnap.program} {arguments} > /dev/full", before=["bash", "-c", 'shift; exec bash "$@"', "x"], code=2
    )
    assert result.stderr.startswith("error: cannot write to standard output: No space left on device")


def test_a_full_disk_behind_standard_error_is_no_trouble(envsnap: Any) -> None:
    result = envsnap("-c", f"{envsnap.program} take 2> /dev/full", before=["bash", "-c", 'shift; exec bash "$@"', "x"])
    assert len(result.stdout.strip()) == 7


def test_a_name_that_is_no_utf_8_is_shown_as_bytes(envsnap: Any) -> None:
    result = envsnap("import", os.fsdecode(b"no\xffsuch"), code=2)
    assert result.stderr.startswith("error: cannot read `no\\xffsuch`")


def test_a_section_of_the_newest_snapshot_is_shown_by_its_name(envsnap: Any) -> None:
    envsnap.take(NCCL_DEBUG="WARN")
    assert envsnap("show", "env.NCCL_DEBUG").stdout == "WARN\n"
    assert envsnap("show", "python").stdout == envsnap("show", "latest:python").stdout


def test_full_standard_output(envsnap: Any) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{envsnap.program} take > /dev/full"],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "could not print the id" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(envsnap.store.glob("*/*.toml"))) == 1


def test_many_takes_at_once(envsnap: Any) -> None:
    running = [
        subprocess.Popen(
            [envsnap.program, "take", "--timeout", "60s", "--only", "env", "--only", "limits"], env=envsnap.environ, cwd=envsnap.cwd,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(200)
    ]  # fmt: skip
    answers = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 200, [err for _, err in answers if err][:2]
    paths = list(envsnap.store.glob("*/*.toml"))
    assert len({out for out, _ in answers}) == len(paths) == 200
    assert {path.stem.rpartition("_")[2] for path in paths} == {out.decode().strip() for out, _ in answers}
    documents = [tomllib.loads(path.read_text()) for path in paths]
    # On a machine that two hundred keep busy, a collector may be late; that is said, and another fingerprint.
    whole = [one for one in documents if all(row["status"] != "timeout" for row in one["collectors"].values())]
    assert whole
    assert len({one["meta"]["fingerprint"] for one in whole}) == 1
    assert not [
        path for path in envsnap.store.rglob("*") if path.name.endswith(".tmp") or path.name.startswith(".key-")
    ]


def test_nothing_is_left_behind(envsnap: Any) -> None:
    before = set(envsnap.home.rglob("*"))
    envsnap("take")
    new = {path.relative_to(envsnap.home).as_posix() for path in envsnap.home.rglob("*")} - {
        path.relative_to(envsnap.home).as_posix() for path in before
    }
    assert {name for name in new if not name.startswith("store")} <= {
        "cache",
        "cache/envsnap",
        "cache/envsnap/hashes",
        "cache/envsnap/extensions",
    }


def test_names_of_many_kinds_do_not_break_the_document(envsnap: Any) -> None:
    script = "import os; os.environb[b'NCCL_ODD'] = b'\\xff\\xfe line\\nbreak \\x1b[31m'; os.execv(os.environ['P'], [os.environ['P'], 'take'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=envsnap.environ | {"P": envsnap.program},
        cwd=envsnap.cwd,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = envsnap.store.glob("*/*.toml")
    assert tomllib.loads(path.read_text())["env"]["NCCL_ODD"] == "\\xff\\xfe line\nbreak \x1b[31m"
    shown = envsnap("show", "latest:env.NCCL_ODD").stdout
    assert "\x1b" not in shown


def test_python_api_takes_and_loads(envsnap: Any) -> None:
    script = (
        "import envsnap, sys; snapshot = envsnap.take(tag='api'); assert envsnap.load(snapshot.path).id == snapshot.id;"
        "assert not envsnap.diff(snapshot, envsnap.load(snapshot.path));"
        "assert 'torch' not in sys.modules; print(snapshot.path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()


def test_version_loads_nothing_heavy(envsnap: Any) -> None:
    script = "import sys; sys.argv = ['envsnap', '--version']; from envsnap.cli import main; main(); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=envsnap.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("envsnap 0.")
    loaded = set(re.findall(r"'([\w.]+)'", done.stdout))
    assert not loaded & {
        "click",
        "rich",
        "git",
        "deepdiff",
        "pynvml",
        "importlib_metadata",
        "tomllib",
        "tomli_w",
        "json",
        "re",
    }


def test_take_loads_nothing_heavy_in_the_parent(envsnap: Any) -> None:
    script = (
        "import os, sys; real = os._exit\n"
        "def leave(code):\n    print(sorted(sys.modules)); sys.stdout.flush(); real(code)\n"
        "parent = os.getpid(); os._exit = lambda code: leave(code) if os.getpid() == parent else real(code)\n"
        "sys.argv = ['envsnap', 'take', '-q']; from envsnap.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=envsnap.environ, cwd=envsnap.cwd, capture_output=True, text=True, check=True
    )
    loaded = set(re.findall(r"'([\w.]+)'", done.stdout))
    assert "envsnap.collect.runner" in loaded
    assert "envsnap.collect.source" not in loaded
    assert not loaded & {
        "rich",
        "git",
        "deepdiff",
        "pynvml",
        "importlib_metadata",
        "tomllib",
        "subprocess",
        "argparse",
        "packaging",
    }
