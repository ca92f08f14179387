"""The limits collector: what binds, from which file, and what happens where a file is not there or damaged."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect import limits
from envsnap.collect.limits import allowed_cpus, collect_limits, process_limits, shared_memory
from envsnap.collect.machine.cgroup_limits import group_limits
from envsnap.collect.machine.cpu_list import format_list, parse_list
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

CPUS = st.sets(st.integers(0, 600), max_size=80)


def host_of(root, **environ: str) -> Host:
    return Host(root=str(root), environ=environ, cwd="/")


# -- recorded machines ---------------------------------------------------------------------------------------------


def test_a_machine_without_control_group_limits(machine, gathered, reference_documents) -> None:
    facts = gathered(host_of(machine("rtxpro6000x8")), "limits").facts["limits"]
    expected = reference_documents["rtxpro6000x8-sglang"]["limits"]
    names = ("memlock", "nofile", "nproc", "stack", "cpuset", "pids_max", "oom_kills")
    assert {name: facts[name] for name in names} == {name: expected[name] for name in names}
    assert "cgroup_memory_mib" not in facts
    assert "cgroup_cpus" not in facts


def test_a_pod_with_limits_of_version_2(machine, gathered) -> None:
    facts = gathered(host_of(machine("h100x8-kubernetes")), "limits").facts["limits"]
    assert facts["cgroup_memory_mib"] == 1843200
    assert facts["cgroup_cpus"] == 192.5
    assert facts["pids_max"] == 131072
    assert facts["memlock"] == 65536
    assert facts["nproc"] == "unlimited"
    assert facts["oom_kills"] == 2  # the pod's own, not the machine's 41


def test_a_container_with_limits_of_version_1(machine, gathered) -> None:
    facts = gathered(host_of(machine("docker-cgroup-v1")), "limits").facts["limits"]
    assert facts["cgroup_memory_mib"] == 65536
    assert facts["cgroup_cpus"] == 12.5
    assert facts["pids_max"] == 131072  # the group has none: the kernel's
    assert facts["oom_kills"] == 3


def test_processors_that_are_not_online_do_not_count(machine) -> None:
    assert allowed_cpus(host_of(machine("desktop-wifi"))) == "0-47"


def test_without_proc_everything_is_unknown(machine, gathered) -> None:
    collected = gathered(host_of(machine("bare")), "limits")
    assert collected.facts["limits"] == {}
    for name in ("memlock", "nofile", "cpuset", "cgroup_memory_mib", "pids_max", "oom_kills"):
        assert collected.missing[f"limits.{name}"].reason == "unsupported", name


def test_sizes_of_mounts_are_not_taken_from_the_machine_that_reads_a_tree(machine, gathered) -> None:
    missing = gathered(host_of(machine("rtxpro6000x8")), "limits").missing
    assert missing["limits.shm_total_mib"].reason == "not-recorded"
    assert missing["limits.disk_free_gib"].reason == "not-recorded"


# -- control groups ------------------------------------------------------------------------------------------------


def test_the_lowest_limit_on_the_way_to_the_root_binds(machine) -> None:
    groups = "/sys/fs/cgroup/user.slice"
    root = machine(
        "rtxpro6000x8",
        f"{groups}/memory.max = 8589934592",
        f"{groups}/user-1004.slice/memory.max = 68719476736",
        f"{groups}/user-1004.slice/session-41.scope/cpu.max = 400000 100000",
        f"{groups}/user-1004.slice/cpu.max = 1600000 100000",
    )
    limits = group_limits(host_of(root))
    assert limits["cgroup_memory_mib"] == 8192
    assert limits["cgroup_cpus"] == 4


def test_the_kernel_of_version_1_writes_no_limit_as_a_large_number(machine) -> None:
    root = machine(
        "docker-cgroup-v1",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes = 9223372036854771712",
        "/sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us = -1",
    )
    limits = group_limits(host_of(root))
    assert limits["cgroup_memory_mib"] is None
    assert limits["cgroup_cpus"] is None


def test_a_group_outside_of_the_namespace_is_read_where_it_can_be_seen(machine) -> None:
    root = machine("h100x8-kubernetes", "/proc/self/cgroup = 0::/../../kubelet")
    assert group_limits(host_of(root))["cgroup_memory_mib"] == 1843200


def test_groups_that_are_not_mounted_are_unknown(machine) -> None:
    root = machine("h100x8-kubernetes")
    mountinfo = root / "proc/self/mountinfo"
    mountinfo.write_text("\n".join(line for line in mountinfo.read_text().splitlines() if "cgroup" not in line))
    assert group_limits(host_of(root))["cgroup_memory_mib"].reason == "unsupported"


def test_a_kernel_without_control_groups_limits_nothing(machine) -> None:
    root = machine("rtxpro6000x8")
    (root / "proc/self/cgroup").unlink()
    limits = group_limits(host_of(root))
    assert limits["cgroup_memory_mib"] is None
    assert limits["pids_max"] == 4194304


@pytest.mark.parametrize("text", ["", "8G", "max memory"])
def test_a_damaged_limit_is_unknown_not_absent(machine, text) -> None:
    root = machine("h100x8-kubernetes", f"/sys/fs/cgroup/memory.max = {text}")
    assert group_limits(host_of(root))["cgroup_memory_mib"].reason == "failed"


def test_a_fifo_in_place_of_a_limit_does_not_block(machine) -> None:
    root = machine("h100x8-kubernetes")
    os.unlink(root / "sys/fs/cgroup/memory.max")
    os.mkfifo(root / "sys/fs/cgroup/memory.max")
    assert group_limits(host_of(root))["cgroup_memory_mib"].reason == "failed"


# -- the process ---------------------------------------------------------------------------------------------------


def test_a_cut_file_leaves_the_rest_unknown(machine) -> None:
    root = machine("rtxpro6000x8")
    path = root / "proc/self/limits"
    path.write_text(path.read_text().partition("Max open files")[0] + "Max open files      ")
    found = process_limits(host_of(root))
    assert found["stack"] == 8388608
    assert found["nofile"].reason == "failed"
    assert found["memlock"].reason == "failed"


def test_the_process_that_is_asked_for_counts(machine, put) -> None:
    root = machine("rtxpro6000x8")
    text = (root / "proc/self/limits").read_text().replace("1048576", "4242   ")
    (root / "proc/77").mkdir()
    (root / "proc/77/limits").write_text(text)
    host = Host(root=str(root), environ={}, cwd="/", pid=77)
    assert process_limits(host)["nofile"] == 4242


def shm_of(root) -> dict:
    host = host_of(root)
    return shared_memory(host, host)


# -- shared memory -------------------------------------------------------------------------------------------------


def test_segments_are_counted_by_family(machine) -> None:
    found = shm_of(machine("h100x8-kubernetes"))
    assert found["shm_leftovers"] == {"nccl": 4, "sem": 1, "torch": 1}


def test_the_count_is_bounded(machine, monkeypatch) -> None:
    monkeypatch.setattr(limits, "SHM_NAMES", 3)
    found = shm_of(machine("rtxpro6000x8", "/dev/shm/nccl-{0..9} ="))
    assert found["shm_leftovers"] == {"nccl": 3}


def test_no_directory_no_facts(machine) -> None:
    assert shm_of(machine("bare")) == {}


@pytest.fixture
def apart():
    """A process in a mount namespace of its own, with 16 MiB of shared memory and one segment in it."""
    script = "mount -t tmpfs -o size=16m shm /dev/shm && touch /dev/shm/nccl-x && echo ready && exec sleep 60"
    command = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            process.kill()
            pytest.skip("no mount namespaces for us")
        yield process.pid
        process.kill()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_process_is_asked_for_its_own_shared_memory(apart, gathered) -> None:
    facts = gathered(Host.of_process(apart), "limits").facts["limits"]
    assert facts["shm_total_mib"] == facts["shm_free_mib"] == 16
    assert facts["shm_leftovers"] == {"nccl": 1}
    assert gathered(Host.here(), "limits").facts["limits"]["shm_total_mib"] != 16


# -- disks ---------------------------------------------------------------------------------------------------------


def test_the_model_named_on_the_command_line(tmp_path) -> None:
    (tmp_path / "m").mkdir()
    for argv in (
        ["python", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "8"],
        ["vllm", "serve", "./m", "--tensor-parallel-size", "8"],
        ["vllm", "serve", "--model=m"],
    ):
        host = Host(environ={"HOME": str(tmp_path)}, cwd=str(tmp_path), argv=argv)
        assert dict(limits.free_disks(host, host)).keys() == {"root", "tmp", "cache", "store", "model"}, argv


@pytest.mark.parametrize("argv", [None, ["vllm", "serve", "Qwen/Qwen3-32B"], ["vllm", "serve"], ["x", "--model"]])
def test_a_name_on_the_hub_is_no_directory(tmp_path, argv) -> None:
    host = Host(environ={"HOME": str(tmp_path)}, cwd=str(tmp_path), argv=argv)
    assert "model" not in dict(limits.free_disks(host, host))


def test_a_directory_that_is_not_made_yet_lies_on_its_ancestors_disk(tmp_path) -> None:
    host = Host(environ={"HF_HOME": str(tmp_path / "not/there/yet")}, cwd=str(tmp_path))
    usage = os.statvfs(tmp_path)
    assert abs(dict(limits.free_disks(host, host))["cache"] - (usage.f_bavail * usage.f_frsize >> 30)) <= 2


def test_variables_that_could_not_be_read_leave_their_places_unknown() -> None:
    denied = {"environ": Missing("permission", "/proc/1/environ")}
    found = dict(limits.free_disks(*[Host(environ={}, cwd="/", denied=denied)] * 2))
    assert found["tmp"] == found["cache"] == denied["environ"]
    assert isinstance(found["root"], int)


# -- this machine, properties --------------------------------------------------------------------------------------


def test_two_takes_of_this_machine_agree_within_tolerance(gathered) -> None:
    before, after = (gathered(Host.here(), "limits") for _ in range(2))
    table = FactTable(collect_limits.facts)
    later = dict(leaves(after.facts))
    assert later.keys() == dict(leaves(before.facts)).keys()
    for path, value in leaves(before.facts):
        assert value == later[path] or table.find(path).tolerates(value, later[path]), path
    assert before.missing == after.missing


def test_this_process_is_described_as_it_is(gathered) -> None:
    import resource

    facts = gathered(Host.here(), "limits").facts["limits"]
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert facts["nofile"] == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    assert parse_list(facts["cpuset"]) == os.sched_getaffinity(0)


@given(cpus=CPUS)
def test_a_list_of_processors_survives(cpus) -> None:
    assert parse_list(format_list(cpus)) == cpus


@given(text=st.text(alphabet="0123456789-, \nx", max_size=30))
def test_any_other_list_is_refused_or_read(text) -> None:
    try:
        numbers = parse_list(text)
    except ValueError:
        return
    assert all(number >= 0 for number in numbers)
