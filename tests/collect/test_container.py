"""The container collector: which container is which, and above all that a machine is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.container import collect_container
from envsnap.collect.machine.container_signs import Signs, find_id, find_kind
from envsnap.host import Host
from envsnap.missing import Missing

ID = "4be81d0c9a17f00d112233445566778899aabbccddeeff00112233445566778a"
POD = "3f0b9c1e-7a52-4d0e-9c55-2f1f4d1a9b77"
OWN = "/proc/self/ns/pid -> pid:[4026532499]"
SHARED = "/proc/self/ns/pid -> pid:[4026531836]"
DISK = "30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw"
NINEP = "1 1 0:1 / / rw - 9p none rw"
LAYERS = (
    "611 512 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AAA,upperdir=/x,workdir=/y"
)


def bind(source: str, point: str) -> str:
    return f"631 611 253:0 {source} {point} rw,relatime - xfs /dev/mapper/root rw"


DOCKER_FILES = [
    bind(f"/var/lib/docker/containers/{ID}/resolv.conf", "/etc/resolv.conf"),
    bind(f"/var/lib/docker/containers/{ID}/hostname", "/etc/hostname"),
    bind(f"/var/lib/docker/containers/{ID}/hosts", "/etc/hosts"),
]
POD_FILES = [
    bind(f"/var/lib/kubelet/pods/{POD}/etc-hosts", "/etc/hosts"),
    bind(f"/var/lib/kubelet/pods/{POD}/containers/server/9b1c2d3e", "/dev/termination-log"),
]
SECRETS = "/run/secrets/kubernetes.io/serviceaccount/token = x"
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.fixture
def process(tmp_path, put):
    """A process: its mounts, its groups, small files, its variables."""

    def build(mounts: list[str], groups: str, *lines: str, **environ: str) -> Host:
        put(tmp_path, "/proc/version = Linux version 6.8.0", "/proc/sys/kernel/osrelease = 6.8.0-88-generic", *lines)
        folder = tmp_path / "proc/self"
        folder.mkdir(exist_ok=True)
        (folder / "mountinfo").write_text("\n".join(mounts) + "\n")
        (folder / "cgroup").write_text(groups + "\n")
        return Host(root=str(tmp_path), environ=environ, cwd="/")

    return build


def kind_of(host: Host) -> str | None:
    return find_kind(Signs(host, host))


# -- machines of one's own -----------------------------------------------------------------------------------------

MACHINES = {
    "plain": ([DISK], "0::/user.slice/session-4.scope", [SHARED], {}),
    "virtual machine made from an image": ([DISK], "0::/", [SHARED, "/.dockerenv =", "/run/.containerenv ="], {}),
    "docker host": (
        [
            DISK,
            "91 30 0:48 / /var/lib/docker/overlay2/0b1c/merged rw - overlay overlay rw,lowerdir=/a",
            bind(f"/var/lib/docker/containers/{ID}/mounts/shm", f"/var/lib/docker/containers/{ID}/mounts/shm"),
        ],
        "0::/system.slice/docker.service",
        [SHARED],
        {},
    ),
    "kubernetes node": (
        [
            DISK,
            bind("/", f"/var/lib/kubelet/pods/{POD}/volumes/kubernetes.io~projected/kube-api-access-x"),
            bind(f"/var/lib/kubelet/pods/{POD}/etc-hosts", f"/var/lib/kubelet/pods/{POD}/etc-hosts.bak"),
        ],
        "0::/system.slice/kubelet.service",
        [SHARED],
        {},
    ),
    "exported variable": ([DISK], "0::/user.slice", [SHARED], IN_CLUSTER | {"container": "podman"}),
    "diskless node with a layered root": ([LAYERS], "0::/user.slice", [SHARED], {}),
    "own process namespace on the machine's disk": ([DISK], "0::/user.slice", [OWN], {}),
    "the same on a disk made from an image": (
        [DISK], "0::/user.slice", [OWN, "/.dockerenv =", SECRETS], IN_CLUSTER | {"container": "podman"},
    ),
    "monitor of LXC": ([DISK], "0::/lxc.monitor.web1", [SHARED], {}),
    "monitor of podman": ([DISK], f"0::/machine.slice/libpod-conmon-{ID}.scope", [SHARED], {}),
    "image of Apptainer unpacked on a machine": ([DISK], "0::/user.slice", [SHARED, "/.singularity.d/"], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_no_container(process, name) -> None:
    mounts, groups, lines, environ = MACHINES[name]
    host = process(mounts, groups, *lines, **environ)
    assert kind_of(host) is None
    assert collect_container(host) == {}


# -- containers ----------------------------------------------------------------------------------------------------

CONTAINERS = {
    "docker, version 2": ("docker", [LAYERS, *DOCKER_FILES], "0::/", [OWN, "/.dockerenv ="], {}),
    "docker, the machine's processes": ("docker", [LAYERS, *DOCKER_FILES], "0::/", [SHARED], {}),
    "docker, data in another place": (
        "docker", [LAYERS, bind(f"/containers/{ID}/hosts", "/etc/hosts")], "0::/", [OWN], {},
    ),
    "docker, version 1": ("docker", [LAYERS], f"9:memory:/docker/{ID}", [OWN], {}),
    "docker, systemd's groups": ("docker", [LAYERS], f"0::/system.slice/docker-{ID}.scope", [OWN], {}),
    "docker, only the file": ("docker", [NINEP], "0::/", [OWN, "/.dockerenv ="], {}),
    "docker build": ("docker", [LAYERS, bind("/var/lib/buildkit/executor/hosts.x", "/etc/hosts")], "0::/", [OWN], {}),
    "pod": ("kubernetes", [LAYERS, *POD_FILES], "0::/", [OWN], {}),
    "pod with the machine's processes": ("kubernetes", [LAYERS, *POD_FILES], "0::/", [SHARED], IN_CLUSTER),
    "pod of docker": ("kubernetes", [LAYERS, POD_FILES[0], DOCKER_FILES[0]], "0::/", [OWN, "/.dockerenv ="], {}),
    "pod by its group": (
        "kubernetes",
        [LAYERS],
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f0b.slice/cri-containerd-{ID}.scope",
        [OWN],
        {},
    ),
    "pod, version 1": ("kubernetes", [LAYERS], f"9:memory:/kubepods/besteffort/pod{POD}/{ID}", [OWN], {}),
    "pod in a virtual machine": (
        "kubernetes",
        ["40 1 0:20 / / rw - virtiofs kataShared rw"],
        "0::/",
        [OWN, SECRETS],
        IN_CLUSTER,
    ),
    "podman": ("podman", [LAYERS], f"0::/machine.slice/libpod-{ID}.scope/container", [OWN], {}),
    "podman without root": (
        "podman",
        [LAYERS, bind(f"/containers/overlay-containers/{ID}/userdata/hosts", "/etc/hosts")],
        "0::/",
        [OWN, "/run/.containerenv ="],
        {},
    ),
    "podman by its variable": ("podman", [NINEP], "0::/", [OWN], {"container": "podman"}),
    "nerdctl": (
        "containerd",
        [LAYERS, bind(f"/var/lib/nerdctl/1935db59/containers/default/{ID}/resolv.conf", "/etc/resolv.conf")],
        "0::/",
        [OWN],
        {},
    ),
    "LXC": ("lxc", [DISK], "0::/lxc.payload.web1/user.slice", [OWN], {}),
    "LXC, version 1": ("lxc", [DISK], "4:memory:/lxc/web1", [OWN], {}),
    "LXC by its file system": (
        "lxc", [DISK, "70 30 0:50 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw"], "0::/", [OWN], {},
    ),
    "nspawn": ("systemd-nspawn", [DISK], "0::/", [OWN, "/run/host/container-manager = systemd-nspawn"], {}),
    "named by systemd": ("lxc", [DISK], "0::/init.scope", [OWN, "/run/systemd/container = lxc"], {}),
    "manager that nobody knows": ("other", [DISK], "0::/", [OWN, "/run/systemd/container = novelty"], {}),
    "Apptainer": (
        "apptainer", [DISK], "0::/user.slice", [SHARED, "/.singularity.d/"], {"APPTAINER_CONTAINER": "/images/a.sif"},
    ),
    "Singularity": (
        "singularity",
        [DISK],
        "0::/user.slice",
        [SHARED, "/.singularity.d/"],
        {"SINGULARITY_CONTAINER": "/images/s.sif"},
    ),
    "Singularity without its variables": (
        "singularity",
        ["9 1 0:7 / / rw - overlay overlay rw,lowerdir=/usr/local/var/singularity/mnt/session/overlay-lowerdir"],
        "0::/user.slice",
        [SHARED],
        {},
    ),
    "enroot": (
        "enroot",
        ["9 1 253:0 /raid/enroot-data/user-0/pyxis_4711.0 / rw - ext4 /dev/md0 rw"],
        "0::/system.slice/slurmstepd.scope/job_4711",
        [SHARED],
        {},
    ),
    "WSL": ("wsl", [DISK], "0::/", [SHARED, "/proc/sys/kernel/osrelease = 5.15.153.1-microsoft-standard-WSL2"], {}),
    "docker in WSL": (
        "docker",
        [LAYERS, *DOCKER_FILES],
        "0::/",
        [OWN, "/proc/sys/kernel/osrelease = 5.15.153.1-microsoft-standard-WSL2"],
        {},
    ),
    "gVisor": (
        "gvisor",
        ["1 1 0:1 / / rw - 9p none rw"],
        "0::/",
        ["/proc/self/ns/pid -> pid:[1]", "/proc/version = Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"],
        {},
    ),
    "layers and processes of its own": ("other", [LAYERS], "0::/", [OWN], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_named(process, name) -> None:
    kind, mounts, groups, lines, environ = CONTAINERS[name]
    assert kind_of(process(mounts, groups, *lines, **environ)) == kind


@pytest.mark.parametrize(
    ("mounts", "groups", "lines", "expected"),
    [
        (DOCKER_FILES, "0::/", [], ID[:12]),
        ([LAYERS], f"9:memory:/docker/{ID}", [], ID[:12]),
        ([LAYERS], f"0::/kubepods.slice/kubepods-podx.slice/crio-{ID}.scope", [], ID[:12]),
        ([LAYERS], "0::/", [f'/run/.containerenv = id="{ID}"'], ID[:12]),
        ([LAYERS, *POD_FILES], "0::/", [], None),
    ],
)
def test_the_id_comes_from_the_runtimes_traces(process, mounts, groups, lines, expected) -> None:
    host = process(mounts, groups, OWN, *lines)
    assert find_id(Signs(host, host)) == expected


def test_a_mount_over_a_mount_counts_not_the_one_below(process) -> None:
    host = process([LAYERS, DISK], "0::/", OWN)
    assert kind_of(host) is None


@given(text=st.text(), groups=st.text())
def test_damaged_tables_raise_nothing(tmp_path_factory, text, groups) -> None:
    root: Path = tmp_path_factory.mktemp("damaged")
    folder = root / "proc/self"
    folder.mkdir(parents=True)
    (folder / "mountinfo").write_text(text, errors="surrogatepass")
    (folder / "cgroup").write_text(groups, errors="surrogatepass")
    (folder / "status").write_text(text, errors="surrogatepass")
    collect_container(Host(root=str(root), environ={}, cwd="/"))


# -- the facts -----------------------------------------------------------------------------------------------------


def test_a_pod_of_a_recorded_machine(machine, gathered) -> None:
    host = Host(root=str(machine("h100x8-kubernetes")), environ=IN_CLUSTER, cwd="/")
    collected = gathered(host, "container")
    facts = collected.facts["container"]
    assert facts["kind"] == "kubernetes"
    assert facts["runtime"] == "containerd"
    assert facts["id"] == "001122334455"
    assert facts["is_privileged"] is False
    assert facts["seccomp"] == "filter"
    assert facts["pid_namespace"] == "pid:[4026535040]"
    assert "CAP_NET_RAW" in facts["capabilities"]
    assert "CAP_SYS_NICE" not in facts["capabilities"]
    assert facts["capabilities"] == sorted(facts["capabilities"])
    assert facts["devices"][:2] == ["/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"]
    assert "/dev/nvidia7" in facts["devices"]
    assert collected.missing["container.image"].reason == "unsupported"
    assert collected.missing["container.digest"].reason == "unsupported"


def test_a_privileged_container_with_the_old_kernels_capabilities(machine, gathered) -> None:
    host = Host(root=str(machine("docker-cgroup-v1")), environ={}, cwd="/")
    facts = gathered(host, "container").facts["container"]
    assert (facts["kind"], facts["runtime"], facts["id"]) == ("docker", "nvidia", "4be81d0c9a17")
    assert facts["is_privileged"] is True
    assert "CAP_SYS_NICE" in facts["capabilities"]


def test_all_capabilities_behind_a_filter_are_not_privileged(machine) -> None:
    root = machine("docker-cgroup-v1")
    status = root / "proc/self/status"
    status.write_text(status.read_text().replace("Seccomp:\t0", "Seccomp:\t2"))
    assert collect_container(Host(root=str(root), environ={}, cwd="/"))["container"]["is_privileged"] is False


@pytest.mark.parametrize("line", ["/proc/self/ns/user -> user:[4026532310]", ""])
def test_all_capabilities_of_a_user_namespace_are_not_privileged(machine, line) -> None:
    root = machine("docker-cgroup-v1", line)
    facts = collect_container(Host(root=str(root), environ={}, cwd="/"))["container"]
    assert facts["is_privileged"] is (line == "")


def test_who_may_gain_no_privileges_is_not_privileged(machine) -> None:
    root = machine("docker-cgroup-v1")
    with (root / "proc/self/status").open("a") as status:
        status.write("NoNewPrivs:\t1\n")
    assert collect_container(Host(root=str(root), environ={}, cwd="/"))["container"]["is_privileged"] is False


def test_a_system_container_has_no_image(process) -> None:
    facts = collect_container(process([DISK], "4:memory:/lxc/web1", OWN))["container"]
    assert facts["kind"] == "lxc"
    assert "image" not in facts
    assert "digest" not in facts


def test_without_a_table_of_mounts_no_verdict(tmp_path, put) -> None:
    put(tmp_path, SHARED)
    assert collect_container(Host(root=str(tmp_path), environ={}, cwd="/"))["container"].reason == "unsupported"


def test_the_caller_names_the_image(machine) -> None:
    environ = {"ENVSNAP_IMAGE": "lmsysorg/sglang:v0.5.13", "ENVSNAP_IMAGE_DIGEST": "sha256:8a3a"}
    host = Host(root=str(machine("docker-cgroup-v1")), environ=environ, cwd="/")
    facts = collect_container(host)["container"]
    assert (facts["image"], facts["digest"]) == ("lmsysorg/sglang:v0.5.13", "sha256:8a3a")


def test_a_name_with_a_digest_tells_both(machine) -> None:
    host = Host(
        root=str(machine("docker-cgroup-v1")), environ={"ENVSNAP_IMAGE": "r.example.com/a/b:1@sha256:77ff"}, cwd="/"
    )
    assert collect_container(host)["container"]["digest"] == "sha256:77ff"


def test_podman_tells_its_version_and_image_where_it_is_privileged(process, tmp_path) -> None:
    host = process([LAYERS], f"0::/machine.slice/libpod-{ID}.scope", OWN, "/dev/null =")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").write_text(
        f'engine="podman-4.9.3"\nname="x"\nid="{ID}"\nimage="docker.io/vllm/vllm-openai:v0.17.0"\nrootless=1\n'
    )
    facts = collect_container(host)["container"]
    assert (facts["runtime"], facts["runtime_version"]) == ("podman", "4.9.3")
    assert facts["image"] == "docker.io/vllm/vllm-openai:v0.17.0"


def test_what_cannot_be_read_is_missing_not_absent(process) -> None:
    host = process([LAYERS, *DOCKER_FILES], "0::/", OWN)
    facts = collect_container(host)["container"]
    assert facts["capabilities"] == Missing("unsupported", "no /proc/self/status")
    assert facts["is_privileged"] == Missing("unsupported", "no /proc/self/status")


def test_without_proc_nothing_is_claimed(machine, gathered) -> None:
    collected = gathered(Host(root=str(machine("bare")), environ={}, cwd="/"), "container")
    assert collected.missing["container"] == Missing("unsupported", "no /proc")


def test_the_machine_of_the_story_has_no_such_section(machine, gathered) -> None:
    collected = gathered(Host(root=str(machine("rtxpro6000x8")), environ={}, cwd="/"), "container")
    assert "container" not in collected.facts
    assert collected.missing == {}


def test_two_looks_at_this_machine_agree(gathered) -> None:
    before, after = (gathered(Host.here(), "container") for _ in range(2))
    assert (before.facts, before.missing) == (after.facts, after.missing)


def test_another_process_is_looked_at_from_outside(gathered) -> None:
    import os

    collected = gathered(Host.of_process(os.getpid()), "container")
    here = gathered(Host.here(), "container")
    assert collected.facts.get("container", {}).get("kind") == here.facts.get("container", {}).get("kind")


# -- the start -------------------------------------------------------------------------------------------------------------

STAT = "1 ({}) S 0 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 90000 0 0 18446744073709551615\n"
BOOT = 1_772_175_000  # 2026-02-27T06:50:00Z


def started(
    host: Host, program: str = "my (server) 1", boot: str = f"cpu  1 2 3\nbtime {BOOT}\nprocesses 9\n"
) -> object:
    (Path(host.root) / "proc/1").mkdir(parents=True)
    (Path(host.root) / "proc/1/stat").write_text(STAT.format(program))
    (Path(host.root) / "proc/stat").write_text(boot)
    return collect_container.collect(host)["events"]


def test_the_start_of_a_container_is_that_of_its_first_process(process) -> None:
    host = process([LAYERS, *DOCKER_FILES], "0::/", OWN)
    assert started(host) == {"2026-02-27T07:05:00Z": "container: started"}


def test_a_first_process_that_is_not_the_container_s(process) -> None:
    assert started(process([LAYERS, *DOCKER_FILES], "0::/", SHARED)) == {}


def test_the_first_process_of_a_pod_that_shares_its_processes(process) -> None:
    assert started(process([LAYERS, *POD_FILES], "0::/", OWN), program="pause") == {}


@pytest.mark.parametrize("boot", ["", "btime 0\n", "cpu 1\nbtime x\n"])
def test_a_start_that_cannot_be_told(process, boot: str) -> None:
    assert started(process([LAYERS, *DOCKER_FILES], "0::/", OWN), boot=boot) == {}
