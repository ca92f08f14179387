from __future__ import annotations

from envsnap.ingest import read_text

TEXT = """\
==============NVSMI LOG==============

Timestamp                                 : Wed Jan 14 15:17:09 2026
Driver Version                            : 580.105.06
CUDA Version                              : Not Found
vGPU Driver Capability
        Heterogenous Multi-vGPU           : Supported

Attached GPUs                             : 2
GPU 00000000:0A:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    Addressing Mode                       : HMM
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    Serial Number                         : 1652923032218
    GPU UUID                              : GPU-072b19bd-4ccf-63cf-6435-cf462aff833d
    Minor Number                          : 5
    VBIOS Version                         : 96.00.74.00.0D
    GSP Firmware Version                  : 580.105.06
    PCI
        Bus Id                            : 00000000:0A:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 4
                Device Max                : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
    Performance State                     : P0
    Clocks Throttle Reasons
        Idle                              : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 3 MiB
        Free                              : 81006 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Compute Mode                          : Exclusive_Process
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : Yes
    Temperature
        GPU Current Temp                  : 34 C
    GPU Power Readings
        Average Power Draw                : 73.12 W
        Instantaneous Power Draw          : 75.00 W
        Current Power Limit               : 700.00 W
        Default Power Limit               : N/A
    Clocks
        SM                                : 345 MHz
    Fabric
        State                             : Completed
        CliqueId                          : 0
    Processes
        Process ID                        : 4321
            Type                          : C
            Name                          : python3
            Used GPU Memory               : 512 MiB
GPU 00000000:18:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-172b19bd-4ccf-63cf-6435-cf462aff833d
    Processes                             : None

Name: something else
"""

XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<driver_version>580.105.06</driver_version>
\t<cuda_version>13.0</cuda_version>
\t<attached_gpus>1</attached_gpus>
\t<gpu id="00000000:0A:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode>
\t\t\t<current_mig>Disabled</current_mig>
\t\t\t<pending_mig>Enabled</pending_mig>
\t\t</mig_mode>
\t\t<uuid>GPU-072b19bd-4ccf-63cf-6435-cf462aff833d</uuid>
\t\t<vbios_version>96.00.74.00.0D</vbios_version>
\t\t<pci>
\t\t\t<pci_bus_id>00000000:0A:00.0</pci_bus_id>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<pcie_gen>
\t\t\t\t\t<max_link_gen>5</max_link_gen>
\t\t\t\t\t<current_link_gen>4</current_link_gen>
\t\t\t\t</pcie_gen>
\t\t\t\t<link_widths>
\t\t\t\t\t<max_link_width>16x</max_link_width>
\t\t\t\t\t<current_link_width>8x</current_link_width>
\t\t\t\t</link_widths>
\t\t\t</pci_gpu_link_info>
\t\t</pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
\t\t\t<clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage>
\t\t\t<total>81559 MiB</total>
\t\t\t<used>3 MiB</used>
\t\t</fb_memory_usage>
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<pid>77</pid>
\t\t\t\t<process_name>a &amp; b</process_name>
\t\t\t\t<used_memory>10 MiB</used_memory>
\t\t\t</process_info>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""


def test_the_tree_as_text() -> None:
    document = read_text(TEXT).document
    assert document["driver"] == {"version": "580.105.06"}
    assert document["gpus"] == {"count": 2}
    assert document["gpu"]["072b19bd"] == {
        "pci": "0000:0a:00.0", "index": 0, "name": "NVIDIA H100 80GB HBM3", "persistence": "enabled",
        "addressing_mode": "hmm", "mig_mode": "disabled", "mig_mode_pending": "enabled", "serial": "1652923032218",
        "uuid": "GPU-072b19bd-4ccf-63cf-6435-cf462aff833d", "minor": 5, "vbios": "96.00.74.00.0D",
        "gsp_firmware": "580.105.06", "pcie_gen_max": 5, "pcie_gen": 4, "pcie_width_max": 16, "pcie_width": 8,
        "performance_state": "P0", "throttle": ["hw-slowdown", "idle"], "memory_total_mib": 81559,
        "memory_reserved_mib": 551, "memory_used_mib": 3, "memory_free_mib": 81006, "bar1_total_mib": 131072,
        "compute_mode": "exclusive-process", "ecc_mode": "enabled", "ecc_mode_pending": "enabled",
        "remap_pending": False, "remap_failed": True, "temperature_c": 34, "power_w": 73, "power_limit_w": 700,
        "sm_clock_mhz": 345, "fabric_state": "completed", "fabric_clique": 0,
        "process": {"4321": {"name": "python3", "used_mib": 512}},
    }  # fmt: skip
    assert document["gpu"]["172b19bd"]["index"] == 1


def test_the_tree_as_xml() -> None:
    document = read_text(XML).document
    assert document["driver"] == {"version": "580.105.06", "cuda_version": "13.0"}
    gpu = document["gpu"]["072b19bd"]
    assert gpu["index"] == 0
    assert (gpu["pcie_gen_max"], gpu["pcie_width"], gpu["throttle"]) == (5, 8, ["idle"])
    assert (gpu["mig_mode"], gpu["mig_mode_pending"], gpu["memory_total_mib"]) == ("disabled", "enabled", 81559)
    assert gpu["process"] == {"77": {"name": "a & b", "used_mib": 10}}


def test_a_list_of_reasons_that_is_cut_off_is_not_believed() -> None:
    head = TEXT[: TEXT.index("        HW Slowdown")]
    assert "throttle" not in read_text(head).document["gpu"]["072b19bd"]


def test_one_gpu_of_several_is_not_numbered() -> None:
    text = TEXT[: TEXT.index("GPU 00000000:18:00.0")]
    assert "index" not in read_text(text).document["gpu"]["072b19bd"]


def test_a_line_of_a_library_between_two_lines_ends_nothing() -> None:
    document = read_text(
        "==============NVSMI LOG==============\n\nDriver Version                            : 535.86.10\n"
        "[HAMI-core Msg(571:1400:libvgpu.c:836)]: Initializing.....\nCUDA Version                              : 12.2\n\n"
        "Attached GPUs                             : 1\nGPU 00000000:AF:00.0\n"
        "    Product Name                          : Tesla V100-PCIE-16GB\n"
    ).document
    assert document["driver"] == {"version": "535.86.10", "cuda_version": "12.2"}
    assert document["gpu"]["pci-0000-af-00-0"]["name"] == "Tesla V100-PCIE-16GB"
