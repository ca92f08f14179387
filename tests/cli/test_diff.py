"""`envsnap diff`, `log`, `show`, `mark`, `prune` as people run them."""

from __future__ import annotations

import copy
import datetime
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Keep = Callable[..., str]
HERE = {"ENVSNAP_ROOT": ""}


@pytest.fixture(autouse=True)
def this_host_is_node_07(envsnap: Any, tmp_path: Path) -> None:
    """The reference snapshots are of node-07: so is this machine, for the references."""
    root = tmp_path / "root"
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/hostname").write_text("node-07\n")
    envsnap.environ["ENVSNAP_ROOT"] = str(root)


@pytest.fixture
def changed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a change of every shape."""
    after = copy.deepcopy(document)
    after["packages"]["torch"] = "2.10.0"
    after["packages"]["brand-new"] = "1.0"
    del after["packages"]["tqdm"]
    after["env"]["NCCL_P2P_DISABLE"] = "1"
    after["env"]["PATH"] = "/opt/other/bin:" + after["env"]["PATH"].replace("/usr/local/sbin:", "")
    after["env"]["ESCAPE"] = "\x1b[31mred"
    after["python"]["sys_path"] = [*after["python"]["sys_path"], "/srv/late"]
    after["driver"]["modules"] = [*after["driver"]["modules"], "gdrdrv"]
    after["gpu"]["14e1ea2c"]["temperature_c"] = 88
    del after["system"]["kernel"]
    after["missing"] = {"system.kernel": "permission: /proc/version"}
    after["collectors"]["system"] = {"status": "partial"}
    return after


def test_text_says_what_was_compared_and_every_change(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    keep(document)
    keep(changed, minutes=5)
    text = envsnap("diff", "latest~1", "latest").stdout
    lines = text.splitlines()
    assert re.match(r"before  0000000  node-07  Sun 01 Mar 2026 12:00", lines[0])
    assert re.match(r"after   0001000  node-07  Sun 01 Mar 2026 12:05", lines[1])
    assert re.search(r"↑ +torch +2\.9\.1 → 2\.10\.0 +minor", text)
    assert re.search(r"\+ +brand-new +1\.0", text)
    assert re.search(r"- +tqdm +\S+ → not installed", text)
    assert re.search(r"NCCL_P2P_DISABLE +unset → 1", text)
    assert re.search(r"^ +\+ /opt/other/bin  \(first\)$", text, re.MULTILINE)
    assert re.search(r"^ +- /usr/local/sbin$", text, re.MULTILINE)
    assert re.search(r"^ +\+ /srv/late  \(last\)$", text, re.MULTILINE)
    assert re.search(r"^ +\+ gdrdrv$", text, re.MULTILINE)
    assert re.search(r"system\.kernel +unknown after: permission: /proc/version", text)
    assert "temperature_c" not in text
    assert "\x1b" not in text
    assert lines[-1].startswith("8 changes in 4 sections, 1 not known on one side (hidden: 1 ")


def test_all_shows_the_volatile_too(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    keep(document)
    keep(changed, minutes=5)
    assert re.search(r"gpu\.14e1ea2c\.temperature_c +\d+ → 88", envsnap("diff", "latest~1", "latest", "--all").stdout)


def test_json_is_versioned_and_complete(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    before, after = keep(document), keep(changed, minutes=5)
    result = json.loads(envsnap("diff", before, after, "--json").stdout)
    assert result["schema"] == "envsnap.diff/1"
    assert result["before"]["host"] == "node-07"
    assert result["after"]["taken_at"] == "2026-03-01T12:05:00Z"
    by_path = {change["path"]: change for change in result["changes"]}
    when = by_path["packages.torch"].pop("when")
    assert when == {
        "earliest": "2026-03-01T12:00:00Z", "latest": "2026-03-01T12:05:00Z", "by": "", "note": "", "is_narrowed": False,
    }  # fmt: skip
    assert by_path["packages.torch"] | {"weight": 0} == {
        "path": "packages.torch", "kind": "changed", "class": "I", "direction": "up", "step": "minor",
        "before": "2.9.1", "after": "2.10.0", "weight": 0, "explained_by": "ES206",
    }  # fmt: skip
    assert by_path["env.ESCAPE"]["after"] == "\x1b[31mred"
    assert result["unknown"] == [{"path": "system.kernel", "side": "after", "reason": "permission: /proc/version"}]
    assert result["summary"]["changes"] == len(result["changes"]) == 8
    weights = [change["weight"] for change in result["changes"]]
    assert weights[0] == max(weights)


def test_exit_code_follows_git(envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]) -> None:
    before, after = keep(document), keep(changed, minutes=5)
    envsnap("diff", before, after, code=0)
    envsnap("diff", before, after, "--exit-code", code=1)
    envsnap("diff", before, before, "--exit-code", code=0)
    envsnap("diff", before, after, "--exit-code", "--section", "network", code=0)
    envsnap("diff", before, "/no/such.toml", "--exit-code", code=2)


def test_narrowed_to_a_section(envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]) -> None:
    before, after = keep(document), keep(changed, minutes=5)
    for arguments in (["--section", "env"], [], []):
        references = [before, after] if arguments else ["latest~1:env", "latest"]
        text = envsnap("diff", *references, *arguments).stdout
        assert "NCCL_P2P_DISABLE" in text
        assert "torch" not in text
    assert "no difference in network" in envsnap("diff", before, after, "-s", "network").stdout
    assert "no section `netwrk`" in envsnap("diff", before, after, "-s", "netwrk", code=2).stderr


def test_reads_standard_input(envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]) -> None:
    before, after = keep(document), keep(changed, minutes=5)
    text = envsnap("diff", before, "-", stdin=Path(after).read_bytes()).stdout
    assert "NCCL_P2P_DISABLE" in text


def test_alone_it_says_what_it_chose(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert "envsnap take" in envsnap("diff", code=2).stderr
    keep(document)
    keep(changed, minutes=5)
    result = envsnap("diff")
    assert "comparing the last two" in result.stderr
    assert "torch" in result.stdout
    envsnap("mark", "good", "latest~1")
    envsnap("mark", "bad", "latest")
    result = envsnap("diff")
    assert "the last good snapshot with the newest failure" in result.stderr
    assert "marked good" in result.stdout
    assert "marked bad" in result.stdout


def test_last_good_against_now(envsnap: Any) -> None:
    envsnap("take", NCCL_DEBUG="INFO")
    envsnap("mark", "good")
    result = envsnap("diff", NCCL_DEBUG="WARN")
    assert "with this machine now" in result.stderr
    assert re.search(r"NCCL_DEBUG +INFO → WARN", result.stdout)
    assert result.stdout.rstrip().endswith("1 change in 1 section") or "1 change in 1 section" in result.stdout
    assert len(list(envsnap.store.glob("*/*.toml"))) == 1


def test_blocks_that_are_equal_are_parsed_once(
    keep: Keep, document: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    """The quick way of loading a pair reads what the slow way reads."""
    from envsnap.pairs import load_pair, split_shared
    from envsnap.refs import load_file

    for name in document:
        if name not in ("schema", "meta", "collectors", "missing"):
            document["meta"].setdefault("digests", {})[name] = "00"
            changed["meta"].setdefault("digests", {})[name] = "00"
    before, after = keep(document), keep(changed, minutes=5)
    split = split_shared(Path(before).read_text(), Path(after).read_text())
    assert split is not None
    assert len(split[1]) < len(split[0])
    quick = load_pair(before, after)
    assert quick == (load_file(before), load_file(after))
    assert quick[0].document["network"] is quick[1].document["network"]


def test_log_folds_identical_and_says_what_changed(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    for minutes in (0, 10, 20):
        keep(document, minutes=minutes, fingerprint="b2:1")
    keep(changed, minutes=30, fingerprint="b2:2", tags=["prod"], note="after the upgrade")
    lines = envsnap("log").stdout.splitlines()
    assert len(lines) == 3
    assert "0003000" in lines[0]
    assert "prod" in lines[0]
    assert "after the upgrade" in lines[0]
    assert "torch 2.9.1 → 2.10.0" in lines[1]
    assert "0002000" in lines[2]
    assert "(3 identical since Sun 01 Mar 2026 12:00)" in lines[2]
    assert len(envsnap("log", "-n", "1").stdout.splitlines()) == 1
    assert len(envsnap("log", "--oneline").stdout.splitlines()) == 2
    assert len(json.loads(envsnap("log", "--json").stdout)["snapshots"]) == 4
    assert "no such snapshot" in envsnap("log", "--tag", "none", code=2).stderr


def test_log_of_one_fact(envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]) -> None:
    keep(document)
    keep(document, minutes=60)
    keep(changed, minutes=120)
    lines = envsnap("log", "--path", "packages.torch").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("2.10.0")
    assert re.match(r"2\.9\.1 +from Sun 01 Mar 2026 12:00 \(0000000\) to Sun 01 Mar 2026 13:00 \(0001000\)", lines[1])
    assert envsnap("log", "--path", "system.kernel").stdout.startswith("unknown")
    assert "no snapshot has the fact" in envsnap("log", "--path", "packages.nonsense", code=2).stderr


def test_show_prints_parts(envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]) -> None:
    keep(changed)
    assert envsnap("show", "latest:packages.torch").stdout == "2.10.0\n"
    assert envsnap("show", "latest:driver").stdout.startswith("[driver]\n")
    assert json.loads(envsnap("show", "latest:env", "--json").stdout)["NCCL_P2P_DISABLE"] == "1"
    assert "system.kernel  permission: /proc/version" in envsnap("show", "--missing").stdout
    assert "has no `gpu.ffffffff`" in envsnap("show", "latest:gpu.ffffffff", code=2).stderr


def test_stable_is_equal_on_equal_machines(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    first = keep(document)
    document["gpu"]["14e1ea2c"]["memory_free_mib"] = 3
    document["system"]["boot_id"] = "another"
    second = keep(document, host="node-08", minutes=3)
    stable = [envsnap("show", path, "--stable").stdout for path in (first, second)]
    assert stable[0] == stable[1]
    assert "node-07" not in stable[0].replace("/srv", "")


def test_mark_keeps_every_other_key(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    import tomllib

    document["future"] = {"unheard": {"of": 1}}
    path = Path(keep(document))
    before = tomllib.loads(path.read_text())
    envsnap("mark", "bad", "latest", "--note", "died with hf_" + "b" * 34, "--exit-code", "137")
    after = tomllib.loads(path.read_text())
    assert after["outcome"]["status"] == "bad"
    assert after["outcome"]["exit_code"] == 137
    assert "hf_bbb" not in path.read_text()
    assert {**after, "outcome": None, "meta": None} == {**before, "outcome": None, "meta": None}
    envsnap("mark", "none", "latest")
    assert "outcome" not in tomllib.loads(path.read_text())
    assert "cannot be marked" in envsnap("mark", "good", "now", code=2).stderr


def test_prune_keeps_marks_and_points_of_change(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    kept = []
    for number in range(30):
        fingerprint = "b2:1" if number < 20 else "b2:2"
        path = keep(document, minutes=number, fingerprint=fingerprint, tags=["prod"] if number == 7 else [])
        if number in (0, 3, 7, 19, 20, 28, 29):
            kept.append(path)
    envsnap("mark", "good", kept[1])
    listed = envsnap("prune", "--keep", "2", "--dry-run")
    assert len(list(envsnap.store.glob("*/*.toml"))) == 30
    done = envsnap("prune", "--keep", "2")
    assert done.stdout == listed.stdout
    assert "deleted 23 of 30" in done.stderr
    assert sorted(map(str, envsnap.store.glob("*/*.toml"))) == sorted(kept)
    assert "deleted 0 of 7" in envsnap("prune", "--keep", "2").stderr


def test_completion_knows_references(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    keep(document, id="feedc0de0000")
    assert "_ENVSNAP_COMPLETE" in envsnap("completion", "bash").stdout
    done = envsnap("", code=None, COMP_WORDS="envsnap show feed", COMP_CWORD="2", _ENVSNAP_COMPLETE="bash_complete")
    assert "feedc0d" in done.stdout


def test_colours_follow_the_terminal_and_the_conventions(
    envsnap: Any, keep: Keep, document: dict[str, Any], changed: dict[str, Any]
) -> None:
    keep(document)
    keep(changed, minutes=5)
    pair = ("diff", "latest~1", "latest")
    assert "\x1b[" not in envsnap(*pair).stdout
    assert "\x1b[" in envsnap("--color", "always", *pair).stdout
    assert "\x1b[" in envsnap(*pair, FORCE_COLOR="1").stdout
    assert "\x1b[" not in envsnap(*pair, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[" in on_terminal(envsnap, *pair)
    assert "\x1b[" not in on_terminal(envsnap, "--color", "never", *pair)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", envsnap("--color", "always", *pair).stdout)
    assert [line.rstrip() for line in plain.splitlines()] == envsnap(*pair).stdout.splitlines()


def on_terminal(envsnap: Any, *arguments: str) -> str:
    """What a command prints on a pseudo-terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [envsnap.program, *arguments],
        env=envsnap.environ | {"TERM": "xterm-256color"},
        cwd=envsnap.cwd,
        stdout=follower,
        stderr=subprocess.DEVNULL,
    )
    os.close(follower)
    chunks = []
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    process.wait()
    os.close(leader)
    return b"".join(chunks).decode()


def test_reader_that_has_seen_enough(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    keep(document)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {envsnap.program} show | head -1"],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == "schema = 1\n"
    assert done.stderr == ""


def test_misspelt_command_is_met_with_a_suggestion(envsnap: Any) -> None:
    assert "take" in envsnap("tak", code=2).stderr


def test_alone_envsnap_says_where_it_stands(envsnap: Any) -> None:
    out = envsnap().stdout
    assert str(envsnap.store) in out
    assert "envsnap take" in out


def test_help_topics(envsnap: Any) -> None:
    assert "latest~2" in envsnap("help", "refs").stdout
    assert "130" in envsnap("help", "exit-codes").stdout
    assert "take" in envsnap("help").stdout


def test_bug_in_envsnap_leaves_a_crash_file_without_secrets(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    keep(document)
    script = (
        "import sys; import envsnap.cli.show as show\n"
        "def broken(*args): raise RuntimeError('token hf_' + 'c' * 34)\n"
        "show.print_part = broken; sys.argv = ['envsnap', 'show']\n"
        "from envsnap.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "this is a bug in envsnap" in done.stderr
    assert "Traceback" not in done.stderr
    (crash,) = (envsnap.home / "state/envsnap/crashes").iterdir()
    assert "RuntimeError" in crash.read_text()
    assert "hf_ccc" not in crash.read_text() + done.stderr


def test_interrupt_is_130(envsnap: Any) -> None:
    script = "import os, signal, sys; import envsnap.cli.show as show\nshow.print_part = lambda *a: os.kill(os.getpid(), signal.SIGINT)\nsys.argv = ['envsnap', 'show', '-']\nfrom envsnap.cli import main; main()"
    text = b"schema = 1\n[meta]\nid = 'abcd'\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=envsnap.environ,
        cwd=envsnap.cwd,
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 130


def test_times_are_shown_in_local_time(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    path = keep(document)
    assert "Sun 01 Mar 2026 04:00" in envsnap("diff", path, path, TZ="America/Los_Angeles").stdout
    assert datetime.datetime.fromisoformat("2026-03-01T12:00:00+00:00").hour == 12
