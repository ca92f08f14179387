"""Where a process runs in a job: rank, sizes and scheduler, from the variables that launchers and schedulers set.

Sources of truth: torchrun's and Slurm's documentation of their output variables, Open MPI's and PMI's, Kubernetes'
(indexed jobs, LeaderWorkerSet, JobSet, the training operator), LSF's, PBS's, Flux's and SkyPilot's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK", "JSM_NAMESPACE_RANK")
WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "JSM_NAMESPACE_SIZE")
NODE_RANK = (
    "NODE_RANK", "GROUP_RANK", "PET_NODE_RANK", "LWS_WORKER_INDEX", "SKYPILOT_NODE_RANK", "SLURM_NODEID", "PBS_NODENUM",
    "JOB_COMPLETION_INDEX",
)  # fmt: skip
NODES = (
    "NNODES", "GROUP_WORLD_SIZE", "PET_NNODES", "LWS_GROUP_SIZE", "SKYPILOT_NUM_NODES", "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES", "FLUX_JOB_NNODES",
)  # fmt: skip
"""Variables for each number, the nearest to the process first."""

SCHEDULERS = (
    ("slurm", ("SLURM_JOB_ID", "SLURM_JOBID")),
    ("lsf", ("LSB_JOBID",)),
    ("pbs", ("PBS_JOBID",)),
    ("flux", ("FLUX_JOB_ID",)),
    ("sge", ("SGE_TASK_ID",)),
    ("lws", ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE")),
    ("jobset", ("JOBSET_NAME", "JOBSET_RESTART_ATTEMPT")),
    ("skypilot", ("SKYPILOT_TASK_ID",)),
    ("kubernetes", ("KUBERNETES_SERVICE_HOST",)),
)
"""A scheduler and the variables one of which it sets; the more special first."""

STARTS_ITS_OWN_RANKS = ("torchrun", "accelerate", "deepspeed", "ray", "horovod", "sglang", "vllm", "lmdeploy", "tgi")
"""Frameworks whose ranks are not the scheduler's tasks."""


def job_facts(environ: Mapping[str, str], framework: str | None) -> dict[str, int | str | None]:
    """rank, world_size, node_rank, nnodes and scheduler; None for what no variable tells."""
    rank, world_size = first_number(environ, RANK), first_number(environ, WORLD_SIZE)
    if "SLURM_STEP_ID" in environ and framework not in STARTS_ITS_OWN_RANKS:
        if rank is None:
            rank = first_number(environ, ("SLURM_PROCID",))
        if world_size is None:
            world_size = first_number(environ, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
    return {
        "rank": rank,
        "world_size": world_size,
        "node_rank": first_number(environ, NODE_RANK),
        "nnodes": first_number(environ, NODES),
        "scheduler": scheduler(environ),
    }


def first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """The first of several variables that is a whole number."""
    for name in names:
        value = environ.get(name, "").strip()
        if value.isascii() and value.isdecimal() and len(value) < 10:  # noqa: PLR2004 - no job is that large
            return int(value)
    return None


def scheduler(environ: Mapping[str, str]) -> str | None:
    """What placed the process; None where no scheduler's variable is set."""
    for name, variables in SCHEDULERS:
        if any(environ.get(variable) for variable in variables):
            return name
    return None
