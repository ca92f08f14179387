"""Installed files against their record: wheels of our own, installed by pip, then treated as people treat them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wheels import RELEASE, install, make_environment, make_wheel

from envsnap.collect.contents.files import LARGE, compare
from envsnap.collect.contents.hashes import ContentHashes
from envsnap.collect.contents.record import InstallRecord, OtherRecords, read_install_record
from envsnap.collect.integrity import FACTS
from envsnap.collect.runner import Capture
from envsnap.facts import FactTable, leaves
from envsnap.host import Host

ENGINE = {
    "vllm/__init__.py": "__version__ = '0.9.0'\n",
    "vllm/engine/__init__.py": "",
    "vllm/engine/core.py": "def step():\n    return 1\n",
    "vllm/engine/config.json": '{"a": 1}\n',
    "vllm/kernels/moe.py": "x = 1\n",
}


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    """An environment with an engine, one of NCCL's wheels and a package that nobody watches, installed by pip."""
    folder = tmp_path_factory.mktemp("template")
    prefix = folder / "venv"
    make_environment(prefix)
    console = "[console_scripts]\nvllm = vllm:main\n"
    wheels = [
        make_wheel(folder, "vllm", "0.9.0", ENGINE, console),
        make_wheel(folder, "colours", "1.0", {"colours.py": "red = 1\n"}),
        make_wheel(folder, "nvidia_nccl_cu12", "2.27.5", {"nvidia/nccl/lib/libnccl.so.2": "twelve", "nvidia/x.py": ""}),
        make_wheel(folder, "nvidia_nvtx", "13.0", {"nvidia/nvtx/nvtx.h": "//", "nvidia/x.py": ""}),
    ]
    install(prefix, *wheels)
    return folder


class Environment:
    def __init__(self, template: Path, folder: Path) -> None:
        self.prefix = folder / "venv"
        shutil.copytree(template / "venv", self.prefix, symlinks=True)  # keeps the times, of directories too
        self.python = str(self.prefix / "bin" / "python")
        self.site = self.prefix / "lib" / RELEASE / "site-packages"
        self.wheels = template
        self.folder = folder
        self.cache = folder / "cache"

    def host(self, **environ: str) -> Host:
        environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(self.cache), **environ}
        return Host(environ=environ, cwd=str(self.folder), python=self.python)

    def __truediv__(self, path: str) -> Path:
        return self.site / path


@pytest.fixture
def environment(template, tmp_path) -> Environment:
    return Environment(template, tmp_path)


def capture(host: Host):
    return Capture(host, processes=(("integrity",),)).finish()


def collect(host: Host) -> dict:
    """The facts by package, without the time of installation."""
    collected = capture(host)
    assert collected.results["integrity"].status == "ok", collected.results["integrity"].detail
    found = collected.facts.get("integrity", {})
    for facts in found.values():
        facts.pop("installed_at", None)
    return found


def append(path: Path, text: str = "print('debug')\n") -> None:
    with open(path, "a") as file:
        file.write(text)


class TestWhatPeopleDo:
    def test_nothing(self, environment):
        assert collect(environment.host()) == {"vllm": {}, "nvidia-nccl-cu12": {}, "nvidia-nvtx": {}}

    def test_the_time_of_installation_is_records(self, environment):
        record = environment / "vllm-0.9.0.dist-info/RECORD"
        told = capture(environment.host()).facts["integrity"]["vllm"]["installed_at"]
        assert told.timestamp() == int(record.stat().st_mtime)

    def test_a_debug_print_that_was_left_in(self, environment):
        append(environment / "vllm/engine/core.py")
        facts = collect(environment.host())["vllm"]
        assert facts.pop("digest").startswith("sha256:")
        assert facts == {"changed": ["vllm/engine/core.py"]}

    def test_an_edit_of_the_same_size(self, environment):
        path = environment / "vllm/engine/core.py"
        path.write_text(path.read_text().replace("1", "2"))
        assert collect(environment.host())["vllm"]["changed"] == ["vllm/engine/core.py"]

    def test_an_edit_that_was_undone(self, environment):
        path = environment / "vllm/engine/core.py"
        before = path.read_bytes()
        append(path)
        path.write_bytes(before)
        assert collect(environment.host())["vllm"] == {"touched": ["vllm/engine/core.py"]}

    def test_different_edits_have_different_digests_and_equal_ones_the_same(self, environment):
        path = environment / "vllm/engine/core.py"
        digests = []
        for text in ("a = 1\n", "b = 2\n", "a = 1\n"):
            path.write_text(text)
            digests.append(collect(environment.host())["vllm"]["digest"])
        assert digests[0] == digests[2] != digests[1]

    def test_a_file_that_is_gone(self, environment):
        (environment / "vllm/engine/config.json").unlink()
        facts = collect(environment.host())["vllm"]
        assert facts.pop("digest")
        assert facts == {"missing": ["vllm/engine/config.json"]}

    def test_a_package_that_is_gone(self, environment):
        shutil.rmtree(environment / "vllm/kernels")
        assert collect(environment.host())["vllm"]["missing"] == ["vllm/kernels/moe.py"]

    def test_files_that_were_added(self, environment):
        (environment / "vllm/kernels/E=8,N=7168.json").write_text("{}")
        (environment / "vllm/mine/deep").mkdir(parents=True)
        (environment / "vllm/mine/deep/own.py").write_text("y = 1\n")
        facts = collect(environment.host())["vllm"]
        assert facts["extra"] == ["vllm/kernels/E=8,N=7168.json", "vllm/mine/deep/own.py"]
        before = facts["digest"]
        (environment / "vllm/mine/deep/own.py").write_text("y = 2\n")
        assert collect(environment.host())["vllm"]["digest"] != before

    def test_a_library_that_was_swapped_for_another_size(self, environment):
        path = environment / "nvidia/nccl/lib/libnccl.so.2"
        digests = set()
        for end in (b"one", b"two"):
            with open(path, "wb") as file:
                file.truncate(LARGE + 10)
                file.seek(LARGE)
                file.write(end)
            facts = collect(environment.host())["nvidia-nccl-cu12"]
            assert facts["changed"] == ["nvidia/nccl/lib/libnccl.so.2"]
            digests.add(facts["digest"])
        assert len(digests) == 2

    def test_a_list_that_would_be_too_long_is_cut(self, environment):
        for number in range(100):
            (environment / f"vllm/kernels/{number:03}.json").write_text("{}")
        extra = collect(environment.host())["vllm"]["extra"]
        assert len(extra) == 61
        assert "and 40 more" in extra


class TestNoFalseAlarm:
    def test_byte_code(self, environment):
        subprocess.run([environment.python, "-c", "import vllm.engine.core"], check=True)
        for cached in environment.site.rglob("__pycache__"):
            shutil.rmtree(cached)
        subprocess.run([environment.python, "-O", "-c", "import vllm.engine.core"], check=True)
        assert collect(environment.host())["vllm"] == {}

    def test_a_script_with_another_first_line(self, environment):
        append(environment.prefix / "bin" / "vllm", "# moved\n")
        assert collect(environment.host())["vllm"] == {}

    @pytest.mark.parametrize("name", ["METADATA", "INSTALLER", "REQUESTED", "direct_url.json"])
    def test_metadata_that_tools_write(self, environment, name):
        append(environment / "vllm-0.9.0.dist-info" / name, "\n")
        assert collect(environment.host())["vllm"] == {}

    def test_a_copy_that_keeps_the_times(self, environment):
        shutil.copytree(environment.prefix, environment.folder / "copy", symlinks=True)
        environment.prefix = environment.folder / "copy"
        environment.python = str(environment.prefix / "bin" / "python")
        assert collect(environment.host())["vllm"] == {}

    def test_a_copy_that_does_not_is_touched_and_no_more(self, environment):
        now = time.time()
        for path in environment.site.rglob("*"):
            os.utime(path, (now, now))
        record = environment / "vllm-0.9.0.dist-info/RECORD"
        os.utime(record, (now - 60, now - 60))
        assert collect(environment.host())["vllm"] == {"touched": sorted(ENGINE)}

    def test_a_file_that_two_distributions_share(self, environment):
        os.utime(environment / "nvidia/x.py")
        found = collect(environment.host())
        assert (found["nvidia-nccl-cu12"], found["nvidia-nvtx"]) == ({}, {})

    def test_a_link_into_an_installers_cache(self, environment):
        cached = environment.folder / "archive" / "core.py"
        cached.parent.mkdir()
        (environment / "vllm/engine/core.py").rename(cached)
        (environment / "vllm/engine/core.py").symlink_to(cached)
        assert collect(environment.host())["vllm"] == {}

    def test_what_conda_rewrites(self, environment):
        info = environment / "vllm-0.9.0.dist-info"
        (info / "INSTALLER").write_text("conda\n")
        (environment / "vllm/engine/config.json").write_text('{"prefix": "/opt/conda/envs/serving"}')
        entries = [
            {"_path": f"lib/{RELEASE}/site-packages/{path}", "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for path, text in ENGINE.items()
        ]
        rewritten = hashlib.sha256((environment / "vllm/engine/config.json").read_bytes()).hexdigest()
        entries[3] |= {"prefix_placeholder": "/opt/placehold", "sha256_in_prefix": rewritten}
        (environment.prefix / "conda-meta").mkdir()
        meta = environment.prefix / "conda-meta" / "vllm-0.9.0-py_0.json"
        meta.write_text(json.dumps({"paths_data": {"paths": entries}}))
        assert collect(environment.host())["vllm"] == {}
        append(environment / "vllm/engine/config.json")
        assert collect(environment.host())["vllm"]["changed"] == ["vllm/engine/config.json"]


class TestTwoDistributions:
    def test_one_that_overwrites_the_others_file(self, environment):
        wheel = make_wheel(
            environment.folder, "nvidia_nccl_cu13", "2.30.7", {"nvidia/nccl/lib/libnccl.so.2": "thirteen"}
        )
        install(environment.prefix, wheel)
        found = collect(environment.host())
        facts = found["nvidia-nccl-cu12"]
        assert facts["changed"] == ["nvidia/nccl/lib/libnccl.so.2"]
        assert facts["overwritten_by"] == ["nvidia-nccl-cu13"]
        assert found["nvidia-nccl-cu13"] == {}

    def test_of_the_same_size(self, environment):
        wheel = make_wheel(environment.folder, "nvidia_nccl_cu13", "1", {"nvidia/nccl/lib/libnccl.so.2": "12xxxx"})
        install(environment.prefix, wheel)
        assert collect(environment.host())["nvidia-nccl-cu12"]["overwritten_by"] == ["nvidia-nccl-cu13"]

    def test_an_added_file_in_a_shared_directory_is_told_once(self, environment):
        (environment / "nvidia/stray.so").touch()
        found = collect(environment.host())
        assert [facts.get("extra") for facts in found.values()].count(["nvidia/stray.so"]) == 1


class TestWhatIsCompared:
    def test_everything_where_it_is_asked_for(self, environment):
        append(environment / "colours.py")
        assert "colours" not in collect(environment.host())
        found = collect(environment.host(ENVSNAP_INTEGRITY="all"))
        assert found["colours"]["changed"] == ["colours.py"]

    def test_nothing_where_it_is_switched_off(self, environment):
        collected = capture(environment.host(ENVSNAP_INTEGRITY="none"))
        assert "integrity" not in collected.facts
        assert collected.missing["integrity"].reason == "not-asked"

    def test_not_an_editable_install(self, environment):
        info = environment / "vllm-0.9.0.dist-info"
        (info / "direct_url.json").write_text('{"url": "file:///src/vllm", "dir_info": {"editable": true}}')
        append(environment / "vllm/engine/core.py")
        assert "vllm" not in collect(environment.host())

    def test_an_install_without_a_record_is_not_known(self, environment):
        (environment / "vllm-0.9.0.dist-info" / "RECORD").unlink()
        collected = capture(environment.host())
        assert "vllm" not in collected.facts["integrity"]
        assert collected.missing["integrity.vllm"].reason == "unsupported"

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe,,,\n,\n", b'"unfinished,sha256=x,1\n', b"\0" * 99])
    def test_a_record_that_is_none(self, environment, content):
        (environment / "vllm-0.9.0.dist-info" / "RECORD").write_bytes(content)
        collected = capture(environment.host())
        assert "vllm" not in collected.facts["integrity"]
        assert collected.missing["integrity.vllm"].reason == "failed"

    def test_a_record_that_is_cut_short_still_counts_for_its_part(self, environment):
        record = environment / "vllm-0.9.0.dist-info" / "RECORD"
        content = record.read_bytes()
        record.write_bytes(content[: content.index(b"vllm/engine/core.py") + 30])
        (environment / "vllm/__init__.py").unlink()
        assert collect(environment.host())["vllm"]["missing"] == ["vllm/__init__.py"]

    def test_every_fact_is_declared(self, environment):
        append(environment / "vllm/engine/core.py")
        os.utime(environment / "vllm/__init__.py")
        (environment / "vllm/engine/config.json").unlink()
        (environment / "vllm/extra.py").touch()
        table = FactTable(FACTS)
        facts = capture(environment.host()).facts
        told = {path[2] for path, _ in leaves(facts) if path[1] == "vllm"}
        assert told == {"changed", "touched", "missing", "extra", "digest", "installed_at"}
        assert [path for path, _ in leaves(facts) if table.find(path) is None] == []

    def test_headers_of_torch_where_everything_is_asked_for(self, environment, tmp_path):
        files = {"torch/__init__.py": "", "torch/include/ATen/ATen.h": "//", "torch/include/c10/macros.h": "//"}
        install(environment.prefix, make_wheel(tmp_path, "torch", "2.9.1", files))
        append(environment / "torch/include/ATen/ATen.h")
        (environment / "torch/include/added.h").touch()
        (environment / "torch/include/c10/macros.h").unlink()
        assert collect(environment.host())["torch"] == {}
        facts = collect(environment.host(ENVSNAP_INTEGRITY="all"))["torch"]
        assert facts.pop("digest").startswith("sha256:")
        assert facts == {
            "changed": ["torch/include/ATen/ATen.h"],
            "extra": ["torch/include/added.h"],
            "missing": ["torch/include/c10/macros.h"],
        }


class TestSourceTree:
    def test_it_stands_in_for_the_installed_package(self, environment):
        tree = environment.folder / "src" / "vllm"
        shutil.copytree(environment / "vllm", tree)
        host = environment.host(PYTHONPATH="src")
        facts = collect(host)["vllm"]
        assert facts["tree"] == str(tree)
        before = facts["digest"]
        (tree / "notes.txt").write_text("no code\n")
        shutil.rmtree(tree / "engine" / "__pycache__", ignore_errors=True)
        assert collect(host)["vllm"]["digest"] == before
        (tree / "engine" / "core.py").write_text("def step():\n    return 2\n")
        assert collect(host)["vllm"]["digest"] != before

    def test_one_that_has_no_distribution(self, environment):
        tree = environment.folder / "sglang"
        tree.mkdir()
        (tree / "__init__.py").touch()
        assert collect(environment.host(PYTHONPATH=str(environment.folder)))["sglang"]["tree"] == str(tree)
        assert "sglang" not in collect(environment.host())

    def test_a_directory_that_pip_filled_has_a_record_of_its_own(self, environment):
        target = environment.folder / "target"
        (wheel,) = environment.wheels.glob("vllm-*.whl")
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target)]
        subprocess.run([*command, str(wheel)], check=True)
        host = environment.host(PYTHONPATH=str(target))
        assert collect(host)["vllm"] == {}
        append(target / "vllm" / "__init__.py")
        assert collect(host)["vllm"]["changed"] == ["vllm/__init__.py"]

    def test_site_packages_on_pythonpath_is_none(self, environment):
        assert collect(environment.host(PYTHONPATH=str(environment.site)))["vllm"] == {}


class TestMemory:
    def remove_others(self, environment) -> None:
        """Leave the engine alone: the other two share a file that the second one wrote again."""
        for info in environment.site.glob("nvidia_*.dist-info"):
            shutil.rmtree(info)

    def touched_long_ago(self, environment) -> Path:
        """The only file that is touched, with times that have settled: RECORD two hours ago, the file one."""
        self.remove_others(environment)
        now = time.time()
        os.utime(environment / "vllm-0.9.0.dist-info/RECORD", (now - 7200, now - 7200))
        for path in environment.site.rglob("vllm/**/*"):
            os.utime(path, (now - 9000, now - 9000))
        path = environment / "vllm/engine/core.py"
        os.utime(path, (now - 3600, now - 3600))
        return path

    def test_what_was_hashed_once_is_remembered(self, environment):
        self.touched_long_ago(environment)
        assert collect(environment.host())["vllm"] == {"touched": ["vllm/engine/core.py"]}
        memory = environment.cache / "envsnap" / "hashes"
        (line,) = memory.read_text().splitlines()
        memory.write_text("0" * 64 + line[64:] + "\n")
        assert collect(environment.host())["vllm"]["changed"] == ["vllm/engine/core.py"]

    def test_until_it_is_written_again(self, environment):
        path = self.touched_long_ago(environment)
        collect(environment.host())
        memory = environment.cache / "envsnap" / "hashes"
        memory.write_text("0" * 64 + memory.read_text()[64:])
        path.write_bytes(path.read_bytes())
        assert collect(environment.host())["vllm"] == {"touched": ["vllm/engine/core.py"]}

    def test_a_file_written_just_now_is_not_remembered(self, environment):
        self.remove_others(environment)
        os.utime(environment / "vllm/engine/core.py")
        collect(environment.host())
        assert not (environment.cache / "envsnap").exists()

    @pytest.mark.parametrize("content", [b"\xff\xfe\0", b"short\n", b"x 1 2 3 4 5\n" * 9])
    def test_a_damaged_memory_is_none(self, environment, content):
        self.touched_long_ago(environment)
        (environment.cache / "envsnap").mkdir(parents=True)
        (environment.cache / "envsnap" / "hashes").write_bytes(content)
        assert collect(environment.host())["vllm"] == {"touched": ["vllm/engine/core.py"]}

    def test_no_place_for_it_is_no_error(self, environment):
        self.touched_long_ago(environment)
        environment.cache.write_text("a file where the directory should be")
        assert collect(environment.host())["vllm"] == {"touched": ["vllm/engine/core.py"]}

    def test_without_suspects_nothing_is_written(self, environment):
        self.remove_others(environment)
        collect(environment.host())
        assert not environment.cache.exists()


class TestTime:
    def test_what_there_was_no_time_for_is_undecided(self, environment):
        append(environment / "vllm/engine/core.py")
        os.utime(environment / "vllm/kernels/moe.py")
        host = environment.host()
        folder = str(environment.site)
        record = read_install_record(host, "vllm", folder, "vllm-0.9.0.dist-info")
        found = compare(host, record, OtherRecords(host, folder), ContentHashes(host, time.monotonic() - 1), {})
        assert found.undecided == ["vllm/kernels/moe.py", "vllm/engine/core.py"]
        assert found.touched == []


class TestRecord:
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1), unique=True))
    def test_rows_are_read_as_csv_reads_them(self, names):
        import csv
        import io

        output = io.StringIO()
        csv.writer(output, lineterminator="\n").writerows([f"pkg/{name}", "sha256=x", "1"] for name in names)
        record = InstallRecord("pkg", "/site", "pkg-1.dist-info", output.getvalue(), 0)
        wanted = [f"pkg/{name}" for name in names]
        assert [row[0] for row in record.rows] == [path for path in wanted if not path.endswith(".pyc")]


ACTIONS = st.dictionaries(
    st.sampled_from(sorted(ENGINE)), st.sampled_from(["append", "replace", "undo", "delete", "rewrite"]), max_size=5
)


class TestAgainstFullVerification:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
    @given(actions=ACTIONS, added=st.sets(st.sampled_from(["vllm/a.py", "vllm/kernels/b.py", "vllm/new/c.py"])))
    def test_any_treatment(self, template, tmp_path_factory, actions, added):
        environment = Environment(template, tmp_path_factory.mktemp("treated"))
        for path, action in actions.items():
            file = environment / path
            before = file.read_bytes()
            if action == "append":
                append(file)
            elif action == "replace":
                file.write_bytes(bytes(byte ^ 1 for byte in before) or b"#")
            elif action == "delete":
                file.unlink()
            elif action == "undo":
                append(file)
                file.write_bytes(before)
            else:
                file.write_bytes(before)
        for path in added:
            (environment / path).parent.mkdir(exist_ok=True)
            (environment / path).write_text("new = 1\n")
        host = environment.host()
        folder = str(environment.site)
        record = read_install_record(host, "vllm", folder, "vllm-0.9.0.dist-info")
        found = compare(host, record, OtherRecords(host, folder), ContentHashes(host, time.monotonic() + 60), {})
        by_action = {kind: {path for path, done in actions.items() if done in kind} for kind in
                     (("append", "replace"), ("delete",), ("undo", "rewrite"))}  # fmt: skip
        assert set(found.changed) == by_action["append", "replace"]
        assert set(found.missing) == by_action["delete",]
        assert set(found.touched) == by_action["undo", "rewrite"]
        assert set(found.extra) == added
        assert (found.digest() is None) == (not (found.changed or found.missing or found.extra))
        shutil.rmtree(environment.folder)
