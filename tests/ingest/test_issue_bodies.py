"""What whole issue bodies taught: several programs, people's own lines, and what looks like a contradiction."""

from __future__ import annotations

from envsnap.ingest import read_text


def test_a_brace_that_is_never_closed_hides_nothing() -> None:
    text = '```\n{\n  "architectures": ["Qwen2"],\n  "rope": {\n```\n\nThanks!\n\nPython: 3.10.12 (main) [GCC]\nCUDA available: True\n'
    assert read_text(text).document["torch"] == {"is_cuda_available": True}
    assert read_text(text.replace("```", "")).document["torch"] == {"is_cuda_available": True}
    listed = '[\n {"name": "a"},\n' + "".join(f"pkg{number}==1.{number}\n" for number in range(6))
    assert len(read_text(listed).document["packages"]) == 6


def test_a_json_document_that_was_wrapped_in_a_text_is_still_one() -> None:
    text = '[{"name": "torch", "version": "2.9.1", "summary": "a very\n long one"}, {"name": "numpy", "version": "2.0.0"}]\n'
    assert read_text(text.replace("\n long", " long")).document["packages"] == {"torch": "2.9.1", "numpy": "2.0.0"}
    wrapped = '[{"name": "torch", "version": "2.9.1"}, {"name":\n"numpy", "version": "2.0.0"}]\n'
    assert read_text(wrapped).document["packages"] == {"torch": "2.9.1", "numpy": "2.0.0"}


NAMESPACE = (
    "INFO 01-17 22:16:03 api_server.py:768] vLLM API server version 0.6.6\n"
    "INFO 01-17 22:16:03 api_server.py:769] args: Namespace(model='m', tokenizer=None, dtype='auto', "
    "compilation_config=None, max_model_len=None, tensor_parallel_size=2, dispatch_function=<function serve at 0x7fb2>)\n"
)
ENGINE = (
    "INFO 01-17 22:16:21 llm_engine.py:237] Initializing a V0 LLM engine (v0.6.6) with config: model='m', "
    'tokenizer=\'m\', dtype=torch.bfloat16, tensor_parallel_size=2, compilation_config={"level":3,"backend":""}\n'
)


def test_what_was_asked_for_does_not_contradict_what_the_engine_made_of_it() -> None:
    read = read_text(NAMESPACE + ENGINE)
    resolved = read.document["launch"]["resolved"]
    assert not read.contradictions
    assert (resolved["dtype"], resolved["tokenizer"]) == ("torch.bfloat16", "m")
    assert resolved["compilation_config"] == {"level": 3, "backend": ""}
    assert resolved["dispatch_function"] == "<function serve>"


def test_another_model_is_another_start() -> None:
    read = read_text(ENGINE + ENGINE.replace("model='m'", "model='n'"))
    assert [part.document["model"]["path"] for part in read.parts] == ["m", "n"]
    assert ("model", "path") in [found.path for found in read.contradictions]


def test_engines_of_all_ages() -> None:
    oldest = "INFO 06-30 09:24:54 llm_engine.py:59] Initializing an LLM engine with config: model='/m', dtype=torch.float16\n"
    assert read_text(oldest).document["model"] == {"path": "/m"}
    dumped = "ERROR 06-05 16:27:39 [dump_input.py:70] V1 LLM engine (v0.9.0) with config: model='/m', tensor_parallel_size=4\n"
    document = read_text(dumped).document
    assert (document["packages"]["vllm"], document["launch"]["engine"]) == ("0.9.0", "V1")


def test_one_name_of_a_device_does_not_say_how_many_there_are() -> None:
    """On ROCm collect_env asks torch for the name of its first device."""
    text = "PyTorch version: 2.5.0\nROCM used to build PyTorch: 6.2\nGPU models and configuration: AMD Instinct MI300X (gfx942)\n"
    assert "gpus" not in read_text(text + "Nvidia driver version: Could not collect\n").document


def test_variables_at_the_end_of_vllms_old_output_have_no_heading() -> None:
    text = (
        "vLLM Version: 0.6.4.post1\nvLLM Build Flags:\nCUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled\n"
        "GPU Topology:\nCould not collect\n\nLD_LIBRARY_PATH=/x/cv2/../../lib64:\nCUDA_MODULE_LOADING=LAZY\n"
    )
    assert read_text(text).document["env"] == {
        "LD_LIBRARY_PATH": "/x/cv2/../../lib64:", "CUDA_MODULE_LOADING": "LAZY",
    }  # fmt: skip
    assert "env" not in read_text("NCCL_IB_DISABLE=0\n\nPyTorch version: 2.1.0\n").document


def test_versions_that_an_index_offers_are_not_installed() -> None:
    text = "Because only these versions are available:\n" + "".join(
        f"    flashinfer==0.0.{number}+cu121\n" for number in range(4, 9)
    )
    read = read_text(text)
    assert "packages" not in read.document
    assert any(unread.kind == "one of several versions of a package" for unread in read.unread)


def test_an_installation_replaces_what_was_there() -> None:
    text = "Requirement already satisfied: pip in /venv/lib (24.2)\nCollecting pip\nSuccessfully installed pip-25.0\n"
    read = read_text(text)
    assert read.document["packages"] == {"pip": "25.0"}
    assert not read.contradictions


def test_the_local_tag_of_torch_stands_in_one_place_only() -> None:
    read = read_text("PyTorch version: 2.6.0+cu124\n[pip3] torch==2.6.0\n\nPyTorch version (GPU?): 2.6.0 (True)\n")
    assert read.document["torch"]["version"] == "2.6.0+cu124"
    assert not read.contradictions


def test_one_gpu_a_line_is_counted_not_contradicted() -> None:
    rows = "".join(f"GPU {n}: NVIDIA H20\nGPU {n} Compute Capability: 9.0\n" for n in range(8))
    read = read_text(f"Python: 3.10.12 (main) [GCC]\nCUDA available: True\n{rows}CUDA_HOME: /usr/local/cuda\n")
    assert read.document["gpus"]["visible_count"] == 8
    assert not read.contradictions


def test_level_before_time_is_a_prefix() -> None:
    text = "INFO 2025-04-06T03:02:45.843428611Z CUDA available: True\nINFO 2025-04-06T03:02:45.843428611Z CUDA Driver Version: 535.230.02\n"
    assert read_text(text).document["driver"] == {"version": "535.230.02"}


def test_peoples_own_list_makes_no_packages_of_compilers() -> None:
    read = read_text(
        "**Local:**\n- System: Ubuntu 22.04\n- CUDA: 12.4\n- PyTorch: 2.4.0\n- CMake: 2.31.4\n- GCC: 11.4.0\n"
    )
    assert read.document["torch"] == {"version": "2.4.0"}
    assert "packages" not in read.document
