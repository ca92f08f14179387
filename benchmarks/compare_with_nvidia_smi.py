"""Compare what a snapshot says of the GPUs with what nvidia-smi says, fact by fact.

    nvidia-smi -q -x > query.xml; nvidia-smi topo -m > topology.txt; envsnap take --stdout > snapshot.toml
    python benchmarks/compare_with_nvidia_smi.py snapshot.toml query.xml topology.txt

Prints one line a kind of fact (on how many GPUs it agrees) and each difference; ends with 1 where there is one. What
both sides leave out is no difference; what drifts on an idle machine has the tolerance that envsnap declares.
"""

from __future__ import annotations

import re
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envsnap.collect.registry import fact_table
from envsnap.facts import look_up, split_path
from envsnap.paths import join_path

NOT_THERE = ("N/A", "[N/A]", "[Not Supported]", "Requested functionality has been deprecated", "")
THROTTLE = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications-clocks",
    "sw_power_cap": "sw-power-cap",
    "hw_slowdown": "hw-slowdown",
    "sync_boost": "sync-boost",
    "sw_thermal_slowdown": "sw-thermal-slowdown",
    "hw_thermal_slowdown": "hw-thermal-slowdown",
    "hw_power_brake_slowdown": "hw-power-brake",
    "display_clocks_setting": "display-clocks",
}

Facts = dict[tuple[str, ...], Any]


def main(arguments: list[str]) -> int:
    """Compare three files; 1 where they differ."""
    snapshot = tomllib.loads(Path(arguments[0]).read_text())
    told = facts_of_query(Path(arguments[1]).read_text())
    if len(arguments) > 2:
        told |= facts_of_topology(Path(arguments[2]).read_text(), snapshot)
    differing = differences(snapshot, told)
    print_table(snapshot, told, {path for path, _, _ in differing})
    for path, ours, theirs in differing:
        print(f"differs: {join_path(path)}: envsnap {ours!r}, nvidia-smi {theirs!r}")
    print(f"{len(told)} facts compared, {len(differing)} differ")
    return 1 if differing else 0


def print_table(snapshot: dict[str, Any], told: Facts, differing: set[tuple[str, ...]]) -> None:
    """One line a kind of fact: how many GPUs (or pairs) agree, and on how many neither side has it."""
    compared, absent, wrong = Counter[str](), Counter[str](), Counter[str]()
    for path, value in told.items():
        kind = ".".join((path[0], path[-1])) if path[0] == "gpu" else ".".join(path[:2])
        compared[kind] += 1
        absent[kind] += value is None and look_up(snapshot, path) is None
        wrong[kind] += path in differing
    width = max(map(len, compared), default=0)
    print(f"{'fact':{width}}  compared  neither has it  differ")
    for kind in sorted(compared):
        print(f"{kind:{width}}  {compared[kind]:8}  {absent[kind]:14}  {wrong[kind]:6}")


def differences(snapshot: dict[str, Any], told: Facts) -> list[tuple[tuple[str, ...], Any, Any]]:
    """The facts on which both sides disagree, as (path, ours, theirs)."""
    table = fact_table()
    found = []
    for path, theirs in told.items():
        ours = look_up(snapshot, path)
        spec = table.find(path)
        room = spec.tolerance if spec is not None else 0
        if isinstance(ours, int) and isinstance(theirs, int) and abs(ours - theirs) <= room:
            continue
        if ours != theirs:
            found.append((path, ours, theirs))
    return found


# -- nvidia-smi -q -x --------------------------------------------------------------------------------------------------


def facts_of_query(xml: str) -> Facts:
    """The facts of `nvidia-smi -q -x`, under the paths of the snapshot; None for what it calls not available."""
    log = ET.fromstring(xml)
    facts: Facts = {
        ("driver", "version"): text(log, "driver_version"),
        ("driver", "cuda_version"): text(log, "cuda_version"),
        ("gpus", "count"): number(log, "attached_gpus"),
    }
    for gpu in log.findall("gpu"):
        key = (text(gpu, "uuid") or "").removeprefix("GPU-")[:8].lower()
        for name, value in facts_of_gpu(gpu):
            facts["gpu", key, *split_path(name)] = value
    return facts


def facts_of_gpu(gpu: ET.Element) -> Iterator[tuple[str, Any]]:
    """One GPU's facts by name; elements that this release of nvidia-smi does not have are left out."""
    for name, (paths, read) in ELEMENTS.items():
        element = next((found for path in paths if (found := gpu.find(path)) is not None), None)
        if element is not None:
            words = (element.text or "").strip()
            yield name, None if words in NOT_THERE else read(words)
    yield from _rows(gpu)
    yield from _fabric(gpu)
    reasons = gpu.find("clocks_event_reasons")
    reasons = gpu.find("clocks_throttle_reasons") if reasons is None else reasons
    if reasons is not None:
        active = {re.sub(r"^clocks_(event|throttle)_reason_", "", reason.tag) for reason in reasons if _is_on(reason)}
        yield "throttle", sorted(THROTTLE[reason] for reason in active if reason in THROTTLE)
    for process in gpu.findall("processes/process_info"):
        yield f"process.{text(process, 'pid')}.used_mib", number(process, "used_memory")


def _rows(gpu: ET.Element) -> Iterator[tuple[str, Any]]:
    rows = gpu.find("remapped_rows")
    if rows is None or text(rows, "remapped_row_corr") is None:
        return
    yield "remapped_rows", (number(rows, "remapped_row_corr") or 0) + (number(rows, "remapped_row_unc") or 0)
    yield "remap_pending", text(rows, "remapped_row_pending") == "Yes"
    yield "remap_failed", text(rows, "remapped_row_failure") == "Yes"


def _fabric(gpu: ET.Element) -> Iterator[tuple[str, Any]]:
    state, status = text(gpu, "fabric/state"), text(gpu, "fabric/status")
    if gpu.find("fabric/state") is None:
        return
    word = state.lower().replace(" ", "-") if state and state != "Not Supported" else None
    yield "fabric_state", "failed" if word == "completed" and status != "Success" else word
    cluster = text(gpu, "fabric/clusterUuid")
    has_cluster = word is not None and cluster is not None and set(cluster) - set("0-")
    yield "fabric_clique", number(gpu, "fabric/cliqueId") if has_cluster else None
    yield "fabric_cluster", cluster if has_cluster else None


def _is_on(element: ET.Element) -> bool:
    return (element.text or "").strip() == "Active"


def text(element: ET.Element, path: str) -> str | None:
    """The text at a path; None where it is not there or not available."""
    words = (element.findtext(path) or "").strip()
    return None if words in NOT_THERE else words


def number(element: ET.Element, path: str) -> int | None:
    """The whole number at a path, whatever its unit."""
    words = text(element, path)
    return None if words is None else whole(words)


def whole(words: str) -> int:
    """`97887 MiB`, `600.00 W`, `16x` as a whole number."""
    return round(float(re.match(r"[\d.]+", words)[0]))  # type: ignore[index]


def lowered(words: str) -> str:
    """`Exclusive_Process` as `exclusive-process`."""
    return words.lower().replace("_", "-").replace(" ", "-")


def pci(words: str) -> str:
    """`00000000:06:00.0` as `0000:06:00.0`."""
    domain, _, rest = words.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def same(words: str) -> str:
    """The words themselves."""
    return words


ELEMENTS: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "uuid": (("uuid",), same),
    "name": (("product_name",), same),
    "serial": (("serial",), same),
    "vbios": (("vbios_version",), same),
    "gsp_firmware": (("gsp_firmware_version",), same),
    "minor": (("minor_number",), whole),
    "pci": (("pci/pci_bus_id",), pci),
    "memory_total_mib": (("fb_memory_usage/total",), whole),
    "memory_reserved_mib": (("fb_memory_usage/reserved",), whole),
    "memory_used_mib": (("fb_memory_usage/used",), whole),
    "memory_free_mib": (("fb_memory_usage/free",), whole),
    "bar1_total_mib": (("bar1_memory_usage/total",), whole),
    "persistence": (("persistence_mode",), lowered),
    "compute_mode": (("compute_mode",), lowered),
    "addressing_mode": (("addressing_mode",), lowered),
    "mig_mode": (("mig_mode/current_mig",), lowered),
    "mig_mode_pending": (("mig_mode/pending_mig",), lowered),
    "ecc_mode": (("ecc_mode/current_ecc",), lowered),
    "ecc_mode_pending": (("ecc_mode/pending_ecc",), lowered),
    "recovery_action": (("gpu_recovery_action",), lowered),
    "power_limit_w": (("gpu_power_readings/current_power_limit", "power_readings/power_limit"), whole),
    "power_default_w": (("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"), whole),
    "pcie_gen_max": (("pci/pci_gpu_link_info/pcie_gen/max_link_gen",), whole),
    "pcie_width_max": (("pci/pci_gpu_link_info/link_widths/max_link_width",), whole),
    "pcie_width": (("pci/pci_gpu_link_info/link_widths/current_link_width",), whole),
}
"""Where nvidia-smi tells a fact, the newer place first, and how its words are read."""


# -- nvidia-smi topo -m ------------------------------------------------------------------------------------------------


def facts_of_topology(matrix: str, snapshot: dict[str, Any]) -> Facts:
    """The cells of `nvidia-smi topo -m` as facts; its GPU numbers are resolved by the snapshot's indices."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", matrix)
    keys = {
        f"GPU{gpu['index']}": key
        for key, gpu in snapshot.get("gpu", {}).items()
        if "index" in gpu and "parent" not in gpu
    }
    names = keys | dict(re.findall(r"^\s*(NIC\d+): (\S+)$", plain, re.MULTILINE))
    lines = [line for line in plain.splitlines() if line.strip()]
    head = re.split(r"\t+|\s{2,}", lines[0].strip())
    columns = [name for name in head if re.fullmatch(r"(?:GPU|NIC)\d+", name)]
    facts: Facts = {}
    for line in lines[1:]:
        row, *cells = [cell.strip() for cell in re.split(r"\t+|\s{2,}", line.strip())]
        if row not in names or len(cells) < len(columns):
            continue
        for column, cell in zip(columns, cells, strict=False):
            path = _cell(row, column, names)
            if path:
                facts[path] = cell
        if row.startswith("GPU") and "CPU Affinity" in head and len(cells) > len(columns):
            affinity = cells[len(columns)]
            facts["topology", "cpu_affinity", names[row]] = None if affinity in NOT_THERE else affinity
    return facts


def _cell(row: str, column: str, names: dict[str, str]) -> tuple[str, ...] | None:
    """The path of a cell; each pair of GPUs once, the smaller key first; NICs by GPU."""
    if row == column or column not in names:
        return None
    one, other = names[row], names[column]
    if row.startswith("GPU") and column.startswith("GPU"):
        return ("topology", "link", one, other) if one < other else None
    if row.startswith("NIC") and column.startswith("GPU"):
        return ("topology", "nic", one, other)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
