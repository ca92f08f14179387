"""`envsnap report` through the installed command: the template's headings, the limit, privacy, the way back."""

from __future__ import annotations

import copy
import io
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_share import PLANTED, SHAPES, planted

from envsnap.facts import leaves
from envsnap.ingest import read_text
from envsnap.model import Snapshot
from envsnap.report.logs import LogExtract
from envsnap.report.markdown import Block, code, fit, joined
from envsnap.report.profiles import profiles

GOLDEN = Path(__file__).parent.parent / "golden" / "yesterday-it-worked"
BEFORE, AFTER = str(GOLDEN / "before.toml"), str(GOLDEN / "after.toml")
PROJECTS = tuple(profiles())


def write(envsnap: Any, *arguments: str, **options: Any) -> tuple[str, Any]:
    """Write a report without the project's own collector; its text and the command's result."""
    target = envsnap.home / "bug.md"
    result = envsnap("report", *arguments, "--no-upstream", "-o", str(target), **options)
    return target.read_text(), result


@pytest.mark.parametrize("project", PROJECTS)
def test_headings_are_those_of_the_template_in_its_order(envsnap: Any, project: str) -> None:
    text, result = write(envsnap, "--for", project, AFTER, "--since", BEFORE)
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert headings == [*(one.title for one in profiles()[project].headings), "What is missing, and how to get it"]
    assert text.startswith(f"<!-- Title: {profiles()[project].title}RuntimeError: Not enough memory")
    assert "LIKELY CAUSE" in text
    assert "--mem-fraction-static 0.55" in text
    assert profiles()[project].repository in result.stderr
    assert len(text) < 65_536


def test_summary_says_what_is_filled_what_is_left_and_what_is_masked(envsnap: Any) -> None:
    _, result = write(envsnap, "--for", "sglang", AFTER, "--since", BEFORE)
    assert result.stdout == ""
    lines = [line.split(maxsplit=1)[0] for line in result.stderr.splitlines()]
    assert lines == ["wrote", "title", "filled", "yours", "masked", "attach"]
    assert "changes since a41f09c, reproduction, environment, topology" in result.stderr
    assert "machine name" in result.stderr


def test_attached_snapshots_are_read_by_diff(envsnap: Any) -> None:
    write(envsnap, "--for", "sglang", AFTER, "--since", BEFORE)
    attached = [str(envsnap.home / f"bug.{name}.toml.txt") for name in ("before", "snapshot")]
    text = envsnap("diff", *attached).stdout
    assert re.search(r"mem_fraction_static +0\.9 → 0\.55", text)
    assert "gpu-1" not in re.findall(r"GPU0 \((\S+)\)  0 → 1", text)
    original = envsnap("diff", BEFORE, AFTER).stdout
    assert text.splitlines()[-1] == original.splitlines()[-1]


@pytest.mark.parametrize("project", PROJECTS)
def test_report_of_every_machine_reads_back_without_contradicting_it(
    envsnap: Any, reference_documents: dict[str, dict[str, Any]], keep: Callable[..., str], project: str
) -> None:
    for name, document in reference_documents.items():
        text, _ = write(envsnap, "--for", project, keep(document))
        shared = Snapshot(tomllib.loads((envsnap.home / "bug.snapshot.toml.txt").read_text()))
        found = read_text(text)
        keys = {f"index-{row['index']}": key for key, row in shared.facts["gpu"].items() if "index" in row}
        facts = {section: table for section, table in found.document.items() if section in shared.facts}
        assert found.contradictions == ()
        assert not set(found.document) - set(shared.facts) - {"meta", "schema", "collectors", "missing", "outcome"}, (
            name
        )
        told = {tuple(keys.get(part, part) for part in path): value for path, value in leaves(facts)}
        assert {path: (shared.get(path), value) for path, value in told.items() if shared.get(path) != value} == {}, (
            name
        )
        assert found.document["packages"] == shared.facts["packages"]
        assert set(found.document["env"]) == set(shared.facts["env"])
        assert found.document["driver"]["version"] == shared.facts["driver"]["version"]


def test_comparison_with_an_earlier_snapshot_is_not_read_as_this_one(envsnap: Any) -> None:
    write(envsnap, "--for", "sglang", AFTER, "--since", BEFORE)
    path = str(envsnap.home / "bug.md")
    imported = tomllib.loads(envsnap("import", path, "--stdout").stdout)
    assert imported["packages"]["flashinfer-python"] == "0.6.4"
    assert imported["env"]["NCCL_ALGO"] == "Ring"


@pytest.mark.parametrize("form", ["md", "zip"])
def test_nothing_planted_comes_out_of_a_report(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str], form: str
) -> None:
    secret = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
    before = planted(copy.deepcopy(document))
    after = planted(copy.deepcopy(document), SHAPES[5:] + SHAPES[:5])
    after["outcome"] = {"status": "bad", "symptom": [f"RuntimeError: {SHAPES[0]} {secret}"]}
    after["env"]["NCCL_DEBUG"] = f"/home/wilhelmina/{secret}"
    log = envsnap.home / "wilhelmina.log"
    rows = [f"quokkabox-17:1:2 [0] NCCL WARN {shape}" for shape in SHAPES]
    trace = [
        "Traceback (most recent call last):",
        '  File "/home/wilhelmina/x.py", line 1, in f',
        f"ValueError: {SHAPES[1]}",
    ]
    log.write_text("\n".join([*rows, *SHAPES, f"token={secret}", *trace]) + "\n")
    target = envsnap.home / f"bug.{form}"
    paths = [keep(before), keep(after)]
    result = envsnap(
        "report", "--for", "nccl", paths[1], "--since", paths[0], "--log", str(log), "--no-upstream", "--format", form,
        "-o", str(target), "--show-redactions",
    )  # fmt: skip
    texts = {path.name: path.read_text() for path in envsnap.home.glob("bug.*") if path.suffix != ".zip"}
    if form == "zip":
        with zipfile.ZipFile(io.BytesIO(target.read_bytes())) as archive:
            texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert len(texts) >= 3
    for name, text in texts.items():
        found = PLANTED.search(text)
        assert found is None, (name, text[max(found.start() - 80, 0) : found.end() + 40])
        assert secret not in text
    assert "wilhelmina" in result.stdout
    assert re.search(r"^ *host-1 +quokkabox-17 +\d+x +name of a machine$", result.stdout, re.MULTILINE)
    assert secret not in result.stdout + result.stderr


def test_long_blocks_are_cut_and_whole_in_the_zip(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    document["packages"].update({f"filler-{number}": "1.0.0" for number in range(6000)})
    path = keep(document)
    text, result = write(envsnap, "--for", "vllm", path)
    assert 40_000 < len(text) < 65_536
    assert "lines are left out here; the whole is `packages.txt`" in text
    assert "--format zip" in result.stderr
    assert "filler-0==" in text
    target = envsnap.home / "bug.zip"
    envsnap("report", "--for", "vllm", path, "--no-upstream", "--format", "zip", "-o", str(target))
    with zipfile.ZipFile(target) as archive:
        assert {"report.md", "snapshot.toml", "packages.txt"} <= set(archive.namelist())
        assert archive.read("packages.txt").decode().count("filler-") == 6000


def test_log_extracts_stand_in_the_report(envsnap: Any) -> None:
    log = envsnap.home / "server.log"
    lines = [f"line {number} of the start" for number in range(500)]
    lines[300] = "node-07:11:22 [0] NCCL WARN Error while attaching to shared memory segment"
    lines[400:404] = [
        "(EngineCore pid=7) Traceback (most recent call last):",
        '(EngineCore pid=7)   File "/srv/llm/serving/launch.py", line 12, in main',
        "(EngineCore pid=7)     run()",
        "(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory. \x1b[31mTried\x1b[0m to allocate ```2 GiB",
    ]
    log.write_text("\n".join(lines) + "\n")
    text, result = write(envsnap, "--for", "nccl", AFTER, "--log", str(log))
    assert "First `NCCL WARN` (line 301):" in text
    assert "Last traceback (line 401):" in text
    assert 'launch.py", line 12, in main' in text
    assert "line 0 of the start" in text
    assert "line 499 of the start" in text
    assert "line 200 of the start" not in text
    assert "\x1b" not in text
    assert "````text\n(EngineCore pid=7) Traceback" in text
    assert "first NCCL WARN, last traceback of server.log" in result.stderr
    assert "OutOfMemoryError" in text.splitlines()[0]


def test_without_a_reference_it_is_the_newest_failure_against_the_last_good_run(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    envsnap("mark", "good", keep(document, host=os.uname().nodename))
    worse = copy.deepcopy(document)
    worse["packages"]["flashinfer-python"] = "0.6.4"
    envsnap("mark", "bad", keep(worse, minutes=5, host=os.uname().nodename))
    text, result = write(envsnap, "--for", "sglang")
    assert "reporting the newest failure" in result.stderr
    assert "What changed since it last worked (0000000)" in text
    assert re.search(r"flashinfer-python +0\.6\.3 → 0\.6\.4", text)


def test_a_good_run_of_the_same_second_counts_as_earlier(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    envsnap("mark", "good", keep(document, host=os.uname().nodename))
    worse = copy.deepcopy(document)
    worse["packages"]["flashinfer-python"] = "0.6.4"
    path = keep(worse, host=os.uname().nodename)
    assert "What changed since it last worked (0000000)" in write(envsnap, "--for", "sglang", path)[0]


def test_nccl_version_is_that_on_disk_where_nothing_tells_what_is_loaded(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    document["libraries"]["nccl"] = {"copies": ["2.28.9 /usr/lib/x86_64-linux-gnu/libnccl.so.2"]}
    assert "- on disk: `2.28.9 /usr/lib/" in write(envsnap, "--for", "nccl", keep(document))[0]
    del document["libraries"]["nccl"]
    document["packages"]["nvidia-nccl-cu13"] = "2.28.7"
    assert "- package `nvidia-nccl-cu13`: `2.28.7`" in write(envsnap, "--for", "nccl", keep(document, minutes=1))[0]


# -- the project's own collector ---------------------------------------------------------------------------------------


def venv_with(envsnap: Any, source: str) -> str:
    """An interpreter in which `sglang.check_env` is this program."""
    import venv

    prefix = envsnap.home / "venv"
    venv.create(prefix, symlinks=True)
    site = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "sglang").mkdir()
    (site / "sglang" / "__init__.py").touch()
    (site / "sglang" / "check_env.py").write_text(source)
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "sglang-0.5.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.9\n")
    return str(prefix / "bin" / "python")


def test_own_collector_runs_in_the_inspected_interpreter(envsnap: Any) -> None:
    python = venv_with(envsnap, "import sys, os\nprint('Python: here', sys.prefix)\nprint(os.path.expanduser('~'))\n")
    target = envsnap.home / "bug.md"
    result = envsnap("report", "--for", "sglang", "now", "--python", python, "-o", str(target))
    text = target.read_text()
    assert "Output of python -m sglang.check_env" in text
    assert "Python: here" in text
    assert str(envsnap.home) not in text
    assert "check_env ran" in result.stderr
    assert "under the headings" not in text


def test_crash_of_the_own_collector_is_shown_beside_our_rendering(envsnap: Any) -> None:
    python = venv_with(envsnap, "raise OSError('libcudart.so.12: cannot open shared object file')\n")
    target = envsnap.home / "bug.md"
    result = envsnap("report", "--for", "sglang", "now", "--python", python, "-o", str(target))
    text = target.read_text()
    assert "Traceback (most recent call last)" in text
    assert "OSError: libcudart.so.12: cannot open shared object file" in text
    assert "Environment as envsnap recorded it, under the headings of python -m sglang.check_env" in text
    assert "\nsglang: 0.5.9\n" in text
    assert "check_env failed" in result.stderr


def test_collector_of_a_package_that_is_not_there_is_not_run(envsnap: Any) -> None:
    target = envsnap.home / "bug.md"
    envsnap("report", "--for", "vllm", "now", "-o", str(target))
    assert "was not run: vllm is not installed in this interpreter" in target.read_text()


# -- wrong usage -------------------------------------------------------------------------------------------------------


def test_errors_are_one_line(envsnap: Any) -> None:
    assert "cannot read" in envsnap("report", "--for", "sglang", AFTER, "--log", "/no/such.log", code=2).stderr
    assert "cannot write" in envsnap("report", "--for", "sglang", AFTER, "-o", "/no/such/bug.md", code=2).stderr
    assert "-o FILE.zip" in envsnap("report", "--for", "sglang", AFTER, "--format", "zip", "-o", "-", code=2).stderr
    assert envsnap("report", "--for", "sglang", AFTER, "--since", "tag:none", code=2).stderr.startswith("error: ")


def test_report_can_be_printed(envsnap: Any) -> None:
    result = envsnap("report", "--for", "sglang", AFTER, "--no-upstream", "-o", "-")
    assert result.stdout.startswith("<!-- Title: ")
    assert not list(envsnap.cwd.iterdir())
    envsnap("report", "--for", "sglang", AFTER, "--no-upstream")
    assert sorted(os.listdir(envsnap.cwd)) == [
        "envsnap-report-sglang-c77e0aa.md",
        "envsnap-report-sglang-c77e0aa.snapshot.toml.txt",
    ]


# -- parts -------------------------------------------------------------------------------------------------------------


def test_long_log_is_read_in_bounded_memory() -> None:
    extract = LogExtract("log")
    count = sum(1 for _ in extract.watch(f"row {number} {'x' * 5000}\n" for number in range(20_000)))
    assert count == extract.lines == 20_000
    assert sum(map(len, [*extract.head, *extract.tail])) < 500_000
    assert extract.tail[-1].startswith("row 19999")


CHAINED = """\
Traceback (most recent call last):
  a
KeyError: 1

During handling of the above exception, another exception occurred:"""


@pytest.mark.parametrize(
    ("log", "last"),
    [
        ("Traceback (most recent call last):\n  File 'a'\nValueError: x\nrest\n", "ValueError: x"),
        ("[TP0] Traceback (most recent call last):\n  File 'a'\n    f()\nRuntimeError: y\n\n", "RuntimeError: y"),
        ("Traceback (most recent call last):\n  File 'a'", "  File 'a'"),
        (f"{CHAINED}\n\nTraceback (most recent call last):\n  b\nTypeError: 2\n", "TypeError: 2"),
    ],
)
def test_last_traceback_is_found(log: str, last: str) -> None:
    extract = LogExtract("log")
    for _ in extract.watch(log.splitlines(keepends=True)):
        pass
    assert extract.traceback[-1] == last
    assert ("KeyError: 1" in extract.traceback) == ("KeyError" in log)


def test_blocks_are_cut_longest_first() -> None:
    blocks = [Block("a", "short line\n" * 20, "a.txt"), Block("b", "a long line\n" * 5000, "b.txt"), "words\n"]
    whole = fit(blocks, 10_000)
    assert len(joined(blocks)) <= 10_000
    assert set(whole) == {"b.txt"}
    assert whole["b.txt"] == "a long line\n" * 5000
    one_line = [Block("c", "x" * 50_000, "c.txt")]
    fit(one_line, 10_000)
    assert len(joined(one_line)) <= 10_000


@pytest.mark.parametrize("value", ["a", "`", "``a`", "a\nb", "", "<b>"])
def test_code_span_cannot_be_left(value: str) -> None:
    span = code(value)
    assert "\n" not in span
    if value:
        fence = re.match("`+", span)
        assert fence is not None
        assert span.endswith(fence.group())
        assert fence.group() not in value
