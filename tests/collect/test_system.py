"""The system collector on recorded machines and on this one."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.machine.apt import unattended_upgrades
from envsnap.collect.machine.c_library import find_c_library
from envsnap.collect.machine.firmware import board, firmware, hypervisor, read_processor
from envsnap.collect.machine.iommu import iommu_mode, redirecting_bridges
from envsnap.collect.system import collect_system
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

PORT = "/sys/bus/pci/devices/0000:00:01.1/config"


def host_of(root, **environ: str) -> Host:
    return Host(root=str(root), environ=environ, cwd="/")


# -- recorded machines ---------------------------------------------------------------------------------------------


def test_the_machine_of_the_story(machine, gathered, reference_documents) -> None:
    collected = gathered(host_of(machine("rtxpro6000x8")), "system")
    assert collected.facts["system"] == reference_documents["rtxpro6000x8-sglang"]["system"]
    assert collected.missing == {}


def test_a_pod_sees_its_machine(machine, gathered) -> None:
    collected = gathered(host_of(machine("h100x8-kubernetes")), "system")
    facts = collected.facts["system"]
    assert facts["board"] == "Dell Inc. PowerEdge XE9680"
    assert facts["iommu"] == "passthrough"
    assert "hypervisor" not in facts
    assert "unattended_upgrades" not in facts  # nothing in an image would start them
    assert collected.missing.keys() == {"system.acs"}
    assert collected.missing["system.acs"].reason == "permission"


def test_an_old_virtual_machine(machine, gathered) -> None:
    facts = gathered(host_of(machine("docker-cgroup-v1")), "system").facts["system"]
    assert facts["hypervisor"] == "vmware"
    assert facts["libc"] == "glibc 2.17"
    assert facts["bios"] == "Phoenix Technologies LTD 6.00 2020-11-12"
    assert facts["transparent_hugepages"] == "always"
    assert facts["swap_used_mib"] == 92
    assert "numa_balancing" not in facts
    assert "smt" not in facts


def test_a_desktop(machine, gathered, reference_documents) -> None:
    facts = gathered(host_of(machine("desktop-wifi")), "system").facts["system"]
    expected = dict(reference_documents["rtx4090x2-desktop"]["system"])
    del expected["unattended_upgrades"]
    assert facts == expected


def test_without_proc_and_sys_nothing_is_claimed_and_nothing_is_called_absent(machine, gathered) -> None:
    collected = gathered(host_of(machine("bare")), "system")
    assert collected.facts["system"] == {"os": "Busy"}
    unknown = {path.removeprefix("system.") for path in collected.missing}
    assert {"kernel", "cmdline", "iommu", "acs", "bios", "board", "smt", "boot_id", "memory_total_mib"} <= unknown
    assert collected.results["system"].status == "partial"


# -- IOMMU and access control --------------------------------------------------------------------------------------


def test_redirection_that_a_reboot_switched_on(machine) -> None:
    root = machine("rtxpro6000x8", f"{PORT} : acs 0x001d", "/sys/bus/pci/devices/0000:a0:01.1/config : acs 0x0004")
    assert redirecting_bridges(host_of(root)) == ["0000:00:01.1", "0000:a0:01.1"]


@pytest.mark.parametrize("line", ["acs 0x0000", "acs 0x001b", "none"])
def test_other_switches_do_not_redirect_requests(machine, line) -> None:
    assert redirecting_bridges(host_of(machine("rtxpro6000x8", f"{PORT} : {line}"))) == []


def test_one_hidden_configuration_space_makes_the_list_unknown(machine) -> None:
    found = redirecting_bridges(host_of(machine("rtxpro6000x8", f"{PORT} : hidden")))
    assert isinstance(found, Missing)
    assert found.reason == "permission"


def test_a_conventional_bridge_has_no_such_capability(machine) -> None:
    root = machine("rtxpro6000x8")
    (root / PORT[1:]).write_bytes(bytes(256))
    assert redirecting_bridges(host_of(root)) == []


def test_a_list_of_capabilities_that_runs_in_a_circle_ends(machine) -> None:
    root = machine("rtxpro6000x8")
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")
    (root / PORT[1:]).write_bytes(bytes(space))
    assert redirecting_bridges(host_of(root)) == []


@given(space=st.binary(min_size=4096 - 0x100, max_size=4096 - 0x100))
def test_any_configuration_space_is_survived(tmp_path_factory, space) -> None:
    root = tmp_path_factory.mktemp("pci")
    folder = root / "sys/bus/pci/devices/0000:00:01.1"
    folder.mkdir(parents=True)
    (folder / "class").write_text("0x060400\n")
    (folder / "config").write_bytes(bytes(0x100) + space)
    assert redirecting_bridges(host_of(root)) in ([], ["0000:00:01.1"])


GROUP = "/sys/kernel/iommu_groups"


@pytest.mark.parametrize(
    ("lines", "cmdline", "expected"),
    [
        ([f"{GROUP}/"], "", "off"),
        ([f"{GROUP}/{{0..9}}/type = DMA"], "", "translated"),
        ([f"{GROUP}/{{0..9}}/type = identity", f"{GROUP}/10/type = DMA-FQ"], "", "passthrough"),
        ([f"{GROUP}/0/"], "ro iommu=pt quiet", "passthrough"),
        ([f"{GROUP}/0/"], "ro iommu.passthrough=1", "passthrough"),
        ([f"{GROUP}/0/"], "ro intel_iommu=on", "translated"),
        # The GPUs' own groups decide, whatever the others are.
        (
            [
                f"{GROUP}/{{0..9}}/type = identity",
                "/sys/bus/pci/drivers/nvidia/0000:06:00.0 -> ../../../../devices/pci0000:00/0000:06:00.0",
                "/sys/bus/pci/devices/0000:06:00.0/iommu_group/type = DMA",
            ],
            "",
            "translated",
        ),
    ],
)
def test_the_mode_of_the_iommu(tmp_path, put, lines, cmdline, expected) -> None:
    put(tmp_path, *lines)
    assert iommu_mode(host_of(tmp_path), cmdline) == expected


# -- firmware and processor ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sys_vendor": "Supermicro", "product_name": "AS -4124GO-NART"}, "Supermicro AS -4124GO-NART"),
        (
            {"sys_vendor": "To Be Filled By O.E.M.", "product_name": "To Be Filled By O.E.M.", "board_name": "X570"},
            "X570",
        ),
        (
            {
                "sys_vendor": "Gigabyte",
                "product_name": "Default string",
                "board_vendor": "Gigabyte",
                "board_name": "B650",
            },
            "Gigabyte B650",
        ),
        ({"sys_vendor": "NVIDIA", "product_name": "NVIDIA DGX H100"}, "NVIDIA DGX H100"),
        ({"product_name": "None", "board_name": "0000"}, None),
        ({}, None),
    ],
)
def test_the_board_without_placeholders(tmp_path, put, fields, expected) -> None:
    put(tmp_path, *(f"/sys/class/dmi/id/{name} = {value}" for name, value in fields.items()))
    assert board(host_of(tmp_path)) == expected


def test_a_machine_without_dmi_tells_its_model_in_the_device_tree(tmp_path, put) -> None:
    put(tmp_path, "/proc/device-tree/model = NVIDIA Jetson AGX Orin Developer Kit")
    assert board(host_of(tmp_path)) == "NVIDIA Jetson AGX Orin Developer Kit"
    assert firmware(host_of(tmp_path)) is None


CPU = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu vme{}\n"


@pytest.mark.parametrize(
    ("cpuinfo", "kernel", "lines", "expected"),
    [
        (CPU.format(""), "6.8.0", ["/sys/class/dmi/id/sys_vendor = Microsoft Corporation"], None),
        (CPU.format(" hypervisor"), "6.8.0", ["/sys/class/dmi/id/sys_vendor = Microsoft Corporation"], "hyperv"),
        (CPU.format(" hypervisor"), "5.15.0-1075-aws", ["/sys/class/dmi/id/sys_vendor = Amazon EC2"], "kvm"),
        (CPU.format(" hypervisor"), "6.1.0", ["/sys/class/dmi/id/bios_vendor = Google"], "kvm"),
        (
            CPU.format(" hypervisor"),
            "6.18.44",
            ["/sys/devices/system/clocksource/clocksource0/available_clocksource = tsc kvm-clock"],
            "kvm",
        ),
        (CPU.format(" hypervisor"), "6.1.0", [], "unknown"),
        (CPU.format(""), "5.15.153.1-microsoft-standard-WSL2", [], "wsl"),
        # An Arm processor does not tell whether it is a guest's.
        (
            "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
            "6.8.0",
            ["/sys/class/dmi/id/sys_vendor = Amazon EC2", "/sys/class/dmi/id/product_name = c8g.metal"],
            None,
        ),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "6.8.0", ["/sys/class/dmi/id/sys_vendor = QEMU"], "kvm"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "6.8.0", ["/sys/class/dmi/id/sys_vendor = NVIDIA"], None),
    ],
)
def test_the_hypervisor(tmp_path, put, cpuinfo, kernel, lines, expected) -> None:
    put(tmp_path, *lines, "/proc/x =")
    (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
    host = host_of(tmp_path)
    assert hypervisor(host, read_processor(host), kernel) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "Neoverse-V2"),
        ("CPU implementer\t: 0x99\nCPU part\t: 0x001\n", "Arm implementer 0x99 part 0x001"),
        ("cpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("model name\t: AMD EPYC 7R13   Processor\n", "AMD EPYC 7R13 Processor"),
    ],
)
def test_the_processors_model(tmp_path, text, expected) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert read_processor(host_of(tmp_path)).model == expected


def test_a_binary_file_names_no_processor(tmp_path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_bytes(b"\xff\xfe\0\x01:" * 9000)
    assert read_processor(host_of(tmp_path)).model.reason == "failed"


# -- the operating system ------------------------------------------------------------------------------------------


def test_a_dgx_names_its_own_release(machine, gathered) -> None:
    root = machine("rtxpro6000x8")
    (root / "etc/dgx-release").write_text(
        'DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="6.1.0"\nDGX_OTA_VERSION="6.3.0"\nDGX_OTA_VERSION="6.3.2"\n'
    )
    assert gathered(host_of(root), "system").facts["system"]["os"] == "NVIDIA DGX OS 6.3.2"


SWITCH = 'APT::Periodic::Unattended-Upgrade "{}";\n'


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"20auto-upgrades": SWITCH.format(1)}, "enabled"),
        ({"20auto-upgrades": SWITCH.format(0)}, "disabled"),
        ({"20auto-upgrades": SWITCH.format(1), "99local": SWITCH.format(0)}, "disabled"),
        ({"20auto-upgrades": SWITCH.format(0), "99local.conf": SWITCH.format(1)}, "enabled"),
        ({"20auto-upgrades": SWITCH.format(0), "99local.bak": SWITCH.format(1)}, "disabled"),
        ({"20auto-upgrades": "// " + SWITCH.format(1)}, "disabled"),
        ({"20auto-upgrades": SWITCH.format(1) + 'APT::Periodic::Enable "0";\n'}, "disabled"),
        ({"10periodic": 'APT { Periodic { Update-Package-Lists "1"; Unattended-Upgrade "1"; }; };\n'}, "enabled"),
        ({"50x": 'Unattended-Upgrade::Automatic-Reboot "true"; // Periodic\n'}, "disabled"),
        ({}, "disabled"),
    ],
)
def test_unattended_upgrades(tmp_path, put, files, expected) -> None:
    put(tmp_path, "/usr/bin/unattended-upgrade =", "/etc/apt/apt.conf.d/")
    for name, text in files.items():
        (tmp_path / "etc/apt/apt.conf.d" / name).write_text(text)
    assert unattended_upgrades(host_of(tmp_path)) == expected


def test_a_system_without_apt_upgrades_nothing(tmp_path) -> None:
    assert unattended_upgrades(host_of(tmp_path)) is None


def test_the_c_library_of_another_root(tmp_path, put) -> None:
    put(tmp_path, "/lib/ld-musl-x86_64.so.1 =")
    assert find_c_library(host_of(tmp_path)) == "musl"
    assert find_c_library(Host(environ={}, cwd="/")) == os.confstr("CS_GNU_LIBC_VERSION")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        ("proc/meminfo", "memory_total_mib"),
        ("proc/stat", "booted_at"),
        ("proc/cpuinfo", "cpu_model"),
        ("sys/devices/system/cpu/online", "cpu_count"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "transparent_hugepages"),
        ("proc/sys/vm/overcommit_memory", "overcommit"),
    ],
)
def test_a_damaged_file_costs_its_own_fact(machine, gathered, path, fact) -> None:
    root = machine("rtxpro6000x8")
    (root / path).write_bytes(b"\x00\xff garbage")
    collected = gathered(host_of(root), "system")
    assert collected.missing[f"system.{fact}"].reason == "failed"
    assert fact not in collected.facts["system"]
    assert collected.facts["system"]["kernel"] == "6.17.0-14-generic"


# -- this machine --------------------------------------------------------------------------------------------------


def test_two_takes_of_this_machine_agree_within_tolerance(gathered) -> None:
    before, after = (gathered(Host.here(), "system") for _ in range(2))
    table = FactTable(collect_system.facts)
    later = dict(leaves(after.facts))
    assert later.keys() == dict(leaves(before.facts)).keys()
    for path, value in leaves(before.facts):
        assert value == later[path] or table.find(path).tolerates(value, later[path]), path
    assert before.missing == after.missing


def test_this_machine_is_described_as_python_sees_it(gathered) -> None:
    facts = gathered(Host.here(), "system").facts["system"]
    assert facts["kernel"] == os.uname().release
    assert facts["arch"] == os.uname().machine
    assert facts["cpu_count"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert facts["libc"] == os.confstr("CS_GNU_LIBC_VERSION")
    assert facts["booted_at"] < datetime.now(UTC)
