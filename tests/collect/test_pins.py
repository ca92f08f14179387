"""What frameworks declare that they need; packaging is the oracle."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import pytest
from environments import Environment
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from envsnap.collect.installed import markers
from envsnap.collect.installed.distributions import Distribution
from envsnap.collect.installed.markers import holds, marker_environment
from envsnap.collect.installed.requirements import read_requirements
from envsnap.host import Host

MACHINE = os.uname().machine


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path)


def pins(environment, gathered, name, *requires):
    environment.install(name, requires=requires)
    return gathered(environment.host(), "packages").facts["pins"][name]


def test_versions_are_written_from_the_lower_bound_to_the_upper(environment, gathered):
    requires = (
        "transformers<5.21.0,>=5.16.1",
        "protobuf!=6.30.*,!=6.31.*,>=5.29.6",
        "Flash_Attn.4 (>=4.0.0b18)",
        "mistral_common[image,audio] >= 1.11 , < 2",
        "numba===0.65.1",
        "filelock",
        "fastapi[standard]",
        f'nvidia-nccl-cu12==2.27.5; platform_system == "Linux" and platform_machine == "{MACHINE}"',
        'triton==3.5.1; platform_system == "Darwin"',
        'optree>=0.13.0; extra == "optree"',
        "thing @ https://user:secret@example.com/thing-1.0.whl",
        'other @ https://example.com/a;b.whl ; python_version >= "3"',
    )
    assert pins(environment, gathered, "torch", *requires) == {
        "transformers": ">=5.16.1,<5.21.0",
        "protobuf": ">=5.29.6,!=6.30.*,!=6.31.*",
        "flash-attn-4": ">=4.0.0b18",
        "mistral-common": ">=1.11,<2",
        "numba": "===0.65.1",
        "nvidia-nccl-cu12": "==2.27.5",
        "thing": "@ https://example.com/thing-1.0.whl",
        "other": "@ https://example.com/a;b.whl",
    }


def test_two_lines_about_one_distribution_are_put_together(environment, gathered):
    assert pins(environment, gathered, "torch", "numpy<3", "numpy>=1.20", "numpy<3") == {"numpy": ">=1.20,<3"}


def test_only_frameworks_have_pins(environment, gathered):
    environment.install("requests", requires=("urllib3<3",))
    environment.install("torch", requires=())
    assert gathered(environment.host(), "packages").facts["pins"] == {"torch": {}}


def test_sglang_of_the_time_when_everything_stood_in_an_extra(environment, gathered):
    requires = (
        "requests",
        'sglang[runtime_common]; extra == "srt"',
        'sgl-kernel==0.1.4; extra == "srt"',
        'torch==2.6.0; extra == "srt"',
        'compressed-tensors==0.9; extra == "runtime-common"',
        'vllm==0.8; extra == "srt-hip"',
        'openai>=1.0; extra == "openai"',
        'sglang[srt]; extra == "all"',
    )
    assert pins(environment, gathered, "sglang", *requires) == {
        "sgl-kernel": "==0.1.4", "torch": "==2.6.0", "compressed-tensors": "==0.9",
    }  # fmt: skip


def test_sglang_of_today(environment, gathered):
    requires = ("torch==2.14.1", 'diffusers==0.37.0; extra == "diffusion"', 'old==1; extra == "srt"')
    assert pins(environment, gathered, "sglang", *requires) == {"torch": "==2.14.1"}


def test_the_version_of_the_target_counts_not_our_own(tmp_path):
    environment = Environment(tmp_path)
    environment.install("torch", requires=('old==1; python_version < "3.9"', 'new==2; python_version >= "3.9"'))
    found = Distribution("torch", "1.0", str(environment.site), "torch-1.0.dist-info", frozenset())
    for version, expected in (("3.8.18", {"old": "==1"}), ("3.10.2", {"new": "==2"})):
        assert read_requirements(Host(environ={}), found, marker_environment(version, "CPython")) == expected


def test_a_develop_install_keeps_them_in_another_grammar(environment, gathered):
    egg = environment.site / "torch.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    (egg / "requires.txt").write_text('numpy<2\n\n[:python_version >= "3.9"]\nsympy==1.13\n\n[docs]\nsphinx>=7\n')
    assert gathered(environment.host(), "packages").facts["pins"]["torch"] == {"numpy": "<2", "sympy": "==1.13"}


@pytest.mark.parametrize("line", ["", ";", "@", "[", "torch [", "a ; (", "a==1 ; nonsense", "=1", "x @ ", "☃==1"])
def test_lines_that_nobody_should_write(environment, gathered, line):
    environment.install("torch", requires=(line, "numpy<2"))
    assert gathered(environment.host(), "packages").facts["pins"]["torch"]["numpy"] == "<2"


def installed():
    return [found for found in importlib.metadata.distributions() if found.requires]


@pytest.mark.parametrize("distribution", installed(), ids=lambda found: found.metadata["Name"])
def test_every_distribution_around_us_as_packaging_reads_it(distribution):
    path = distribution._path
    found = Distribution("x", "", str(path.parent), path.name, frozenset())
    mine = read_requirements(
        Host(environ={}), found, marker_environment(platform.python_version(), platform.python_implementation())
    )
    theirs: dict[str, SpecifierSet] = {}
    for requirement in map(Requirement, distribution.requires):
        if requirement.specifier and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            name = canonicalize_name(requirement.name)
            theirs[name] = theirs.get(name, SpecifierSet()) & requirement.specifier
    assert {name: SpecifierSet(specifier) for name, specifier in mine.items()} == theirs


ENVIRONMENT = default_environment() | {"extra": "gpu"}
STRINGS = ["platform_system", "sys_platform", "platform_machine", "os_name", "implementation_name",
           "platform_python_implementation"]  # fmt: skip
comparisons = st.one_of(
    st.tuples(
        st.sampled_from(STRINGS),
        st.sampled_from(["==", "!="]),
        st.sampled_from(["Linux", "linux", "x86_64", "aarch64", "posix", "cpython", "CPython", "win32", "", "3"]),
    ),
    st.tuples(
        st.sampled_from(["python_version", "python_full_version"]),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
        st.sampled_from(["3", "3.9", "3.11", "3.11.0", "3.11.7", "3.12", "3.13", "4", "3.10.0rc1", "2.7"]),
    ),
    st.tuples(st.just("extra"), st.sampled_from(["==", "!="]), st.sampled_from(["gpu", "GPU", "g_p", "all"])),
    st.tuples(st.just("sys_platform"), st.sampled_from(["in", "not in"]), st.sampled_from(["linux darwin", "win32"])),
).map(lambda parts: f'{parts[0]} {parts[1]} "{parts[2]}"')
expressions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=6,
)


@given(expressions)
def test_markers_hold_as_packaging_says(marker):
    try:
        expected = Marker(marker).evaluate(dict(ENVIRONMENT))
    except Exception:  # what packaging cannot compare, we take to hold
        expected = True
    assert holds(marker, dict(ENVIRONMENT)) is expected


@pytest.mark.parametrize(
    "marker",
    [
        'platform_system == "Linux" and platform_machine == "x86_64"',
        'sys_platform == "linux" and (platform_machine == "aarch64" or platform_machine == "arm64")',
        'python_version >= "3.12"',
        "python_version<'3.11' or os_name != 'nt'",
        'extra == "gpu"',
    ],
)
def test_the_markers_of_real_wheels_do_not_need_packaging(marker, monkeypatch):
    expected = Marker(marker).evaluate(dict(ENVIRONMENT))
    monkeypatch.setattr(markers, "_ask_packaging", None)
    assert holds(marker, dict(ENVIRONMENT)) is expected


def test_the_variables_are_packagings_own():
    mine = marker_environment(platform.python_version(), platform.python_implementation())
    assert mine == default_environment() | {"extra": ""}
