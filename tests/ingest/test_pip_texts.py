from __future__ import annotations

import pytest

from envsnap.ingest import read_text


def packages(text: str, name: str = "") -> dict[str, str]:
    found: dict[str, str] = read_text(text, name).document.get("packages", {})
    return found


def test_freeze_with_every_kind_of_origin() -> None:
    document = read_text(
        "* pip freeze:\n   aiohttp==3.9.5\n"
        "   -e git+https://github.com/sgl-project/sglang.git@01d66ae2e8b3eb1dd3a2b3e8b3eb1dd3a2b3e8b3#egg=sglang&amp;subdirectory=python\n"
        "   # Editable install with no version control (vllm==0.5.0)\n   -e /home/user/vllm\n"
        "   xformers @ git+https://github.com/facebookresearch/xformers.git@0123456789012345678901234567890123456789\n"
        "   flash_attn @ https://example.com/v2/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl#sha256=ab\n"
        "   torch==2.3.1\n"
    ).document
    assert document["packages"] == {
        "aiohttp": "3.9.5", "vllm": "0.5.0", "flash-attn": "2.8.3+cu12torch2.8cxx11abiTRUE", "torch": "2.3.1",
    }  # fmt: skip
    assert document["origins"]["sglang"] == {
        "kind": "editable", "commit": "01d66ae2e8b3eb1dd3a2b3e8b3eb1dd3a2b3e8b3", "url": "https://github.com/sgl-project/sglang.git",
    }  # fmt: skip
    assert document["origins"]["vllm"] == {
        "kind": "editable", "url": "file:///home/user/vllm", "location": "/home/user/vllm",
    }  # fmt: skip
    assert document["origins"]["xformers"]["kind"] == "vcs"
    assert document["origins"]["flash-attn"]["kind"] == "archive"


def test_the_list_with_editable_projects() -> None:
    document = read_text(
        "Package       Version       Editable project location\n------------- ------------- -------------------------\n"
        "absl-py       2.1.0\nvllm          0.8.2         /data/vllm\nPyYAML 6.0\n"
    ).document
    assert document["packages"] == {"absl-py": "2.1.0", "vllm": "0.8.2", "pyyaml": "6.0"}
    assert document["origins"]["vllm"]["location"] == "/data/vllm"


def test_a_whole_list_tells_what_is_not_installed() -> None:
    rows = "\n".join(f"package-{number}    1.{number}" for number in range(60))
    whole = read_text(f"$ pip list\nPackage    Version\n---------- -------\n{rows}\n").document
    assert "packages" not in whole["missing"]
    filtered = read_text(f"$ pip list | grep p\n{rows}\n").document
    assert filtered["missing"]["packages"].startswith("not-recorded")


def test_a_table_in_markdown_and_the_form_of_old_releases() -> None:
    assert packages("| Package | Version |\n|---|---|\n| torch | 2.4.0 |\n| numpy | 1.26.4 |\n") == {
        "torch": "2.4.0", "numpy": "1.26.4",
    }  # fmt: skip
    assert packages("$ pip list\ntorch (1.4.0)\nnumpy (1.17.4)\n") == {"torch": "1.4.0", "numpy": "1.17.4"}


@pytest.mark.parametrize(
    "text",
    [
        "TTFT    120.5\nTPOT    33.2\nITL     30.1\n",
        "try pip install vllm==0.6.1 please\n",
        "RUN pip install torch==2.4.0 \\\n",
        "It fails with torch  2.4 on my machine\n",
        "ii  libc6  2.35-0ubuntu3\n",
        "assert version == 2\n",
    ],
)
def test_what_only_looks_like_packages_is_none(text: str) -> None:
    assert packages(text) == {}


def test_advice_does_not_contradict_what_is_installed() -> None:
    read = read_text("torch==2.4.0\nvllm==0.6.3\n\nName: torch\nVersion: 2.6.0\n")
    assert not read.contradictions
    assert read.document["packages"] == {"torch": "2.6.0", "vllm": "0.6.3"}


def test_what_an_installation_reports() -> None:
    assert packages("Successfully installed torch-2.7.0 nvidia-nccl-cu12-2.26.2 typing_extensions-4.12.0rc1\n") == {
        "torch": "2.7.0", "nvidia-nccl-cu12": "2.26.2", "typing-extensions": "4.12.0rc1",
    }  # fmt: skip
    assert packages("Requirement already satisfied: numpy<2 in ./venv/lib/python3.12/site-packages (from x) (1.26.4)\n") == {
        "numpy": "1.26.4",
    }  # fmt: skip


def test_what_uv_changed_is_the_state_after_it() -> None:
    read = read_text(
        "Uninstalled 1 package\nInstalled 2 packages\n - torch==2.8.0\n + torch==2.9.1\n ~ sglang==0.5.3\n"
    )
    assert read.document["packages"] == {"torch": "2.9.1", "sglang": "0.5.3"}
    assert read.details["pip"]["removed"] == ["torch 2.8.0"]


def test_a_bullet_is_no_removal() -> None:
    assert packages("- torch==2.4.0\n- vllm==0.6.3\n") == {"torch": "2.4.0", "vllm": "0.6.3"}


def test_requirements_by_their_file_name() -> None:
    document = read_text(
        "torch==2.4.0\ntransformers>=4.45,<5 ; python_version > '3.8'\n# comment\nnumpy\n", "requirements.txt"
    ).document
    assert document["packages"] == {"torch": "2.4.0"}
    assert document["pins"] == {"requirements": {"transformers": ">=4.45,<5"}}


def test_records_of_pip_show() -> None:
    document = read_text(
        "WARNING: Package(s) not found: x\nName: vllm\nVersion: 0.21.0\nLocation: /x/site-packages\nEditable project location: /src/vllm\n"
        "Requires: torch\n---\nName: flash_attn\nVersion: 2.8.3\nFiles:\n  a.py\n  b.py\nName: torch\nVersion: 2.11.0+cu126\n"
    ).document
    assert document["packages"] == {"vllm": "0.21.0", "flash-attn": "2.8.3", "torch": "2.11.0+cu126"}
    assert document["origins"]["vllm"]["kind"] == "editable"


def test_conda_list() -> None:
    read = read_text(
        "$ conda list\n# packages in environment at /opt/conda/envs/x:\n#\n# Name  Version  Build  Channel\n"
        "_libgcc_mutex             0.1                        main\ncudatoolkit               10.2.89              hfd86e86_1\n"
        "flake8                    3.8.3                    pypi_0    pypi\nnumpy                     1.24.3          py310h5f9d8c6_1\n"
        "python                    3.10.13              h955ad1f_0\npytorch                   1.13.1          py3.10_cuda11.7_cudnn8_0    pytorch\n"
        "requests                  2.28.2             pyhd8ed1ab_0    conda-forge\n\nThat is all.\n"
    )
    assert read.document["python"] == {"prefix": "/opt/conda/envs/x", "kind": "conda", "version": "3.10.13"}
    assert read.document["packages"] == {"flake8": "3.8.3", "numpy": "1.24.3", "torch": "1.13.1", "requests": "2.28.2"}
    assert read.details["conda"] == {"_libgcc_mutex": "0.1", "cudatoolkit": "10.2.89"}


@pytest.mark.parametrize(
    "text",
    [
        "nvidia_smi_clocks_event_reasons_hw_slowdown == 1\nnvidia_smi_failed == 1\n",
        "-c COMMAND\n-e, --export FILE\n-e only the errors\n",
        "[conda](https://example.org/conda-tools) |\n",
    ],
)
def test_conditions_options_and_links_are_no_packages(text: str) -> None:
    read = read_text(text)
    assert "packages" not in read.document
    assert not [unread for unread in read.unread if unread.kind != "other text"]
