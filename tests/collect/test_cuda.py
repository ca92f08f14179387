"""cuda: the toolkit and the compiler that a build at run time uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.collect.runner import Collected
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]

HEADER = "/* cuda.h */\n" + "// padding\n" * 3000 + "#define CUDA_VERSION {}\n#define CUDA_VERSION_TEXT x\n"
VERSION_JSON = (
    '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}, "cuda_nvcc": {"name": "nvcc", "version": "12.8.93"}}'
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def write(root: Path, path: str, text: str = "") -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def link(root: Path, path: str, target: str) -> None:
    (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (root / path.lstrip("/")).symlink_to(target)


def toolkit(
    root: Path, path: str = "/usr/local/cuda-12.8", header: int | None = 12080, json: str = VERSION_JSON
) -> None:
    write(root, f"{path}/bin/nvcc", "\x7fELF")
    if json:
        write(root, f"{path}/version.json", json)
    if header:
        write(root, f"{path}/include/cuda.h", HEADER.format(header))


@pytest.fixture
def collect(root: Path, gathered: Gathered) -> Callable[..., dict[str, Any]]:
    def run(**environ: str) -> dict[str, Any]:
        collected = gathered(Host(root=str(root), environ=environ, cwd="/"), "cuda")
        assert collected.results["cuda"].status == "ok", collected.results["cuda"].detail
        facts: dict[str, Any] = collected.facts.get("cuda", {})
        return facts

    return run


def test_a_machine_without_a_toolkit(collect: Callable[..., dict[str, Any]]) -> None:
    assert collect(PATH="/usr/bin") == {}


def test_the_usual_place_behind_its_link(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root)
    link(root, "/usr/local/cuda", "/usr/local/cuda-12.8")
    assert collect(PATH="/usr/bin") == {
        "toolkit_path": "/usr/local/cuda-12.8",
        "toolkit_version": "12.8",
        "nvcc_version": "12.8.93",
    }


def test_cuda_home_wins_over_the_path_and_is_told_as_it_is_set(
    root: Path, collect: Callable[..., dict[str, Any]]
) -> None:
    toolkit(root)
    toolkit(root, "/usr/local/cuda-11.8", 11080, VERSION_JSON.replace("12.8.93", "11.8.89").replace("12.8.1", "11.8.0"))
    link(root, "/usr/local/cuda", "cuda-12.8")
    assert collect(CUDA_HOME="/usr/local/cuda", PATH="/usr/local/cuda-11.8/bin") == {
        "home": "/usr/local/cuda",
        "toolkit_path": "/usr/local/cuda-12.8",
        "toolkit_version": "12.8",
        "nvcc_version": "12.8.93",
    }
    assert collect(PATH="/usr/local/cuda-11.8/bin")["toolkit_path"] == "/usr/local/cuda-11.8"
    assert collect(PATH="/usr/local/cuda-11.8/bin")["nvcc_version"] == "11.8.89"
    assert collect(CUDA_PATH="/usr/local/cuda-11.8")["home"] == "/usr/local/cuda-11.8"


def test_a_home_that_leads_nowhere(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root)
    link(root, "/usr/local/cuda", "cuda-12.8")
    assert collect(CUDA_HOME="/gone") == {"home": "/gone", "nvcc_version": "12.8.93"}


def test_a_toolkit_made_of_wheels(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    site = "/opt/venv/lib/python3.12/site-packages"
    toolkit(root, f"{site}/nvidia/cu13", 13000, json="")
    (root / f"{site}/nvidia_cuda_nvcc-13.3.33.dist-info".lstrip("/")).mkdir()
    (root / f"{site}/nvidia_cuda_nvrtc-13.0.88.dist-info".lstrip("/")).mkdir()
    assert collect(CUDA_HOME=f"{site}/nvidia/cu13") == {
        "home": f"{site}/nvidia/cu13",
        "toolkit_path": f"{site}/nvidia/cu13",
        "toolkit_version": "13.0",
        "nvcc_version": "13.3.33",
    }


def test_a_conda_toolkit_on_the_path(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root, "/opt/conda/envs/x", None, json="")
    write(root, f"/opt/conda/envs/x/targets/{os.uname().machine}-linux/include/cuda.h", HEADER.format(12060))
    write(root, "/opt/conda/envs/x/conda-meta/cuda-nvcc-12.6.85-hcdd1206_0.json", "{}")
    facts = collect(PATH="/opt/conda/envs/x/bin:/bin")
    assert facts == {
        "toolkit_path": "/opt/conda/envs/x",
        "toolkit_version": "12.6",
        "nvcc_version": "12.6.85",
    }


def test_a_start_script_is_followed(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root)
    write(root, "/usr/local/bin/nvcc", '#!/bin/sh\nexec /usr/local/cuda-12.8/bin/nvcc "$@"\n')
    facts = collect(PATH="/usr/local/bin:/bin")
    assert facts["toolkit_path"] == "/usr/local/cuda-12.8"
    assert facts["nvcc_version"] == "12.8.93"


def test_an_old_toolkit_tells_its_version_in_a_text_file(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    write(root, "/usr/local/cuda/version.txt", "CUDA Version 10.2.89\n")
    assert collect() == {"toolkit_path": "/usr/local/cuda", "toolkit_version": "10.2"}


def test_a_damaged_version_file_gives_way_to_the_header(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root, "/usr/local/cuda", 12040, json='{"cuda": ["')
    write(root, "/usr/local/cuda/dist-info/nvidia_cuda_nvcc_cu12-12.4.131.dist-info/METADATA")
    assert collect()["toolkit_version"] == "12.4"
    assert collect()["nvcc_version"] == "12.4.131"


def test_what_no_file_tells_is_unknown(root: Path, gathered: Gathered) -> None:
    toolkit(root, "/opt/cuda", None, json="")
    collected = gathered(Host(root=str(root), environ={"CUDA_HOME": "/opt/cuda"}, cwd="/"), "cuda")
    assert collected.facts["cuda"] == {"home": "/opt/cuda", "toolkit_path": "/opt/cuda"}
    assert collected.missing["cuda.toolkit_version"].reason == "failed"
    assert collected.missing["cuda.nvcc_version"].reason == "unsupported"


def test_the_compatible_library(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    toolkit(root)
    link(root, "/usr/local/cuda", "cuda-12.8")
    (root / "usr/local/cuda-12.8/compat").mkdir()
    assert "compat_path" not in collect()
    write(root, "/usr/local/cuda-12.8/compat/libcuda.so.570.86.10")
    assert collect()["compat_path"] == "/usr/local/cuda-12.8/compat"
    write(root, "/opt/compat/libcuda.so.1")
    assert collect(LD_LIBRARY_PATH="/usr/lib:/opt/compat")["compat_path"] == "/opt/compat"


def test_a_compiler_that_no_file_describes_is_asked(tmp_path: Path, gathered: Gathered) -> None:
    home = tmp_path / "toolkit"
    write(tmp_path, "toolkit/bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")
    write(tmp_path, "toolkit/include/cuda.h", HEADER.format(12040))
    facts = gathered(Host(environ={"CUDA_HOME": str(home), "PATH": "/bin"}, cwd="/"), "cuda").facts["cuda"]
    assert facts["nvcc_version"] == "12.4.131"
    write(tmp_path, "toolkit/bin/nvcc", "#!/bin/sh\nexit 3\n")
    collected = gathered(Host(environ={"CUDA_HOME": str(home), "PATH": "/bin"}, cwd="/"), "cuda")
    assert collected.missing["cuda.nvcc_version"] == Missing("failed", f"{home}/bin/nvcc --version: exit code 3")


def test_a_compiler_that_hangs_costs_its_own_fact(tmp_path: Path, gathered: Gathered) -> None:
    write(tmp_path, "toolkit/bin/nvcc", "#!/bin/sh\nexec sleep 60\n")
    write(tmp_path, "toolkit/include/cuda.h", HEADER.format(12040))
    collected = gathered(Host(environ={"CUDA_HOME": str(tmp_path / "toolkit"), "PATH": "/bin"}, cwd="/"), "cuda")
    assert collected.facts["cuda"]["toolkit_version"] == "12.4"
    assert collected.missing["cuda.nvcc_version"].reason == "timeout"


def test_a_process_whose_environment_may_not_be_read(root: Path, gathered: Gathered) -> None:
    why = Missing("permission", "/proc/7/environ")
    host = Host(root=str(root), environ={}, pid=7, denied={"environ": why})
    assert gathered(host, "cuda").missing == {"cuda": why}
