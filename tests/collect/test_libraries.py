"""Which library a launch gets: the real loader and the real program are the oracle, the libraries real ELF files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared_library import build, build_program

from envsnap.collect.libraries import NOT_FOUND, nccl_override
from envsnap.collect.loading.cache import read_cache
from envsnap.collect.loading.families import family_of, names_asked_for
from envsnap.collect.loading.loader import Loader
from envsnap.collect.loading.walk import Walk, search_path
from envsnap.collect.runner import Capture
from envsnap.facts import look_up
from envsnap.host import Host
from envsnap.missing import Missing

RELEASE = f"python{sys.version_info.major}.{sys.version_info.minor}"
LOAD = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]; print(open('/proc/self/maps').read())"


def nccl(path: Path, version: str = "2.30.7", cuda: str = "13.3", soname: str = "libnccl.so.2", **more) -> Path:
    return build(path, soname=soname, text=f"NCCL version {version}+cuda{cuda}", **more)


class Environment:
    """A virtual environment with a torch of our own making: libtorch_cuda.so that needs libnccl.so.2."""

    def __init__(self, folder: Path) -> None:
        self.prefix = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.prefix)], check=True)
        self.python = str(self.prefix / "bin" / "python")
        self.site = self.prefix / "lib" / RELEASE / "site-packages"
        self.torch = self.site / "torch" / "lib"
        self.wheel = self.site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
        self.folder = folder

    def add_torch(self, **tags: str) -> None:
        stub = build(self.folder / "stub" / "libnccl.so.2", soname="libnccl.so.2")
        build(self.torch / "libtorch_cuda.so", soname="libtorch_cuda.so", needs=[stub], **tags)

    def add_wheel(self, name: str, version: str, path: Path, size: int | None = None) -> None:
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        size = path.stat().st_size if size is None else size
        (info / "RECORD").write_text(f"{path.relative_to(self.site)},sha256=x,{size}\n{info.name}/RECORD,,\n")

    def host(self, **environ: str) -> Host:
        return Host(environ={"PATH": os.environ["PATH"], **environ}, cwd=str(self.folder), python=self.python)

    def really_loaded(self, *paths: str, **environ: str) -> set[str]:
        """The libnccl files that are mapped once a Python process has loaded these."""
        result = subprocess.run(
            [self.python, "-c", LOAD, *paths], env=environ, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return {line[line.index("/") :] for line in result.stdout.splitlines() if "libnccl" in line}


def collect(host: Host) -> dict:
    collected = Capture(host, processes=(("libraries",),)).finish()
    assert collected.results["libraries"].status in ("ok", "partial"), collected.results["libraries"].detail
    return {**collected.facts["libraries"], "missing": collected.missing}


def walked(host: Host, python: str, names: list[str]):
    loader = Loader(host, python)
    search = search_path(host, loader.interpreter, loader.library_path)
    return Walk(host, python, loader.elf, search).run([*loader.preload, *names])


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    """Copies of NCCL outside the environment."""
    folder = tmp_path_factory.mktemp("elsewhere")
    nccl(folder / "system" / "libnccl.so.2", "2.28.3", "12.9")
    nccl(folder / "custom" / "libnccl-pr2127.so.2.30.3", "2.30.3", "13.1")
    return folder


@pytest.fixture
def environment(tmp_path) -> Environment:
    return Environment(tmp_path)


RPATH = "$ORIGIN/../../nvidia/nccl/lib"


class TestAgainstTheRealProgram:
    """What torch's libraries get, in the situations in which people's machines differ."""

    @pytest.mark.parametrize("tag", ["rpath", "runpath"])
    @pytest.mark.parametrize("variable", ["", "LD_LIBRARY_PATH", "LD_PRELOAD", "both"])
    @pytest.mark.parametrize("is_installed", [True, False])
    def test_torchs_copy(self, environment, elsewhere, tag, variable, is_installed):
        environment.add_torch(**{tag: RPATH})
        if is_installed:
            nccl(environment.wheel)
        environ = {}
        if variable in ("LD_LIBRARY_PATH", "both"):
            environ["LD_LIBRARY_PATH"] = str(elsewhere / "system")
        if variable in ("LD_PRELOAD", "both"):
            environ["LD_PRELOAD"] = str(elsewhere / "custom" / "libnccl-pr2127.so.2.30.3")
        library = str(environment.torch / "libtorch_cuda.so")
        host = environment.host(**environ)
        told = collect(host)["nccl"]["torch"]
        by_walk = walked(host, environment.python, [library])
        if not environ and not is_installed:
            assert told["path"] == NOT_FOUND
            assert by_walk.unresolved == ["libnccl.so.2"]
            return
        (truth,) = environment.really_loaded(library, **environ)
        assert told["path"] == truth
        assert os.path.realpath(by_walk.found["libnccl.so.2"]) == truth
        version = {"venv": "2.30.7", "system": "2.28.3", "custom": "2.30.3"}
        assert told["version"] == next(known for part, known in version.items() if f"/{part}/" in truth)

    @pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
    def test_a_bare_name(self, environment, elsewhere, variable):
        place = {"LD_LIBRARY_PATH": "system", "LD_PRELOAD": "custom/libnccl-pr2127.so.2.30.3"}[variable]
        environ = {variable: str(elsewhere / place)}
        (truth,) = environment.really_loaded("libnccl.so.2", **environ)
        host = environment.host(**environ)
        assert collect(host)["nccl"]["dlopen"]["path"] == truth
        assert walked(host, environment.python, ["libnccl.so.2"]).found["libnccl.so.2"] == truth

    def test_relative_and_empty_directories_count_from_the_launch_directory(self, environment, elsewhere):
        (environment.folder / "here").symlink_to(elsewhere / "system")
        for value in ("here", ":/nowhere"):
            if value.startswith(":"):
                (environment.folder / "libnccl.so.2").symlink_to(elsewhere / "system" / "libnccl.so.2")
            (truth,) = environment.really_loaded("libnccl.so.2", LD_LIBRARY_PATH=value)
            assert collect(environment.host(LD_LIBRARY_PATH=value))["nccl"]["dlopen"]["path"] == truth

    def test_a_library_of_another_machine_is_passed_over(self, environment, elsewhere):
        nccl(environment.folder / "small" / "libnccl.so.2", "9.9.9", flags=["-m32"])
        path = f"{environment.folder}/small:{elsewhere}/system"
        (truth,) = environment.really_loaded("libnccl.so.2", LD_LIBRARY_PATH=path)
        host = environment.host(LD_LIBRARY_PATH=path)
        told = collect(host)["nccl"]
        assert told["dlopen"]["path"] == truth
        assert told["copies"] == [f"2.28.3 {truth}"]
        assert walked(host, environment.python, ["libnccl.so.2"]).found["libnccl.so.2"] == truth

    def test_wheels_that_torch_opens_by_path(self, environment, elsewhere):
        """Newer torch loads the wheels' files by path before its own library asks for them."""
        environment.add_torch(runpath="$ORIGIN")
        nccl(environment.wheel)
        cudart = build(environment.folder / "stub" / "libcudart.so.13", soname="libcudart.so.13")
        cudart_dir = environment.site / "nvidia" / "cu13" / "lib"
        build(cudart_dir / "libcudart.so.13", soname="libcudart.so.13")
        build(environment.torch / "libtorch_global_deps.so", needs=[cudart], rpath="$ORIGIN/../../nvidia/cu13/lib")
        host = environment.host(LD_LIBRARY_PATH=str(elsewhere / "system"))
        (environment.site / "torch" / "__init__.py").write_text("# an older one\n")
        assert collect(host)["nccl"]["torch"]["version"] == "2.28.3"
        (environment.site / "torch" / "__init__.py").write_text(
            '        ("nccl", "libnccl.so.*[0-9]"),\n        _preload_cuda_deps(required=False)\n'
        )
        assert collect(host)["nccl"]["torch"]["path"] == str(environment.wheel)

    def test_the_environment_that_a_wrapper_sets(self, environment, elsewhere):
        host = environment.host()
        host.argv = ["env", f"LD_LIBRARY_PATH={elsewhere}/system", environment.python, "-m", "vllm"]
        assert collect(host)["nccl"]["dlopen"]["version"] == "2.28.3"

    def test_what_is_mapped_in_a_running_process(self, environment, elsewhere):
        environment.add_torch(rpath=RPATH)
        nccl(environment.wheel)
        custom = str(elsewhere / "custom" / "libnccl-pr2127.so.2.30.3")
        wait = "; print('ready', flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [environment.python, "-c", LOAD.partition("; print")[0] + wait, custom, str(environment.wheel)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},
        ) as process:
            assert process.stdout.readline() == b"ready\n"
            host = Host.of_process(process.pid)
            host.environ["VIRTUAL_ENV"] = str(environment.prefix)
            mapped = collect(host)["nccl"]["mapped"]
            environment.wheel.unlink()
            replaced = collect(host)
            process.stdin.close()
        assert mapped == {"path": str(environment.wheel), "version": "2.30.7", "others": [custom]}
        assert replaced["nccl"]["mapped"] == {"path": f"{environment.wheel} (deleted)", "others": [custom]}
        assert "replaced" in replaced["missing"]["libraries.nccl.mapped.version"].detail


class TestBrokenLibraries:
    @pytest.mark.parametrize("damage", ["cut", "text", "empty", "dangling", "sparse", "directory"])
    def test_the_rest_is_still_told(self, environment, elsewhere, damage):
        environment.add_torch(rpath=RPATH)
        environment.wheel.parent.mkdir(parents=True)
        if damage == "cut":
            content = nccl(environment.wheel).read_bytes()
            environment.wheel.write_bytes(content[: len(content) // 3])
        elif damage == "text":
            environment.wheel.write_text("not a library\n" * 100)
        elif damage == "empty":
            environment.wheel.touch()
        elif damage == "dangling":
            environment.wheel.symlink_to("libnccl.so.2.30.7")
        elif damage == "directory":
            environment.wheel.mkdir()
        else:
            environment.wheel.touch()
            os.truncate(environment.wheel, 2 << 30)
        found = collect(environment.host(LD_LIBRARY_PATH=str(elsewhere / "system")))
        told = found["nccl"]
        assert told["dlopen"]["version"] == "2.28.3"
        assert f"2.28.3 {elsewhere}/system/libnccl.so.2" in told["copies"]
        if damage == "dangling":
            assert told["torch"]["version"] == "2.28.3"
            return
        assert told["torch"]["path"] == str(environment.wheel)
        assert "version" not in told["torch"]
        assert found["missing"]["libraries.nccl.torch.version"].reason == "failed"
        assert f"broken {environment.wheel}" in told["copies"]
        assert found["loader"]["errors"]

    def test_a_preload_that_does_not_exist_is_an_error_of_the_loader(self, environment):
        found = collect(environment.host(LD_PRELOAD="/opt/left/over/libnccl.so.2"))
        (error,) = found["loader"]["errors"]
        assert error.startswith("/opt/left/over/libnccl.so.2 cannot be preloaded")

    def test_a_symbol_version_that_is_not_there_is_one_too(self, environment, tmp_path):
        script = tmp_path / "versions"
        script.write_text("V_2 { global: *; };")
        provider = build(tmp_path / "libv.so.1", soname="libv.so.1", flags=[f"-Wl,--version-script={script}"])
        user = "extern int symbol_of_libv_so(void); int use(void) { return symbol_of_libv_so(); }"
        preload = build(tmp_path / "libuser.so", source=user, needs=[provider], rpath="$ORIGIN")
        script.write_text("V_1 { global: *; };")
        build(provider, soname="libv.so.1", flags=[f"-Wl,--version-script={script}"])
        errors = collect(environment.host(LD_PRELOAD=str(preload)))["loader"]["errors"]
        assert any("V_2" in error and str(preload) in error for error in errors)

    def test_no_python_at_all(self, tmp_path):
        found = collect(Host(environ={"PATH": "/nowhere"}, cwd=str(tmp_path)))
        assert found["loader"]["asked"] == "loader"


class TestVersionAndOrigin:
    def test_a_wheel_by_its_record(self, environment):
        environment.add_torch(rpath=RPATH)
        nccl(environment.wheel, "2.27.5", "12.9")
        environment.add_wheel("nvidia-nccl-cu12", "2.27.5", environment.wheel)
        torch = collect(environment.host())["nccl"]["torch"]
        assert torch["origin"] == "wheel nvidia-nccl-cu12 2.27.5"
        assert (torch["version"], torch["built_for_cuda"]) == ("2.27.5", "12.9")
        assert len(torch["build_id"]) == 40

    def test_two_wheels_that_install_the_same_file(self, environment):
        environment.add_torch(rpath=RPATH)
        nccl(environment.wheel, "2.30.7", "13.3")
        environment.add_wheel("nvidia-nccl-cu12", "2.27.5", environment.wheel, size=4711)
        environment.add_wheel("nvidia-nccl-cu13", "2.30.7", environment.wheel)
        torch = collect(environment.host())["nccl"]["torch"]
        assert torch["origin"] == "wheel nvidia-nccl-cu13 2.30.7, also nvidia-nccl-cu12 2.27.5"
        assert torch["version"] == "2.30.7"

    def test_a_library_without_a_text_has_its_wheels_version_if_it_is_the_wheels_file(self, environment):
        cudart = environment.site / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12"
        build(cudart, soname="libcudart.so.12")
        environment.add_wheel("nvidia-cuda-runtime-cu12", "12.8.90", cudart)
        assert f"12.8.90 {cudart}" in collect(environment.host())["cudart"]["copies"]
        build(cudart, soname="libcudart.so.12", text="rebuilt by hand, so it is longer than it was" * 200)
        assert f"unknown {cudart}" in collect(environment.host())["cudart"]["copies"]

    def test_the_number_at_the_end_of_the_real_file(self, environment, tmp_path):
        folder = tmp_path / "toolkit" / "lib64"
        build(folder / "libcudart.so.12.8.90", soname="libcudart.so.12")
        (folder / "libcudart.so.12").symlink_to("libcudart.so.12.8.90")
        (folder / "libcudart.so").symlink_to("libcudart.so.12")
        build(folder / "libnvrtc.so.11.2", soname="libnvrtc.so.11.2")
        build(folder / "libcuda.so.550.54", soname="libcuda.so.1")
        (folder / "libcuda.so.1").symlink_to("libcuda.so.550.54")
        host = environment.host(LD_LIBRARY_PATH=str(folder), CUDA_HOME=str(tmp_path / "toolkit"))
        found = collect(host)
        assert f"12.8.90 {folder}/libcudart.so.12.8.90" in found["cudart"]["copies"]
        assert f"unknown {folder}/libnvrtc.so.11.2" in found["nvrtc"]["copies"]
        assert found["cuda"]["dlopen"]["version"] == "550.54"
        assert found["cuda"]["dlopen"]["origin"] == "toolkit"

    def test_cudnns_header_tells_where_its_wheel_is_not_to_be_believed(self, environment):
        cudnn = environment.site / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
        build(cudnn, soname="libcudnn.so.9")
        environment.add_wheel("nvidia-cudnn-cu12", "9.10.2.21", cudnn, size=12)
        header = cudnn.parent.parent / "include" / "cudnn_version.h"
        header.parent.mkdir()
        header.write_text("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 16\n#define CUDNN_PATCHLEVEL 0\n")
        assert collect(environment.host())["cudnn"]["copies"] == [f"9.16.0 {cudnn}"]

    def test_the_same_build_has_the_same_version(self, environment, tmp_path):
        wheel = environment.site / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
        other = tmp_path / "other" / "libcupti.so.13"
        for path in (wheel, other):
            build(path, soname="libcupti.so.13", flags=["-Wl,--build-id=0xabcdef01"])
        environment.add_wheel("nvidia-cuda-cupti", "13.0.85", wheel)
        found = collect(environment.host(LD_LIBRARY_PATH=str(other.parent)))
        assert {f"13.0.85 {wheel}", f"13.0.85 {other}"} <= set(found["cupti"]["copies"])
        assert (found["cupti"]["dlopen"]["path"], found["cupti"]["dlopen"]["version"]) == (str(other), "13.0.85")

    def test_links_out_of_site_packages_are_not_followed(self, environment, tmp_path):
        """uv's link mode `symlink`: the file lies in uv's cache, but it is the wheel's."""
        cached = nccl(tmp_path / "cache" / "archive-v0" / "abc" / "libnccl.so.2")
        environment.wheel.parent.mkdir(parents=True)
        environment.wheel.symlink_to(cached)
        environment.add_wheel("nvidia-nccl-cu13", "2.30.7", environment.wheel)
        environment.add_torch(rpath=RPATH)
        torch = collect(environment.host())["nccl"]["torch"]
        assert (torch["path"], torch["origin"]) == (str(environment.wheel), "wheel nvidia-nccl-cu13 2.30.7")


@pytest.fixture
def recorded(tmp_path) -> Path:
    """A recorded machine: below this folder lies a root with an interpreter of its own."""
    root = tmp_path / "root"
    build_program(root / "opt/py/bin/python3.12")
    (root / "opt/py/lib/python3.12/site-packages").mkdir(parents=True)
    (root / "opt/py/lib/python3.12/os.py").touch()
    return root


def recorded_host(root: Path, **environ: str) -> Host:
    return Host(root=str(root), environ=environ, cwd="/", python="/opt/py/bin/python3.12")


class TestRecordedMachine:
    def test_the_search_is_walked(self, recorded):
        nccl(recorded / "usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3", "2.28.3", "12.9")
        (recorded / "usr/lib/x86_64-linux-gnu/libnccl.so.2").symlink_to("libnccl.so.2.28.3")
        (recorded / "lib").symlink_to("usr/lib")
        info = recorded / "var/lib/dpkg/info"
        info.mkdir(parents=True)
        (info / "libnccl2.list").write_text("/.\n/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3\n")
        (info / "bash.list").write_text("/.\n/bin/bash\n")
        found = collect(recorded_host(recorded))
        assert found["loader"] == {"asked": "walk"}
        assert found["nccl"]["dlopen"] == {
            "path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3",
            "version": "2.28.3",
            "built_for_cuda": "12.9",
            "origin": "system libnccl2",
            "build_id": found["nccl"]["dlopen"]["build_id"],
        }
        assert found["nccl"]["copies"] == ["2.28.3 /usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3"]

    def test_directories_of_ld_so_conf(self, recorded):
        nccl(recorded / "opt/nccl/lib/libnccl.so.2", "2.29.7")
        (recorded / "etc/ld.so.conf.d").mkdir(parents=True)
        (recorded / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
        (recorded / "etc/ld.so.conf.d/nccl.conf").write_text("# ours\n/opt/nccl/lib\n")
        assert collect(recorded_host(recorded))["nccl"]["dlopen"]["path"] == "/opt/nccl/lib/libnccl.so.2"

    def test_a_package_names_the_version_of_a_library_that_does_not(self, recorded):
        path = "/usr/lib/x86_64-linux-gnu/libfabric.so.1"
        build(recorded / path[1:], soname="libfabric.so.1")
        (recorded / "var/lib/dpkg/info").mkdir(parents=True)
        (recorded / "var/lib/dpkg/info/libfabric1:amd64.list").write_text(f"/.\n{path}\n")
        (recorded / "var/lib/dpkg/status").write_text(
            "Package: bash\nVersion: 5.2\n\nPackage: libfabric1\nStatus: install ok installed\nVersion: 1.17.0-3\n"
        )
        dlopen = collect(recorded_host(recorded))["libfabric"]["dlopen"]
        assert (dlopen["version"], dlopen["origin"]) == ("1.17.0-3", "system libfabric1")

    def test_conda_names_its_package(self, recorded):
        nccl(recorded / "opt/py/lib/libnccl.so.2", "2.27.3")
        meta = recorded / "opt/py/conda-meta"
        meta.mkdir()
        (meta / "nccl-2.27.3.1-h0d6faf4_0.json").write_text('{"files": ["lib/libnccl.so.2"]}')
        build(
            recorded / "opt/py/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
            needs=[recorded / "opt/py/lib/libnccl.so.2"],
            rpath="$ORIGIN/../../../..",
        )
        torch = collect(recorded_host(recorded))["nccl"]["torch"]
        assert (torch["path"], torch["origin"]) == ("/opt/py/lib/libnccl.so.2", "conda nccl 2.27.3.1")

    def test_musl_searches_the_variable_before_rpath(self, recorded, tmp_path):
        build_program(recorded / "opt/py/bin/python3.12", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
        (recorded / "etc").mkdir()
        (recorded / "etc/ld-musl-x86_64.path").write_text("/opt/musl\n")
        inside = "opt/py/lib/python3.12/site-packages/"
        stub = build(tmp_path / "libnccl.so.2", soname="libnccl.so.2")
        build(recorded / inside / "torch/lib/libtorch_cuda.so", needs=[stub], rpath=RPATH)
        nccl(recorded / inside / "nvidia/nccl/lib/libnccl.so.2", "2.30.7")
        nccl(recorded / "opt/other/libnccl.so.2", "2.28.3")
        build(recorded / "opt/musl/libcudart.so.12", soname="libcudart.so.12")
        assert collect(recorded_host(recorded))["nccl"]["torch"]["version"] == "2.30.7"
        found = collect(recorded_host(recorded, LD_LIBRARY_PATH="/opt/other"))
        assert found["nccl"]["torch"]["version"] == "2.28.3"
        assert found["cudart"]["dlopen"]["path"] == "/opt/musl/libcudart.so.12"

    def test_nothing_there(self, recorded):
        assert collect(recorded_host(recorded)) == {"loader": {"asked": "walk"}, "missing": {}}

    @pytest.mark.parametrize("content", [b"", b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1", b"\xff" * 300])
    def test_a_damaged_cache_is_no_cache(self, recorded, content):
        (recorded / "etc").mkdir()
        (recorded / "etc/ld.so.cache").write_bytes(content)
        assert read_cache(recorded_host(recorded)) == {}


class TestTheMachinesCache:
    def test_it_is_read_as_ldconfig_reads_it(self):
        printed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        lines = [line.split(" => ") for line in printed.splitlines() if " => " in line]
        assert len(lines) > 10
        told = {(line[0].split()[0], line[1]) for line in lines}
        read = {(name, path) for name, paths in read_cache(Host()).items() for path in paths}
        assert read == told


class TestNames:
    @pytest.mark.parametrize(
        ("name", "family"),
        [
            ("libnccl.so.2", "nccl"),
            ("libnccl.so", "nccl"),
            ("libnccl.so.2.29.7", "nccl"),
            ("libnccl-net.so", "nccl-net"),
            ("libnccl-net-ofi.so", "nccl-net"),
            ("libnccl_static.a", None),
            ("libcudart.so.12.8.90", "cudart"),
            ("libcudart_static.so", None),
            ("libcublasLt.so.13", "cublaslt"),
            ("libcublas.so.13", "cublas"),
            ("libcudnn_graph.so.9", None),
            ("libnvidia-ml.so.590.48.01", "nvml"),
            ("libnvrtc-builtins.so.13.0", None),
            ("libnccl.software", None),
            ("", None),
        ],
    )
    def test_family(self, name, family):
        assert family_of(name) == family

    @pytest.mark.parametrize(
        ("value", "names"),
        [
            (None, ["libnccl-net.so"]),
            ("none", []),
            ("None", []),
            ("", []),
            ("ofi", ["ofi", "libnccl-net-ofi.so"]),
            ("libnccl-net-ofi.so", ["libnccl-net-ofi.so"]),
            ("/opt/x/libnet.so", ["/opt/x/libnet.so"]),
            ("ofi,spectrum-x", ["ofi", "libnccl-net-ofi.so", "spectrum-x", "libnccl-net-spectrum-x.so"]),
        ],
    )
    def test_plugins_as_nccl_looks_for_them(self, value, names):
        environ = {} if value is None else {"NCCL_NET_PLUGIN": value}
        assert names_asked_for(["nccl-net"], environ)["nccl-net"] == names

    def test_an_empty_name_means_the_usual_one_for_other_plugins(self):
        assert names_asked_for(["nccl-tuner"], {"NCCL_TUNER_PLUGIN": ""}) == {"nccl-tuner": ["libnccl-tuner.so"]}

    @pytest.mark.parametrize(
        ("argv", "environ", "picked"),
        [
            (["vllm", "serve"], {"VLLM_NCCL_SO_PATH": "/v/libnccl.so.2"}, "/v/libnccl.so.2"),
            (["vllm", "serve"], {"SGLANG_NCCL_SO_PATH": "/s/libnccl.so.2"}, None),
            (
                ["python", "-m", "sglang.launch_server"],
                {"VLLM_NCCL_SO_PATH": "/v/libnccl.so.2", "SGLANG_NCCL_SO_PATH": "/s/libnccl.so.2"},
                "/s/libnccl.so.2",
            ),
            (["python", "train.py"], {"SGLANG_NCCL_SO_PATH": "/s/libnccl.so.2"}, "/s/libnccl.so.2"),
            (None, {"VLLM_NCCL_SO_PATH": "lib/libnccl.so.2"}, "/srv/lib/libnccl.so.2"),
            (None, {"VLLM_NCCL_SO_PATH": "libnccl.so.2.30"}, "libnccl.so.2.30"),
            (None, {"VLLM_NCCL_SO_PATH": ""}, None),
        ],
    )
    def test_the_engines_variable(self, argv, environ, picked):
        assert nccl_override(Host(environ=environ, argv=argv, cwd="/srv")) == picked

    def test_an_override_is_obeyed_and_one_that_is_not_there_is_told(self, environment, elsewhere):
        custom = f"{elsewhere}/custom/libnccl-pr2127.so.2.30.3"
        found = collect(environment.host(VLLM_NCCL_SO_PATH=custom, LD_LIBRARY_PATH=f"{elsewhere}/system"))
        assert (found["nccl"]["dlopen"]["path"], found["nccl"]["dlopen"]["version"]) == (custom, "2.30.3")
        found = collect(environment.host(VLLM_NCCL_SO_PATH="/gone/libnccl.so.2"))
        assert found["nccl"]["dlopen"] == {"path": "/gone/libnccl.so.2"}
        assert found["missing"]["libraries.nccl.dlopen.version"] == Missing(
            "failed", "/gone/libnccl.so.2 cannot be loaded"
        )

    def test_every_fact_is_declared(self, environment, elsewhere):
        from envsnap.collect.libraries import FACTS
        from envsnap.facts import FactTable, leaves

        environment.add_torch(rpath=RPATH)
        nccl(environment.wheel)
        found = collect(environment.host(LD_PRELOAD=f"/gone.so:{elsewhere}/custom/libnccl-pr2127.so.2.30.3"))
        del found["missing"]
        table = FactTable(FACTS)
        undeclared = [path for path, _ in leaves({"libraries": found}) if table.find(path) is None]
        assert undeclared == []
        assert look_up(found, ("nccl", "torch", "version")) == "2.30.3"
