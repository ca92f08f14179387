"""env: the variables of the launch that can change how a GPU program behaves.

An allow-list, by prefix and by name: what is not on it is never looked at. Source of truth: the environment of the
command that is about to start, or /proc/PID/environ.
"""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, STATE, VOLATILE, FactSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

PREFIXES = (
    "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "NVSHMEM_", "GLOO_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_",
    "FLASHINFER_", "SGLANG_", "SGL_", "VLLM_", "LMCACHE_", "MC_", "DG_", "HF_", "HUGGINGFACE_", "HUGGING_FACE_",
    "TRANSFORMERS_", "TOKENIZERS_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "CUBLAS", "CUDNN", "RAY_", "SLURM_",
    "OMPI_", "PMI_", "TRTLLM_", "NVTE_", "FI_", "MALLOC_", "LD_",
)  # fmt: skip
"""Beginnings of the names that are captured."""

NAMES = frozenset((
    "PATH", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV", "CONDA_PREFIX",
    "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK",
    "XDG_CACHE_HOME", "TMPDIR", "GLIBC_TUNABLES", "CUDAHOSTCXX", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
))  # fmt: skip
"""Further names that are captured."""

LONGEST = 32 << 10
"""Characters of one value; a longer one is cut and its digest noted."""
KEPT = 2000
"""Characters that stay of a value that is cut."""

_SOURCE = "environment of the launch"


def _variables(kind: str, weight: float, doc: str, *names: str, type: str = "string") -> list[FactSpec]:  # noqa: A002
    return [FactSpec(f"env.{name}", kind, type, f"{doc}; {_SOURCE}", weight=weight, secret=True) for name in names]


FACTS = [
    *_variables(
        VOLATILE, 0, "Which job, step or task this is",
        "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
        "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_GTIDS", "RAY_JOB_ID", "OMPI_MCA_ess_base_jobid",
        "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_local_daemon_uri", "PMI_FD", "PMI_ID",
    ),
    *_variables(
        VOLATILE, 0, "Which of the job's processes this is",
        "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "*_RANK",
    ),
    *_variables(
        VOLATILE, 0, "Where the job's processes meet, chosen when it started",
        "MASTER_PORT", "*_PORT", "SLURM_SRUN_COMM_HOST",
    ),
    *_variables(VOLATILE, 0, "A process's number", "*_PID"),
    *_variables(
        STATE, 0.5, "The nodes of the job, as the scheduler chose them",
        "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR",
        "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SUBMIT_HOST",
    ),
    *_variables(
        IDENTITY, 7, "Directories that the loader searches first, or libraries that it loads first",
        "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", type="path-list",
    ),
    *_variables(IDENTITY, 5, "Directories that Python searches first", "PYTHONPATH", type="path-list"),
    *_variables(IDENTITY, 2, "Directories that are searched for programs", "PATH", type="path-list"),
    *_variables(
        IDENTITY, 7, "The GPUs that the program sees, and their order",
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    ),
    *_variables(IDENTITY, 1, "How much is logged", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "VLLM_LOGGING_LEVEL"),
    *_variables(IDENTITY, 1, "What the image was built with", "CUDA_VERSION", "NCCL_VERSION", "NVIDIA_PRODUCT_NAME"),
    *_variables(
        IDENTITY, 5, "A variable of CUDA, NCCL or another library between the program and the GPUs",
        "CUDA_*", "NCCL_*", "NVSHMEM_*", "UCX_*", "CUBLAS*", "CUDNN*", "FI_*", "GLOO_*", "LD_*",
    ),
    *_variables(
        IDENTITY, 5, "A variable of the inference engine",
        "SGLANG_*", "SGL_*", "VLLM_*", "TRTLLM_*", "LMCACHE_*", "MC_*", "FLASHINFER_*", "DG_*",
    ),
    *_variables(
        IDENTITY, 4, "A variable of PyTorch, Triton or Transformer Engine",
        "TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "NVTE_*",
    ),
    *_variables(IDENTITY, 3, "A variable of the container runtime", "NVIDIA_*"),
    *_variables(
        IDENTITY, 3, "Where the interpreter, its caches and its requests go",
        "VIRTUAL_ENV", "CONDA_PREFIX", "HF_HOME", "XDG_CACHE_HOME", "TMPDIR", "http_proxy", "https_proxy", "all_proxy",
        "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    ),
    *_variables(IDENTITY, 2, "A variable that can change how a GPU program behaves", "*"),
]  # fmt: skip


def is_captured(name: str) -> bool:
    """Whether a variable is on the allow-list."""
    return name in NAMES or name.startswith(PREFIXES)


@collector(section="env", facts=FACTS)
def collect_env(host: Host) -> Facts:
    """Pick the variables on the allow-list; a process whose environment may not be read has unknown ones."""
    if "environ" in host.denied:
        return {"env": host.denied["environ"]}
    return {"env": {name: readable(value) for name, value in sorted(host.environ.items()) if is_captured(name)}}


def readable(value: str) -> str:
    """A value as it is written down: bytes that are no UTF-8 as backslash escapes, one without end cut."""
    if not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if len(value) <= LONGEST:
        return value
    import hashlib

    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
    return f"{value[:KEPT]}… (cut: {len(value)} characters, sha256:{digest})"
