from __future__ import annotations

from envsnap.ingest import read_text

TEXT = """\
Copy-and-paste the text below in your GitHub issue and FILL OUT the two last points.

- `transformers` version: 4.57.1
- Platform: Linux-5.15.0-1075-aws-x86_64-with-glibc2.35
- Python version: 3.10.12
- Huggingface_hub version: 0.36.0
- Accelerate version: 1.10.1
- Accelerate config: \t- compute_environment: LOCAL_MACHINE
\t- distributed_type: MULTI_GPU
- DeepSpeed version: not installed
- PyTorch version (accelerator?): 2.8.0+cu128 (CUDA)
- Tensorflow version (GPU?): not installed (NA)
- Jax version: 0.4.25
- Using distributed or parallel set-up in script?: <fill in>
- Using GPU in script?: <fill in>
- GPU type: NVIDIA A100-SXM4-80GB
"""


def test_versions_platform_and_gpu() -> None:
    document = read_text(TEXT).document
    assert document["packages"] == {
        "transformers": "4.57.1", "huggingface-hub": "0.36.0", "accelerate": "1.10.1", "jax": "0.4.25",
    }  # fmt: skip
    assert document["torch"] == {"version": "2.8.0+cu128", "is_cuda_available": True}
    assert document["system"] == {"kernel": "5.15.0-1075-aws", "arch": "x86_64", "libc": "glibc 2.35"}
    assert document["python"] == {"version": "3.10.12"}
    assert document["gpu"]["index-0"]["name"] == "NVIDIA A100-SXM4-80GB"


def test_the_older_form_says_whether_there_is_a_gpu() -> None:
    document = read_text("- `transformers` version: 4.38.2\n- PyTorch version (GPU?): 2.2.1+cu121 (False)\n").document
    assert document["torch"] == {"version": "2.2.1+cu121", "is_cuda_available": False}
