"""The declarations of the sections that describe what is installed: packages, origins, pins, conflicts."""

from __future__ import annotations

from envsnap.facts import IDENTITY, FactSpec

FRAMEWORKS = (
    "accelerate", "bitsandbytes", "compressed-tensors", "deepspeed", "flash-attn", "flashinfer-python", "ktransformers",
    "lmcache", "lmdeploy", "megatron-core", "mooncake-transfer-engine", "nixl", "outlines", "peft", "sgl-kernel",
    "sglang", "sglang-kernel", "sglang-router", "tensorrt-llm", "torch", "torchao", "torchaudio", "torchvision",
    "transformer-engine", "transformers", "trl", "verl", "vllm", "xformers", "xgrammar",
)  # fmt: skip
"""The distributions whose requirements are recorded as pins."""

_WEIGHTS = {
    8: "torch sglang vllm sgl-kernel sglang-kernel flashinfer-python tensorrt-llm nvidia-nccl-cu12 nvidia-nccl-cu13",
    7: "flashinfer-cubin flashinfer-jit-cache flash-attn flash-attn-3 flash-attn-4 triton xformers deep-gemm"
    " sgl-deep-gemm sgl-flash-mla sgl-deep-ep deep-ep flash-mla vllm-flash-attn",
    6: "transformers deepspeed transformer-engine nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cublas"
    " nvidia-cublas-cu12 tokenspeed-mla",
    5: "torchvision torchaudio torchao torchcodec compressed-tensors lmcache mooncake-transfer-engine nixl ray"
    " cuda-python cuda-bindings cuda-toolkit nvidia-cuda-runtime nvidia-cuda-runtime-cu12 nvidia-cuda-nvrtc"
    " nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvcc nvidia-cutlass-dsl nvidia-nvshmem-cu12 nvidia-nvshmem-cu13 tilelang"
    " apache-tvm-ffi quack-kernels bitsandbytes nvidia-nvjitlink nvidia-nvjitlink-cu12 torch-memory-saver",
    4: "numpy tokenizers xgrammar llguidance outlines accelerate peft nvidia-ml-py pynvml nvidia-cusparselt-cu12"
    " nvidia-cusparselt-cu13 nvidia-cudnn-frontend numba cupy-cuda12x cupy-cuda13x huggingface-hub safetensors",
    3: "openai pydantic fastapi uvicorn uvloop pyzmq msgspec setuptools protobuf grpcio sentencepiece tiktoken",
}

PACKAGE_FACTS = [
    FactSpec(
        "packages.*",
        IDENTITY,
        "version",
        "Version of a distribution that the interpreter finds, from its metadata; of several the first on sys.path",
        weight=1,
    ),
    *(
        FactSpec(f"packages.{name}", IDENTITY, "version", f"Version of {name}, from its metadata", weight=weight)
        for weight, names in _WEIGHTS.items()
        for name in names.split()
    ),
    FactSpec(
        "origins.*.kind",
        IDENTITY,
        "string",
        "editable, vcs, file or archive, from direct_url.json or a develop link; an index install has no row",
        weight=4,
    ),
    FactSpec("origins.*.location", IDENTITY, "string", "Directory or file on this machine it came from", weight=5),
    FactSpec("origins.*.url", IDENTITY, "string", "The URL it came from, without credentials", weight=4),
    FactSpec("origins.*.commit", IDENTITY, "string", "The commit that pip built, from direct_url.json", weight=6),
    FactSpec(
        "origins.*.version_in_source",
        IDENTITY,
        "version",
        "What the editable source tree calls itself, where its installed metadata says something else",
        weight=5,
    ),
    FactSpec(
        "pins.*.*",
        IDENTITY,
        "string",
        "Versions that a framework's own metadata asks for on this machine; what it needs in any version has no row",
        weight=1,
    ),
    FactSpec(
        "conflicts.*",
        IDENTITY,
        "set",
        "Distributions that overwrite each other's files under one import name, several versions of one distribution,"
        " or a directory that hides one: from RECORD and sys.path",
        weight=6,
    ),
]
