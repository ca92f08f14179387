"""The declared facts of the sections gpu, gpus and topology, and of driver what NVML tells."""

from __future__ import annotations

from envsnap.facts import IDENTITY, STATE, VOLATILE, FactSpec

MEMORY_NOISE_MIB = 300
"""What comes and goes on an idle machine: a desktop's windows, a monitoring agent's context."""

_GPUS = [
    FactSpec("gpus.count", IDENTITY, "integer", "GPUs that NVML lists and opens", weight=8),
    FactSpec(
        "gpus.pci_count",
        IDENTITY,
        "integer",
        "NVIDIA GPUs on the PCI bus, from sysfs, whatever driver they have; 0 on WSL",
        weight=5,
    ),
    FactSpec(
        "gpus.visible",
        IDENTITY,
        "sequence",
        "Keys of the GPUs that CUDA numbers 0, 1, ... after CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER",
        weight=7,
    ),
    FactSpec("gpus.visible_count", IDENTITY, "integer", "How many GPUs CUDA would find", weight=7),
    FactSpec(
        "gpus.min_free_mib",
        STATE,
        "integer",
        "The least free memory among the visible GPUs in MiB, from NVML",
        tolerance=MEMORY_NOISE_MIB,
        weight=4,
    ),
]

_IDENTITY = [
    FactSpec(
        "gpu.*.uuid",
        IDENTITY,
        "string",
        "The GPU's or MIG device's UUID, from NVML or the driver's /proc tree",
        weight=6,
    ),
    FactSpec("gpu.*.name", IDENTITY, "string", "The product's name, from NVML or the driver's /proc tree", weight=6),
    FactSpec("gpu.*.pci", IDENTITY, "string", "The PCI address, `0000:06:00.0`", weight=2),
    FactSpec("gpu.*.compute_capability", IDENTITY, "version", "The CUDA compute capability, `12.0`", weight=6),
    FactSpec(
        "gpu.*.memory_total_mib",
        IDENTITY,
        "integer",
        "The memory's size in MiB, from NVML; absent on parts that share the system's memory",
        weight=5,
    ),
    FactSpec(
        "gpu.*.bar1_total_mib",
        IDENTITY,
        "integer",
        "The size of the window into the GPU's memory in MiB, from NVML: small without resizable BAR",
        weight=4,
    ),
    FactSpec(
        "gpu.*.vbios", IDENTITY, "version", "The video BIOS version, from NVML or the driver's /proc tree", weight=4
    ),
    FactSpec(
        "gpu.*.gsp_firmware",
        IDENTITY,
        "version",
        "The firmware that runs on the GPU's system processor; absent where it is off",
        weight=4,
    ),
    FactSpec("gpu.*.numa_node", IDENTITY, "integer", "The NUMA node that the GPU hangs on, from sysfs", weight=3),
    FactSpec(
        "gpu.*.memory_numa_node",
        IDENTITY,
        "integer",
        "The NUMA node that the GPU's own memory is, on Grace, from NVML",
        weight=3,
    ),
    FactSpec("gpu.*.parent", IDENTITY, "string", "The key of the GPU that a MIG device is a part of", weight=2),
    FactSpec("gpu.*.ecc_mode", IDENTITY, "string", "Error correction: enabled or disabled, from NVML", weight=4),
    FactSpec("gpu.*.mig_mode", IDENTITY, "string", "Multi-instance mode: enabled or disabled, from NVML", weight=7),
    FactSpec(
        "gpu.*.mig_profiles",
        IDENTITY,
        "sequence",
        "The profiles of the GPU's MIG devices, sorted, one entry a device",
        weight=6,
    ),
    FactSpec(
        "gpu.*.compute_mode",
        IDENTITY,
        "string",
        "Who may compute: default, exclusive-process, exclusive-thread or prohibited, from NVML",
        weight=6,
    ),
    FactSpec(
        "gpu.*.addressing_mode",
        IDENTITY,
        "string",
        "How the GPU reaches the system's memory: none, hmm or ats, from NVML (driver 570 and newer)",
        weight=4,
    ),
    FactSpec(
        "gpu.*.pcie_gen_max",
        IDENTITY,
        "integer",
        "The highest PCIe generation of this GPU in this slot, from NVML",
        weight=4,
    ),
    FactSpec(
        "gpu.*.pcie_width_max",
        IDENTITY,
        "integer",
        "The highest number of PCIe lanes of this GPU in this slot, from NVML",
        weight=4,
    ),
    FactSpec(
        "gpu.*.nvlinks_active",
        IDENTITY,
        "integer",
        "NVLinks that are up, from NVML; absent on GPUs without NVLink",
        weight=7,
    ),
    FactSpec(
        "gpu.*.power_default_w",
        IDENTITY,
        "integer",
        "The power limit that the GPU was made with in watts, from NVML",
        weight=2,
    ),
]

_STATE = [
    FactSpec(
        "gpu.*.index",
        STATE,
        "integer",
        "The GPU's number in NVML and nvidia-smi, or a MIG device's in its GPU",
        weight=2,
    ),
    FactSpec("gpu.*.minor", STATE, "integer", "The number in the device node's name, /dev/nvidiaN", weight=1),
    FactSpec(
        "gpu.*.serial", STATE, "string", "The board's serial number, from NVML; GeForce boards have none", weight=2
    ),
    FactSpec(
        "gpu.*.ecc_mode_pending",
        STATE,
        "string",
        "The error correction after the next reset: enabled or disabled, from NVML",
        weight=3,
    ),
    FactSpec(
        "gpu.*.mig_mode_pending",
        STATE,
        "string",
        "The multi-instance mode after the next reset: enabled or disabled, from NVML",
        weight=4,
    ),
    FactSpec(
        "gpu.*.persistence",
        STATE,
        "string",
        "Whether the driver keeps the GPU awake without users: enabled or disabled, from NVML",
        weight=2,
    ),
    FactSpec("gpu.*.power_limit_w", STATE, "integer", "The power limit that is set in watts, from NVML", weight=3),
    FactSpec(
        "gpu.*.pcie_width",
        STATE,
        "integer",
        "PCIe lanes in use, from NVML; unlike the generation, idle GPUs keep them",
        weight=5,
    ),
    FactSpec(
        "gpu.*.fabric_state",
        STATE,
        "string",
        "Registration with the NVLink fabric: not-started, in-progress, completed, or failed where it completed "
        "with an error; from NVML",
        weight=7,
    ),
    FactSpec(
        "gpu.*.fabric_clique",
        STATE,
        "integer",
        "The clique in the rack's NVLink cluster, from NVML; absent outside a cluster",
        weight=4,
    ),
    FactSpec(
        "gpu.*.fabric_cluster",
        STATE,
        "string",
        "The UUID of the rack's NVLink cluster, from NVML; absent outside a cluster",
        weight=4,
    ),
    FactSpec(
        "gpu.*.ecc_uncorrected", STATE, "integer", "Uncorrected memory errors in the GPU's life, from NVML", weight=7
    ),
    FactSpec("gpu.*.ecc_corrected", STATE, "integer", "Corrected memory errors in the GPU's life, from NVML", weight=1),
    FactSpec(
        "gpu.*.xid_last",
        STATE,
        "integer",
        "The number of the GPU's latest Xid error since boot, from the kernel log; absent without one",
        weight=7,
    ),
    FactSpec(
        "gpu.*.remapped_rows",
        STATE,
        "integer",
        "Memory rows replaced in the GPU's life, from NVML; Ampere and newer, not while MIG is on",
        weight=4,
    ),
    FactSpec(
        "gpu.*.remap_pending",
        STATE,
        "boolean",
        "Whether a row (before Ampere: page) waits for the next reset to be replaced, from NVML",
        weight=7,
    ),
    FactSpec(
        "gpu.*.remap_failed",
        STATE,
        "boolean",
        "Whether a row could not be replaced: the board has to be, from NVML",
        weight=8,
    ),
    FactSpec(
        "gpu.*.recovery_action",
        STATE,
        "string",
        "What the GPU needs to recover: none, gpu-reset, node-reboot, drain-p2p, drain-and-reset ..., from NVML",
        weight=8,
    ),
    FactSpec("gpu.*.throttle", STATE, "set", "Why the clocks are lowered, from NVML; `idle` is no trouble", weight=3),
    FactSpec(
        "gpu.*.memory_used_mib",
        STATE,
        "integer",
        "Memory in use in MiB, from NVML; before driver 510 with what is reserved",
        tolerance=MEMORY_NOISE_MIB,
        weight=4,
    ),
    FactSpec(
        "gpu.*.memory_free_mib", STATE, "integer", "Free memory in MiB, from NVML", tolerance=MEMORY_NOISE_MIB, weight=4
    ),
    FactSpec(
        "gpu.*.memory_reserved_mib",
        STATE,
        "integer",
        "Memory that the driver keeps for itself in MiB, from NVML",
        tolerance=MEMORY_NOISE_MIB,
        weight=2,
    ),
    FactSpec(
        "gpu.*.memory_unaccounted_mib",
        STATE,
        "integer",
        "Used memory in MiB that no process of NVML's lists holds: of another container or left behind",
        tolerance=MEMORY_NOISE_MIB,
        weight=5,
    ),
    FactSpec(
        "gpu.*.process.*.name",
        STATE,
        "string",
        "The first word of the command of a process that uses the GPU, its short name in state D; from /proc",
        weight=3,
    ),
    FactSpec(
        "gpu.*.process.*.used_mib",
        STATE,
        "integer",
        "The GPU memory that a process holds in MiB, from NVML",
        tolerance=MEMORY_NOISE_MIB,
        weight=3,
    ),
    FactSpec("gpu.*.process.*.user", STATE, "string", "The owner of a process that uses the GPU, from /proc", weight=1),
    FactSpec(
        "gpu.*.process.*.state",
        STATE,
        "string",
        "The kernel's letter for the state of a process that uses the GPU: D cannot be killed, Z is dead",
        weight=1,
    ),
]

_PRESENT = [
    FactSpec("gpu.*.temperature_c", VOLATILE, "integer", "The GPU's temperature in °C, from NVML"),
    FactSpec("gpu.*.sm_clock_mhz", VOLATILE, "integer", "The clock of the multiprocessors in MHz, from NVML"),
    FactSpec("gpu.*.power_w", VOLATILE, "integer", "The power that the GPU draws in watts, from NVML"),
    FactSpec("gpu.*.utilization", VOLATILE, "integer", "Per cent of the last moments in which a kernel ran, from NVML"),
    FactSpec("gpu.*.pcie_gen", VOLATILE, "integer", "The PCIe generation in use, from NVML: 1 on many idle GPUs"),
    FactSpec("gpu.*.performance_state", VOLATILE, "string", "The performance state, P0 (highest) to P15, from NVML"),
]

_TOPOLOGY = [
    FactSpec(
        "topology.link.*.*",
        IDENTITY,
        "string",
        "The link class of two GPUs as `nvidia-smi topo -m` shows it: NV#, PIX, PXB, PHB, NODE or SYS",
        weight=7,
    ),
    FactSpec(
        "topology.p2p.*.*",
        IDENTITY,
        "string",
        "Whether two GPUs may access each other's memory both ways: ok, or what forbids it; from NVML",
        weight=7,
    ),
    FactSpec(
        "topology.nic.*.*",
        IDENTITY,
        "string",
        "The link class of an RDMA device and a GPU, from their PCI paths in sysfs",
        weight=5,
    ),
    FactSpec(
        "topology.cpu_affinity.*", IDENTITY, "string", "The CPUs near a GPU, `0-63,128-191`, from sysfs", weight=3
    ),
]

_DRIVER = [
    FactSpec(
        "driver.status",
        STATE,
        "string",
        "Whether NVML answers: ok, not-loaded, mismatch, no-library, no-permission or hung",
        weight=9,
    ),
    FactSpec(
        "driver.cuda_version",
        IDENTITY,
        "version",
        "The highest CUDA version that the driver speaks, from NVML",
        weight=7,
    ),
    FactSpec(
        "driver.nvml_version",
        IDENTITY,
        "version",
        "The libnvidia-ml that programs get, from NVML or the file behind libnvidia-ml.so.1",
        weight=6,
    ),
]

FACTS = [*_GPUS, *_IDENTITY, *_STATE, *_PRESENT, *_TOPOLOGY, *_DRIVER]
