"""Which reader a line is for: each is asked in turn, the specific ones before the general ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest.check_env import CheckEnvReader
from envsnap.ingest.collect_env import CollectEnvReader
from envsnap.ingest.env_listing import EnvReader
from envsnap.ingest.error_texts import ErrorReader
from envsnap.ingest.flashinfer_report import FlashinferReader
from envsnap.ingest.json_texts import JsonReader
from envsnap.ingest.launch_commands import LaunchCommandReader
from envsnap.ingest.lock_files import LockReader
from envsnap.ingest.lscpu import LscpuReader
from envsnap.ingest.nccl_log import NcclReader
from envsnap.ingest.own_report import OwnReportReader
from envsnap.ingest.pip_show import PipShowReader
from envsnap.ingest.pip_texts import PipReader
from envsnap.ingest.prose import ProseReader
from envsnap.ingest.sglang_log import SglangLogReader
from envsnap.ingest.smi_list import SmiListReader
from envsnap.ingest.smi_query import SmiQueryReader, SmiXmlReader
from envsnap.ingest.smi_table import SmiTableReader
from envsnap.ingest.topo_matrix import TopologyReader
from envsnap.ingest.transformers_env import TransformersEnvReader
from envsnap.ingest.version_lines import VersionLineReader
from envsnap.ingest.vllm_log import VllmLogReader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings
    from envsnap.ingest.reader import Reader

READERS: tuple[type[Reader], ...] = (
    JsonReader, OwnReportReader, LaunchCommandReader,
    SmiXmlReader, NcclReader, SglangLogReader, VllmLogReader, LockReader, SmiQueryReader, SmiTableReader,
    TopologyReader, SmiListReader, VersionLineReader, TransformersEnvReader, FlashinferReader, EnvReader,
    CollectEnvReader,
    CheckEnvReader, LscpuReader, PipShowReader, PipReader, ErrorReader, ProseReader,
)  # fmt: skip
"""All formats, in the order in which a line is offered to them."""

_REQUIREMENTS = re.compile(r"(?:requirements|constraints)[\w.-]*\.(?:txt|in)$|requirements/[\w.-]+\.txt$")


class Router:
    """All readers of one text."""

    def __init__(self, findings: Findings, name: str = "") -> None:
        self.findings = findings
        self.readers = [reader(findings) for reader in READERS]
        self._json = next(reader for reader in self.readers if isinstance(reader, JsonReader))
        self._others = [(reader.longest, reader.read) for reader in self.readers if reader is not self._json]
        self.skipped = 0
        """How often lines of a long log were passed over."""
        if _REQUIREMENTS.search(name):
            for reader in self.readers:
                if isinstance(reader, PipReader):
                    reader.expect_requirements()

    def signs(self) -> tuple[str, ...]:
        """The signs of all readers."""
        return tuple(dict.fromkeys(sign for reader in self.readers for sign in reader.signs))

    @property
    def is_open(self) -> bool:
        """Whether a reader waits for the next line."""
        return any(reader.is_open for reader in self.readers)

    def read(self, line: Line) -> None:
        """Offer a line to the readers; one that is nobody's is counted as other text."""
        json = self._json
        is_json = json.read(line)
        if json.returned:
            self._return()
        if not is_json and not self._offer(line) and line.bare and line.bare.strip("=-+|_ "):
            self.findings.unread("other text", line.number, line.bare)

    def _offer(self, line: Line) -> bool:
        length = len(line.text)
        for longest, read in self._others:  # noqa: SIM110 - each line of a paste comes by here
            if length <= longest and read(line):
                return True
        return False

    def _return(self) -> None:
        """Offer the lines of what was no JSON document to the other readers."""
        lines, self._json.returned = self._json.returned, []
        for line in lines:
            self._offer(line)

    def skip(self) -> None:
        """Lines are passed over: whatever is open ends here."""
        self.skipped += 1
        self.close()

    def close(self) -> None:
        """The text ended, or a part of it."""
        self._json.close()
        self._return()
        for reader in self.readers:
            reader.close()
