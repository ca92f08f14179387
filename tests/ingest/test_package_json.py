from __future__ import annotations

import json
import subprocess
import sys

from envsnap.ingest import read_text


def inspect(*installed: dict[str, object]) -> str:
    environment = {
        "python_full_version": "3.12.3", "platform_python_implementation": "CPython", "platform_release": "6.8.0-79-generic",
        "platform_machine": "x86_64",
    }  # fmt: skip
    return json.dumps(
        {"version": "1", "pip_version": "24.0", "installed": list(installed), "environment": environment}, indent=2
    )


def test_pip_inspect() -> None:
    document = read_text(
        inspect(
            {"metadata": {"name": "torch", "version": "2.8.0", "requires_dist": ["filelock", 'nvidia-nccl-cu12==2.27.3; platform_system == "Linux"', 'x>1; extra == "y"']}},
            {"metadata": {"name": "Flash_Attn", "version": "2.8.3", "description": "a `b` \\_ <p> “c”"}},
            {"metadata": {"name": "sglang", "version": "0.5.3"}, "direct_url": {"url": "file:///src/sglang/python", "dir_info": {"editable": True}}},
            {"metadata": {"name": "vllm", "version": "0.9.0"}, "direct_url": {"url": "https://github.com/vllm-project/vllm.git", "vcs_info": {"vcs": "git", "commit_id": "ab" * 20}}},
            {"metadata": None},
        )
    ).document  # fmt: skip
    assert document["packages"] == {"torch": "2.8.0", "flash-attn": "2.8.3", "sglang": "0.5.3", "vllm": "0.9.0"}
    assert document["origins"]["sglang"] == {
        "kind": "editable", "url": "file:///src/sglang/python", "location": "/src/sglang/python",
    }  # fmt: skip
    assert document["origins"]["vllm"]["commit"] == "ab" * 20
    assert document["pins"] == {"torch": {"nvidia-nccl-cu12": "==2.27.3"}}
    assert document["python"] == {"version": "3.12.3", "implementation": "CPython"}
    assert document["system"] == {"kernel": "6.8.0-79-generic", "arch": "x86_64"}
    assert "packages" not in document["missing"]


def test_this_interpreters_own_pip() -> None:
    text = subprocess.run([sys.executable, "-m", "pip", "inspect"], capture_output=True, text=True, check=True).stdout
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    found = read_text(text).document["packages"]
    assert len(found) > 5
    assert read_text("$ pip freeze\n" + listed).document["packages"] == found


def test_lists_of_pip_and_conda() -> None:
    pip = json.dumps(
        [
            {"name": "torch", "version": "2.8.0"},
            {"name": "vllm", "version": "0.9", "editable_project_location": "/src/vllm"},
        ]
    )
    document = read_text(pip).document
    assert document["packages"] == {"torch": "2.8.0", "vllm": "0.9"}
    assert document["origins"]["vllm"] == {"kind": "editable", "location": "/src/vllm"}
    conda = json.dumps(
        [{"name": "numpy", "version": "1.26.4", "build_string": "py310h5f9d8c6_1", "channel": "conda-forge"}]
    )
    assert read_text(conda).document["packages"] == {"numpy": "1.26.4"}


def test_a_document_that_is_cut_off_is_counted() -> None:
    text = inspect(*({"metadata": {"name": f"a{number}", "version": "1"}} for number in range(50)))
    read = read_text(text[:2000])
    assert "packages" not in read.document
    assert [unread.kind for unread in read.unread] == ["JSON document cut off"]


def test_json_whose_quotation_marks_were_made_typographic() -> None:
    text = json.dumps([{"name": "torch", "version": "2.8.0"}], indent=1)
    assert read_text(text.replace('"', "\u201d")).document["packages"] == {"torch": "2.8.0"}


def test_deep_nesting_is_left_alone() -> None:
    assert read_text('{"a":' * 5000 + "1" + "}" * 5000).document["meta"]["source"] == ""


def test_the_answer_of_a_server() -> None:
    document = read_text(
        json.dumps({"model_path": "m", "tp_size": 2, "version": "0.5.3", "internal_states": [{"x": 1}]})
    ).document
    assert document["launch"]["resolved"] == {"model_path": "m", "tp_size": 2}
    assert document["packages"] == {"sglang": "0.5.3"}
