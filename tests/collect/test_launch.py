"""launch: what is started, where it runs in a job, and which files its command line names."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.collect import launch
from envsnap.collect.machine.frameworks import framework_of
from envsnap.collect.machine.job import job_facts
from envsnap.collect.runner import Collected
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]

FRAMEWORKS = [
    ("python3 -m sglang.launch_server --model-path /models/vllm --tp 8", "sglang"),
    ("/opt/venv/bin/python -u -X faulthandler -m sglang.launch_server", "sglang"),
    ("sglang serve --model-path x", "sglang"),
    ("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2", "vllm"),
    ("/opt/venv/bin/vllm serve x", "vllm"),
    ("python /opt/venv/bin/vllm serve x", "vllm"),
    ("python3 -m vllm.entrypoints.openai.api_server", "vllm"),
    ("python /src/vllm/vllm/entrypoints/openai/api_server.py", "vllm"),
    ("env HF_HOME=/x nohup numactl -N 0 -m 0 vllm serve x", "vllm"),
    ("HF_TOKEN=x CUDA_VISIBLE_DEVICES=0 python -m sglang.launch_server", "sglang"),
    ("torchrun --nproc-per-node 8 train.py --config a.yaml", "torchrun"),
    ("python -m torch.distributed.run --nproc-per-node 8 train.py", "torchrun"),
    ("python -m torch.distributed.launch -m sglang.launch_server", "sglang"),
    ("torchrun --nproc-per-node 8 -m vllm.entrypoints.x", "vllm"),
    ("srun --exclusive -n 4 torchrun train.py", "torchrun"),
    ("accelerate launch train.py", "accelerate"),
    ("deepspeed --num_gpus 8 train.py", "deepspeed"),
    ("ray start --head", "ray"),
    ("ray job submit -- vllm serve x", "vllm"),
    ("text-generation-launcher --model-id x", "tgi"),
    ("mpirun -n 8 trtllm-llmapi-launch trtllm-serve x", "trtllm"),
    ("lmdeploy serve api_server x", "lmdeploy"),
    ("llama-server -m x.gguf", "llama.cpp"),
    ("VLLM::EngineCore", "vllm"),
    ("sglang::scheduler_TP0", "sglang"),
    ("ray::RayWorker.execute", "ray"),
    ("python train.py --framework vllm serve", None),
    ("python train.py --backend vllm", None),
    ("python -c pass", None),
    ("bench.sh --backend vllm --launcher torchrun", None),
    ("python", None),
    ("sleep 5", None),
    ("ls vllm serving", None),
]


@pytest.mark.parametrize(("command", "framework"), FRAMEWORKS)
def test_the_framework_is_read_from_the_words(command: str, framework: str | None) -> None:
    assert framework_of(command.split()) == framework


SCRIPTS = [
    ("exec vllm serve x --port 8000", "vllm"),
    ("source /opt/venv/bin/activate && cd /srv && HF_TOKEN=x exec python -m sglang.launch_server --tp 8", "sglang"),
    ("pip install vllm; echo vllm serve; torchrun train.py", "torchrun"),
    ("ray start --head &\nsleep 5\nvllm serve x", "vllm"),
    ("python -m sglang.launch_server \\\n  --tp 8 | tee log", "sglang"),
    ("echo 'a quote that is never closed", None),
]


@pytest.mark.parametrize(("script", "framework"), SCRIPTS)
@pytest.mark.parametrize("shell", [["bash", "-c"], ["/bin/sh", "-lc"], ["env", "X=1", "bash", "-e", "-c"]])
def test_the_framework_of_a_shells_text_is_that_of_its_last_command(
    shell: list[str], script: str, framework: str | None
) -> None:
    assert framework_of([*shell, script]) == framework


# -- the job ---------------------------------------------------------------------------------------------------------


def job(framework: str | None = None, **environ: str) -> dict[str, Any]:
    return {name: value for name, value in job_facts(environ, framework).items() if value is not None}


def test_no_variable_no_fact() -> None:
    assert job(RANK="", WORLD_SIZE="many", NNODES="-1") == {}


def test_a_worker_of_torchrun() -> None:
    assert job(RANK="5", WORLD_SIZE="16", GROUP_RANK="1", GROUP_WORLD_SIZE="4", LOCAL_RANK="1") == {
        "rank": 5,
        "world_size": 16,
        "node_rank": 1,
        "nnodes": 4,
    }


def test_a_step_of_slurm() -> None:
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_NODEID": "1",
            "SLURM_NNODES": "2"}  # fmt: skip
    assert job(**step) == {"rank": 3, "world_size": 8, "node_rank": 1, "nnodes": 2, "scheduler": "slurm"}
    # torchrun under srun starts ranks of its own: the scheduler's tasks are nodes then.
    assert job("torchrun", **step) == {"node_rank": 1, "nnodes": 2, "scheduler": "slurm"}


def test_mpi_kubernetes_and_leader_worker_sets() -> None:
    assert job(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="4") == {"rank": 2, "world_size": 4}
    assert job(KUBERNETES_SERVICE_HOST="10.0.0.1", JOB_COMPLETION_INDEX="3") == {
        "node_rank": 3,
        "scheduler": "kubernetes",
    }
    assert job(
        KUBERNETES_SERVICE_HOST="10.0.0.1", LWS_LEADER_ADDRESS="x", LWS_GROUP_SIZE="2", LWS_WORKER_INDEX="1"
    ) == {"node_rank": 1, "nnodes": 2, "scheduler": "lws"}


# -- the section -----------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "srv/app/configs").mkdir(parents=True)
    return root


def test_a_command_with_its_files(root: Path, gathered: Gathered) -> None:
    (root / "srv/app/configs/llama8b.yaml").write_text("lr: 1\n")
    (root / "srv/ds.json").write_text("{}")
    argv = ["torchrun", "--config", "configs/llama8b.yaml", "train.py", "--deepspeed=/srv/ds.json", "--chat-template", "gone.jinja",
            "no.yaml", "--url", "https://host/x.json"]  # fmt: skip
    host = Host(root=str(root), environ={"NNODES": "4"}, cwd="/srv/app", argv=argv)
    facts = gathered(host, "launch").facts["launch"]
    assert facts["argv"] == argv
    assert facts["cwd"] == "/srv/app"
    assert facts["framework"] == "torchrun"
    assert facts["nnodes"] == 4
    assert facts["config_files"] == {
        "config": {
            "path": "/srv/app/configs/llama8b.yaml",
            "digest": "sha256:" + hashlib.sha256(b"lr: 1\n").hexdigest(),
        },
        "deepspeed": {"path": "/srv/ds.json", "digest": "sha256:" + hashlib.sha256(b"{}").hexdigest()},
        "chat-template": {"path": "/srv/app/gone.jinja"},
    }


def test_files_in_a_shells_text_and_two_of_one_option(root: Path, gathered: Gathered) -> None:
    for name in ("a.yaml", "b.yaml"):
        (root / "srv/app" / name).write_text(name)
    argv = ["bash", "-c", "exec vllm serve --config a.yaml --config b.yaml --config a.yaml"]
    facts = gathered(Host(root=str(root), environ={}, cwd="/srv/app", argv=argv), "launch").facts["launch"]
    assert {key: table["path"] for key, table in facts["config_files"].items()} == {
        "config": "/srv/app/a.yaml",
        "config-2": "/srv/app/b.yaml",
    }


def test_without_a_command_what_it_would_tell_was_not_asked(root: Path, gathered: Gathered) -> None:
    collected = gathered(Host(root=str(root), environ={}, cwd="/srv"), "launch")
    why = Missing("not-asked", "no command was given")
    assert collected.missing == {
        "launch.argv": why,
        "launch.framework": why,
        "launch.config_files": why,
        "launch.args": why,
    }
    assert collected.facts["launch"] == {"cwd": "/srv"}


def test_of_a_process_that_may_not_be_read_all_is_unknown(root: Path, gathered: Gathered) -> None:
    denied = {name: Missing("permission", f"/proc/7/{name}") for name in ("environ", "argv", "cwd")}
    missing = gathered(Host(root=str(root), environ={}, pid=7, denied=denied), "launch").missing
    assert missing["launch.argv"] == Missing("permission", "/proc/7/argv")
    assert missing["launch.framework"] == Missing("permission", "/proc/7/argv")
    assert missing["launch.cwd"] == Missing("permission", "/proc/7/cwd")
    assert missing["launch.rank"] == missing["launch.scheduler"] == Missing("permission", "/proc/7/environ")


def test_a_running_process_tells_its_own_command(gathered: Gathered) -> None:
    pid = os.getpid()
    facts = gathered(Host.of_process(pid), "launch").facts["launch"]
    assert facts["argv"] == [part for part in Path(f"/proc/{pid}/cmdline").read_text().split("\0") if part]
    assert facts["cwd"] == os.getcwd()


def test_the_interpreter_is_named_as_it_is_executed(tmp_path: Path, gathered: Gathered) -> None:
    link = tmp_path / "bin/python3"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    argv = [str(link), "-m", "sglang.launch_server"]
    facts = gathered(Host(environ={"PATH": "/bin"}, cwd="/", argv=argv), "launch").facts["launch"]
    assert facts["interpreter"] == str(link)


def test_an_interpreter_that_was_asked_for_and_is_not_there(root: Path, gathered: Gathered) -> None:
    collected = gathered(Host(root=str(root), environ={}, cwd="/", argv=["x"], python="/gone/python"), "launch")
    assert collected.missing["launch.interpreter"].reason == "failed"
    assert collected.facts["launch"]["argv"] == ["x"]


def test_words_that_are_no_text_are_escaped(root: Path, gathered: Gathered) -> None:
    facts = gathered(Host(root=str(root), environ={}, cwd="/", argv=["x", "a\udcff"]), "launch").facts["launch"]
    assert facts["argv"] == ["x", "a\\xff"]


def test_all_of_launch_in_the_reference_snapshots_is_declared(reference_documents: dict[str, dict[str, Any]]) -> None:
    table = FactTable(launch.FACTS)
    for document in reference_documents.values():
        for path, _ in leaves({"launch": document["launch"]}):
            assert table.find(path) is not None, path


def test_the_framework_of_the_reference_snapshots(reference_documents: dict[str, dict[str, Any]]) -> None:
    for name, document in reference_documents.items():
        assert framework_of(document["launch"]["argv"]) == document["launch"]["framework"], name


def test_script_of_a_shell_is_no_argument(envsnap: Any) -> None:
    assert "args" not in envsnap.take("--", "sh", "-c", "echo --tp 8").facts["launch"]
    assert "args" in envsnap.take("--", "sh", "-c", "exec vllm serve M --max-model-len 4096").facts["launch"]
