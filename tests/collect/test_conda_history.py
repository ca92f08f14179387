"""conda-meta/history: what conda did to the environment of the server, and when."""

from __future__ import annotations

import datetime
import os

import pytest
from environments import Environment

AT = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(days=2)
HISTORY = """==> 2020-02-27 06:52:11 <==
# cmd: /opt/conda/bin/conda create -n serving python=3.12
# conda version: 4.8.2
+defaults::pytorch-1.4.0-py3.7_cuda10.1.243_cudnn7.6.3_0
==> {at} <==
# cmd: /opt/conda/bin/conda install -y pytorch --token hunter2
# conda version: 24.9.2
-conda-forge/linux-64::nccl-2.27.7.1-h03a54cd_0
-conda-forge/linux-64::pytorch-2.5.1-cuda126_py312_hf6d1b7f_301
-conda-forge/linux-64::zlib-1.3.1-hb9d3cd8_2
+conda-forge/linux-64::nccl-2.27.7.1-h03a54cd_1
+conda-forge/linux-64::pytorch-2.6.0-cuda126_py312_h30b5a27_300
+conda-forge/linux-64::libcublas-12.6.4.1-h9ab20c4_0
+conda-forge/linux-64::zlib-1.3.2-hb9d3cd8_0
+conda-forge/noarch::python-dateutil-2.9.0-pyhd8ed1ab_1
# update specs: ["pytorch"]
"""


@pytest.fixture
def told(tmp_path, gathered, monkeypatch):
    def read(history: str | None) -> dict[str, str]:
        environment = Environment(tmp_path)
        meta = environment.prefix / "conda-meta"
        meta.mkdir()
        if history is not None:
            (meta / "history").write_text(history)
        return gathered(environment.host(), "packages").facts.get("events", {})

    monkeypatch.setitem(os.environ, "TZ", "UTC")
    return read


def test_a_revision_that_changed_the_stack(told) -> None:
    assert told(HISTORY.format(at=AT.strftime("%Y-%m-%d %H:%M:%S"))) == {
        AT.strftime("%Y-%m-%dT%H:%M:%SZ"): "conda: upgraded pytorch 2.5.1 → 2.6.0; installed libcublas 12.6.4.1"
    }


@pytest.mark.parametrize("history", [None, "", "==> \n+\n-x\n+a::b-c\n", "==> 2026-99-99 x <==\n+a::pytorch-1-2\n"])
def test_a_history_that_tells_nothing(told, history: str | None) -> None:
    assert told(history) == {}
