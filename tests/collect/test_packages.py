"""Distributions are read from the heads of their metadata; importlib.metadata in the interpreter is the oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from environments import Environment, editable, finder
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from envsnap.collect.installed.distributions import normalise
from envsnap.host import Host

ORACLE = """
import importlib.metadata, json, re
found = {}
for distribution in importlib.metadata.distributions():
    name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    found.setdefault(name, distribution.version)
print(json.dumps(found))
"""


def importlib_says(host: Host) -> dict[str, str]:
    python = host.argv[0]
    flags = [word for word in host.argv[1:] if word == "-P"]
    said = subprocess.run(
        [python, *flags, "-c", ORACLE], env=host.environ, cwd=host.cwd, capture_output=True, check=True
    )
    return json.loads(said.stdout)


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path)


class TestVersions:
    @pytest.mark.parametrize("python", [sys.executable, "/usr/bin/python3"])
    def test_of_real_interpreters(self, tmp_path, gathered, python):
        if not os.path.exists(python):
            pytest.skip(f"needs {python}")
        host = Host(environ={"PATH": os.defpath, "HOME": str(tmp_path)}, cwd=str(tmp_path), argv=[python, "-m", "x"])
        assert gathered(host, "packages").facts["packages"] == importlib_says(host)

    def test_every_layout_at_once(self, environment, gathered):
        site = environment.site
        environment.install("Some_Thing.more", "1.0rc1")
        environment.install("torch", "2.9.1+cu128")
        (site / "old-1.2.egg-info").write_text("Metadata-Version: 1.1\nName: old\nVersion: 1.2\n")
        (site / "older-3-py3.11.egg-info").mkdir()
        (site / "older-3-py3.11.egg-info" / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: older\nVersion: 3\n")
        egg = site / "laid-4.0-py3.11.egg" / "EGG-INFO"
        egg.mkdir(parents=True)
        (egg / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: laid\nVersion: 4.0\n")
        with zipfile.ZipFile(site / "zipped-5.0-py3.11.egg", "w") as archive:
            archive.writestr("EGG-INFO/PKG-INFO", "Metadata-Version: 1.1\nName: zipped\nVersion: 5.0\n")
        (site / "unused-6.0-py3.11.egg" / "EGG-INFO").mkdir(parents=True)
        checkout = environment.root / "checkout"
        (checkout / "dev.egg-info").mkdir(parents=True)
        (checkout / "dev.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: dev\nVersion: 7.dev0\n")
        (site / "dev.egg-link").write_text(f"{checkout}\n.")
        (site / "easy-install.pth").write_text(f"./laid-4.0-py3.11.egg\n./zipped-5.0-py3.11.egg\n{checkout}\n")
        host = environment.host()
        found = gathered(host, "packages").facts["packages"]
        assert found == importlib_says(host)
        assert found == {
            "some-thing-more": "1.0rc1", "torch": "2.9.1+cu128", "old": "1.2", "older": "3", "laid": "4.0",
            "zipped": "5.0", "dev": "7.dev0",
        }  # fmt: skip

    def test_the_first_on_the_path_wins(self, environment, gathered):
        for name, version in (("early", "2.0"), ("late", "3.0")):
            environment.install("thing", version, folder=environment.root / name)
        environment.install("thing", "1.0")
        host = environment.host(PYTHONPATH=f"{environment.root}/early:{environment.root}/late")
        assert gathered(host, "packages").facts["packages"] == importlib_says(host) == {"thing": "2.0"}

    def test_of_two_in_one_directory_the_one_that_python_takes(self, environment, gathered):
        for version in ("1.0", "2.0", "3.0", "10.0"):
            environment.install("thing", version)
        host = environment.host()
        assert gathered(host, "packages").facts["packages"] == importlib_says(host)

    def test_the_directory_of_the_launch_counts(self, environment, gathered):
        environment.install("thing", "1.0")
        environment.install("thing", "2.0", folder=environment.root / "src")
        host = environment.host("-m", "server", cwd=environment.root / "src")
        assert gathered(host, "packages").facts["packages"] == importlib_says(host) == {"thing": "2.0"}

    def test_the_user_site_before_the_base(self, tmp_path, gathered):
        environment = Environment(tmp_path, is_system_visible=True)
        user = tmp_path / ".local" / environment.site.relative_to(environment.prefix)
        environment.install("pip", "999.0", folder=user)
        environment.install("own", "1.0", folder=user)
        host = environment.host()
        found = gathered(host, "packages").facts["packages"]
        assert found == importlib_says(host)
        assert (found["pip"], found["own"]) == ("999.0", "1.0")

    def test_names_behind_a_long_head(self, environment, gathered):
        metadata = environment.install("thing", "1.0") / "METADATA"
        classifiers = "Classifier: x\n" * 500
        metadata.write_text(f"Metadata-Version: 2.1\n{classifiers}Name: thing\nVersion: 4.5\n\nprose")
        assert gathered(environment.host(), "packages").facts["packages"] == {"thing": "4.5"}

    def test_a_head_that_is_cut_within_the_version(self, environment, gathered):
        metadata = environment.install("thing", "1.0") / "METADATA"
        start = "Metadata-Version: 2.1\nName: thing\n"
        for length in range(2020, 2048):
            filler = "Summary: ".ljust(length - len(start), "x") + "\n"
            metadata.write_text(f"{start}{filler}Version: 12.34.56\n\nprose")
            assert gathered(environment.host(), "packages").facts["packages"] == {"thing": "12.34.56"}

    def test_windows_line_ends(self, environment, gathered):
        metadata = environment.install("thing", "1.0") / "METADATA"
        metadata.write_bytes(b"Metadata-Version: 2.1\r\nName: thing\r\nVersion: 4.5\r\n\r\nprose")
        assert gathered(environment.host(), "packages").facts["packages"] == {"thing": "4.5"}

    @pytest.mark.parametrize("damage", ["gone", "empty", "binary", "fifo", "directory", "dangling"])
    def test_damaged_metadata_falls_back_to_the_directory(self, environment, gathered, damage):
        metadata = environment.install("some-thing", "1.0") / "METADATA"
        metadata.unlink()
        if damage == "empty":
            metadata.write_text("")
        elif damage == "binary":
            metadata.write_bytes(os.urandom(5000).replace(b"\n", b""))
        elif damage == "fifo":
            os.mkfifo(metadata)
        elif damage == "directory":
            metadata.mkdir()
        elif damage == "dangling":
            metadata.symlink_to("nowhere")
        assert gathered(environment.host(), "packages").facts["packages"] == {"some-thing": "1.0"}

    def test_no_version_anywhere_is_missing(self, environment, gathered):
        (environment.site / "thing.egg-info").mkdir()
        collected = gathered(environment.host(), "packages")
        assert collected.facts["packages"] == {}
        assert "thing.egg-info" in collected.missing["packages.thing"].detail

    def test_what_pip_left_behind_is_no_distribution(self, environment, gathered):
        (environment.site / "~hing-1.0.dist-info").mkdir()
        (environment.site / ".dist-info").mkdir()
        assert gathered(environment.host(), "packages").facts["packages"] == {}

    def test_a_broken_zip_file_on_the_path(self, environment, gathered):
        broken = environment.root / "broken.egg"
        broken.write_bytes(b"PK\3\4 and no more")
        environment.install("thing")
        assert gathered(environment.host(PYTHONPATH=str(broken)), "packages").facts["packages"] == {"thing": "1.0"}

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_listed_is_told(self, environment, gathered):
        environment.site.chmod(0o311)
        try:
            collected = gathered(environment.host(), "packages")
        finally:
            environment.site.chmod(0o755)
        assert collected.missing["packages"].reason == "permission"

    def test_no_interpreter_no_packages(self, tmp_path, gathered):
        collected = gathered(Host(root=str(tmp_path), environ={}), "packages")
        assert (collected.facts, collected.missing) == ({}, {})

    @given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", fullmatch=True))
    def test_names_are_normalised_as_packaging_does(self, name):
        assert normalise(name) == canonicalize_name(name)

    def test_five_hundred(self, environment, gathered):
        for number in range(500):
            environment.install(f"thing-{number}", f"{number}.0", files={f"thing_{number}/__init__.py": str(number)})
        collected = gathered(environment.host(), "packages")
        assert collected.facts["packages"] == {f"thing-{number}": f"{number}.0" for number in range(500)}
        assert collected.facts["conflicts"] == {}


class TestOrigins:
    def origin(self, environment, gathered, **how):
        environment.install("thing", **how)
        return gathered(environment.host(), "packages").facts["origins"].get("thing")

    def test_an_index_install_has_no_row(self, environment, gathered):
        assert self.origin(environment, gathered) is None

    @pytest.mark.parametrize(
        ("written", "told"),
        [
            (
                {"url": "file:///srv/sglang/python", "dir_info": {"editable": True}},
                {"kind": "editable", "url": "file:///srv/sglang/python", "location": "/srv/sglang/python"},
            ),
            (
                {"url": "file:///srv/with%20blank/", "dir_info": {}},
                {"kind": "file", "url": "file:///srv/with%20blank/", "location": "/srv/with blank"},
            ),
            (
                {
                    "url": "https://user:secret@github.com/sgl-project/sglang.git",
                    "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "0123abc"},
                    "subdirectory": "python",
                },
                {
                    "kind": "vcs",
                    "url": "https://github.com/sgl-project/sglang.git#subdirectory=python",
                    "commit": "0123abc",
                },
            ),
            (
                {"url": "ssh://git@github.com/a/b.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
                {"kind": "vcs", "url": "ssh://git@github.com/a/b.git", "commit": "1"},
            ),
            (
                {"url": "https://secret@wheels.example.com/a.whl?token=secret#sha256=1", "archive_info": {"hash": "x"}},
                {"kind": "archive", "url": "https://wheels.example.com/a.whl#sha256=1"},
            ),
            (
                {"url": "https://u:se@cret@example.com/a.whl", "archive_info": {}},
                {"kind": "archive", "url": "https://example.com/a.whl"},
            ),
            (
                {"url": "file:///tmp/a.whl", "archive_info": {}},
                {"kind": "file", "url": "file:///tmp/a.whl", "location": "/tmp/a.whl"},
            ),
        ],
    )
    def test_kinds(self, environment, gathered, written, told):
        assert self.origin(environment, gathered, origin=written) == told

    @pytest.mark.parametrize("text", ["{", "[]", '{"url": 1}', '{"url": "file:///x", "dir_info": 3}', "\0"])
    def test_nonsense_is_missing_not_an_index_install(self, environment, gathered, text):
        environment.install("thing", origin=text)
        collected = gathered(environment.host(), "packages")
        assert collected.missing["origins.thing"].reason == "failed"
        assert collected.facts["packages"] == {"thing": "1.0"}

    def test_what_conda_built_elsewhere_is_no_origin(self, environment, gathered):
        built = {"url": "file:///home/conda/feedstock_root/build_artifacts/numpy_1/work", "dir_info": {}}
        assert self.origin(environment, gathered, origin=built) is None
        environment.install("other", origin={"url": "file:///work", "dir_info": {}}, installer="conda")
        assert gathered(environment.host(), "packages").facts["origins"] == {}

    def test_a_develop_install(self, environment, gathered):
        checkout = environment.root / "checkout"
        (checkout / "thing.egg-info").mkdir(parents=True)
        (checkout / "thing.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        (checkout / "thing").mkdir()
        (checkout / "thing" / "version.py").write_text("__version__ = '1.1'\n")
        (environment.site / "easy-install.pth").write_text(f"{checkout}\n")
        facts = gathered(environment.host(), "packages").facts
        assert facts["origins"]["thing"] == {
            "kind": "editable", "location": str(checkout), "version_in_source": "1.1",
        }  # fmt: skip


class TestVersionInSource:
    @pytest.mark.parametrize(
        ("files", "version"),
        [
            ({"pyproject.toml": '[project]\nname = "thing"\nversion = "1.0"\n'}, None),
            ({"pyproject.toml": '[project]\nname = "thing"\nversion = "2.0"\n'}, "2.0"),
            (
                {"pyproject.toml": '[tool.x]\nversion = "9"\n[project]\nversion="2.0" # ours\n[tool.y]\nversion="8"\n'},
                "2.0",
            ),
            ({"pyproject.toml": '[tool.poetry]\nversion = "2.0"\n'}, "2.0"),
            (
                {"pyproject.toml": '[project]\ndynamic = ["version"]\n', "thing/version.py": '__version__ = "2.0"\n'},
                "2.0",
            ),
            ({"src/thing/__init__.py": "# x\n__version__: str = '2.0'\n"}, "2.0"),
            ({"python/thing/_version.py": "__version__ = version = '2.0.dev3+g1234'\n"}, "2.0.dev3+g1234"),
            ({"thing/_version.py": "version = '2.0'\n", "thing/__init__.py": "__version__ = '3'\n"}, "2.0"),
            ({"thing.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: thing\nVersion: 2.0\n\nVersion: 9\n"}, "2.0"),
            ({"thing/__init__.py": "from thing._v import __version__\n"}, None),
            ({"thing/__init__.py": "__version__ = '1.0.0'\n"}, None),
            ({"thing/__init__.py": "__version__ = 'a branch'\n"}, "a branch"),
            ({}, None),
        ],
    )
    def test_where_it_stands(self, environment, gathered, files, version):
        checkout = environment.root / "checkout"
        checkout.mkdir()
        for name, text in files.items():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_text(text)
        environment.install("thing", "1.0", origin=editable(checkout))
        origin = gathered(environment.host(), "packages").facts["origins"]["thing"]
        assert origin.get("version_in_source") == version

    def test_of_a_package_with_another_name(self, environment, gathered):
        package = environment.root / "checkout" / "lib" / "other"
        package.mkdir(parents=True)
        checkout = package.parent.parent
        (checkout / "other").symlink_to(package)
        (package / "__init__.py").write_text("__version__ = '2.0'\n")
        environment.install("thing", "1.0", origin=editable(checkout))
        finder(environment.site, "thing", {"other": f"{checkout}/other"})
        origin = gathered(environment.host(), "packages").facts["origins"]["thing"]
        assert origin["version_in_source"] == "2.0"


class TestConflicts:
    def conflicts(self, environment, gathered, host=None):
        return gathered(host or environment.host(), "packages").facts["conflicts"]

    def test_one_file_of_two_distributions(self, environment, gathered):
        for name in ("opencv-python", "opencv-python-headless"):
            environment.install(name, "4.1", files={"cv2/__init__.py": "same", "cv2/cv2.abi3.so": name})
        assert self.conflicts(environment, gathered) == {"cv2": ["opencv-python 4.1", "opencv-python-headless 4.1"]}

    def test_one_that_is_called_like_the_package(self, environment, gathered):
        environment.install("sgl-kernel", "0.3", files={"sgl_kernel/common_ops.abi3.so": "a"})
        environment.install("sglang-kernel", "0.4", files={"sgl_kernel/common_ops.abi3.so": "b"})
        assert self.conflicts(environment, gathered) == {"sgl_kernel": ["sgl-kernel 0.3", "sglang-kernel 0.4"]}

    def test_a_single_module(self, environment, gathered):
        environment.install("pynvml", "11", files={"pynvml.py": "a"})
        environment.install("nvidia-ml-py", "13", files={"pynvml.py": "b", "example.py": ""})
        assert self.conflicts(environment, gathered) == {"pynvml": ["nvidia-ml-py 13", "pynvml 11"]}

    def test_a_package_that_hides_a_module(self, environment, gathered):
        environment.install("pynvml", "11", files={"pynvml/__init__.py": "a"})
        environment.install("nvidia-ml-py", "13", files={"pynvml.py": "b", "example.py": ""})
        assert self.conflicts(environment, gathered) == {"pynvml": ["nvidia-ml-py 13", "pynvml 11"]}

    def test_a_package_and_a_module_of_one_distribution(self, environment, gathered):
        environment.install("py-thing", files={"a/__init__.py": "", "a.py": "", "LICENSE": "1"})
        environment.install("py-other", files={"b.py": "", "LICENSE": "2"})
        assert self.conflicts(environment, gathered) == {}

    def test_two_cuda_majors_in_one_place(self, environment, gathered):
        for major, version in ((12, "2.29.3"), (13, "2.29.7")):
            environment.install(
                f"nvidia-nccl-cu{major}",
                version,
                files={
                    "nvidia/nccl/lib/libnccl.so.2": version,
                    "nvidia/nccl/__init__.py": "",
                    "nvidia/__init__.py": "",
                },
            )
            (environment.site / "nvidia" / "__init__.py").unlink()
        environment.install("nvidia-cublas", "13.1", files={"nvidia/cu13/lib/libcublas.so.13": "c"})
        expected = ["nvidia-nccl-cu12 2.29.3", "nvidia-nccl-cu13 2.29.7"]
        assert self.conflicts(environment, gathered) == {"nvidia_nccl": expected}

    def test_two_cuda_majors_side_by_side(self, environment, gathered):
        environment.install("nvidia-cublas-cu12", files={"nvidia/cublas/lib/libcublas.so.12": "a"})
        environment.install("nvidia-cublas", files={"nvidia/cu13/lib/libcublas.so.13": "b"})
        assert self.conflicts(environment, gathered) == {}

    def test_a_shared_namespace_is_none(self, environment, gathered):
        environment.install("googleapis-common-protos", files={"google/api/a.py": "a"})
        environment.install("protobuf", files={"google/protobuf/a.py": "b"})
        environment.install("google-auth", files={"google/auth/a.py": "c"})
        assert self.conflicts(environment, gathered) == {}

    def test_equal_files_are_none(self, environment, gathered):
        shared = {"mlflow/__init__.py": "code", "mlflow/a.py": "a"}
        environment.install("mlflow-skinny", files=shared)
        environment.install("mlflow", files=shared | {"mlflow/b.py": "b"})
        assert self.conflicts(environment, gathered) == {}

    def test_careless_wheels_are_none(self, environment, gathered):
        for name in ("one-x", "two-x"):
            environment.install(name, files={"tests/__init__.py": name, f"{name[:3]}/a.py": ""})
        assert self.conflicts(environment, gathered) == {}

    def test_several_versions_in_one_directory(self, environment, gathered):
        environment.install("torch", "2.8.0", files={"torch/__init__.py": ""})
        environment.install("torch", "2.9.1", files={"torch/a.py": ""})
        assert self.conflicts(environment, gathered) == {"torch": ["torch 2.8.0", "torch 2.9.1"]}

    def test_several_versions_along_the_path(self, environment, gathered):
        environment.install("PyYAML", "6.0", files={"_yaml/__init__.py": "", "yaml/__init__.py": ""})
        environment.install(
            "PyYAML", "5.0", files={"_yaml/a.py": "", "yaml/__init__.py": ""}, folder=environment.root / "more"
        )
        host = environment.host(PYTHONPATH=str(environment.root / "more"))
        assert self.conflicts(environment, gathered, host) == {"yaml": ["pyyaml 5.0", "pyyaml 6.0"]}

    def test_one_version_twice_is_none(self, environment, gathered):
        environment.install("six", "1.0")
        environment.install("six", "1.0", folder=environment.root / "more")
        assert self.conflicts(environment, gathered, environment.host(PYTHONPATH=str(environment.root / "more"))) == {}

    def test_the_metadata_that_lies_in_an_editable_tree_is_none(self, environment, gathered):
        checkout = environment.root / "checkout"
        (checkout / "thing.egg-info").mkdir(parents=True)
        (checkout / "thing.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 0.9\n")
        environment.install("thing", "1.0", origin=editable(checkout))
        (environment.site / "__editable__.thing-1.0.pth").write_text(str(checkout))
        assert self.conflicts(environment, gathered) == {}


class TestHiddenPackages:
    def make(self, environment):
        environment.install("vllm", "0.11.0", files={"vllm/__init__.py": ""})
        return environment

    def where(self, host: Host) -> str | None:
        """Where Python itself would import vllm from."""
        code = "import importlib.util as u; s = u.find_spec('vllm'); print(list(s.submodule_search_locations)[0])"
        said = subprocess.run(
            [host.argv[0], "-c", code], env=host.environ, cwd=host.cwd, capture_output=True, text=True, check=True
        )
        return os.path.join(host.cwd, said.stdout.strip())

    def test_a_directory_on_the_python_path(self, environment, gathered):
        self.make(environment)
        hiding = environment.root / "src" / "vllm"
        hiding.mkdir(parents=True)
        (hiding / "__init__.py").write_text("")
        host = environment.host("-m", "server", PYTHONPATH=str(hiding.parent))
        assert self.where(host) == str(hiding)
        assert gathered(host, "packages").facts["conflicts"] == {"vllm": [str(hiding), "vllm 0.11.0"]}

    def test_the_directory_of_the_launch(self, environment, gathered):
        self.make(environment)
        (environment.root / "vllm").mkdir()
        (environment.root / "vllm" / "__init__.py").write_text("")
        host = environment.host("-m", "server")
        assert self.where(host) == f"{environment.root}/vllm"
        assert "vllm" in gathered(host, "packages").facts["conflicts"]

    def test_a_directory_that_is_no_package_hides_nothing(self, environment, gathered):
        self.make(environment)
        (environment.root / "vllm").mkdir()
        host = environment.host("-m", "server")
        assert self.where(host) == f"{environment.site}/vllm"
        assert gathered(host, "packages").facts["conflicts"] == {}

    def make_editable(self, environment):
        checkout = environment.root / "vllm"
        (checkout / "vllm").mkdir(parents=True)
        (checkout / "vllm" / "__init__.py").write_text("")
        environment.install("vllm", "0.11.0", origin=editable(checkout))
        return checkout

    def test_the_checkouts_own_directory_hides_an_editable_install(self, environment, gathered):
        # The launch directory holds the checkout: `import vllm` finds a namespace package of the checkout itself.
        checkout = self.make_editable(environment)
        finder(environment.site, "vllm", {"vllm": f"{checkout}/vllm"})
        conflicts = gathered(environment.host("-m", "server"), "packages").facts["conflicts"]
        assert conflicts == {"vllm": [str(checkout), "vllm 0.11.0"]}

    def test_an_editable_install_that_is_found(self, environment, gathered):
        checkout = self.make_editable(environment)
        (environment.site / "__editable__.vllm-0.11.0.pth").write_text(str(checkout))
        host = environment.host("-m", "server", cwd=checkout)
        assert self.where(host) == f"{checkout}/vllm"
        assert gathered(host, "packages").facts["conflicts"] == {}


def test_a_machine_below_a_root(tmp_path, gathered):
    environment = Environment(tmp_path / "root" / "opt")
    environment.install("thing", "2.0")
    environment.python.unlink()
    environment.python.symlink_to("/usr/bin/python3.12")
    root = tmp_path / "root"
    (root / "opt/venv/lib").joinpath(environment.site.parent.name).rename(root / "opt/venv/lib/python3.12")
    for name in ("usr/bin/python3.12", "usr/lib/python3.12/os.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
        (root / name).chmod(0o755)
    (root / "opt/venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    host = Host(root=str(root), environ={"VIRTUAL_ENV": "/opt/venv"})
    assert gathered(host, "packages").facts["packages"] == {"thing": "2.0"}
    assert Path("/opt/venv/lib/python3.12") != root
