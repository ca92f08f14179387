"""The store in which history is measured is one that envsnap itself could have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsnap.cli.output import this_host
from envsnap.heads import read_head
from envsnap.refs import Resolver, load_file
from envsnap.store import Store


def test_snapshots_of_a_long_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import histories

    monkeypatch.setattr(histories, "WHOLE", 10)
    histories.long_history(tmp_path, 14)
    entries = list(Store(str(tmp_path)).entries())
    assert len(entries) == 14
    here = Resolver(Store(str(tmp_path)), this_host(), lambda: histories.NEWEST)
    newest = [read_head(entry.path).status for entry in here.of_this_host()][:2]
    assert newest == ["bad", "good"]
    environments = set()
    for place, entry in enumerate(entries):
        snapshot = load_file(entry.path)
        assert snapshot.id.startswith(entry.short)
        assert ("packages" in snapshot.facts) == (place < 10)
        assert snapshot.meta["digests"].keys() == snapshot.facts.keys()
        environments.add(snapshot.meta["fingerprint"])
    assert len(environments) > 3
