"""Commands that can be pasted: quoting, indexes of wheels, values that may not be used."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shells import runs_nothing_else

from envsnap.compat import default
from envsnap.explain.shell import checkout, command, kernel_parameters, pip_install, pip_reinstall, quote, undo_variable

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30)


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_a_quoted_value_is_one_word_that_reads_as_it_was(values: list[str]) -> None:
    script = "".join(f"printf '%s\\0' {quote(value)}\n" for value in values)
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    )
    assert ran.stdout.decode().split("\0")[:-1] == values
    assert all(line.isprintable() for line in script.splitlines())


def test_values_stand_where_the_braces_are() -> None:
    assert command("git -C {} checkout {}", "/src/a b", "abc") == "git -C '/src/a b' checkout abc"
    assert command("pip uninstall -y {}", ["a", "b c"]) == "pip uninstall -y a 'b c'"


@pytest.mark.parametrize("value", ["", None, "--index-url=http://evil", "<redacted:0123abcd>", ["ok", "-r"]])
def test_a_value_that_is_missing_redacted_or_an_option_makes_no_command(value: object) -> None:
    assert command("pip install {}", value) == ""


def test_a_value_may_begin_with_a_dash_within_a_word() -> None:
    assert command("export X={}", "-1") == "export X=-1"


def test_attacks_stay_in_their_quotes(tmp_path: Path) -> None:
    for attack in (
        "$(: > pwned)",
        "`: > pwned`",
        "; : > pwned",
        "' ; : > pwned ; '",
        "\n: > pwned\n",
        "x\\'; : > pwned",
    ):
        assert runs_nothing_else(command("pip install {}=={}", attack, attack), tmp_path)
        assert runs_nothing_else(undo_variable("X", attack), tmp_path)
        assert runs_nothing_else(checkout(attack, attack), tmp_path)
    assert not runs_nothing_else(": > pwned", tmp_path)


def test_a_variable_gets_its_earlier_value_back() -> None:
    assert undo_variable("NCCL_P2P_DISABLE", None) == "unset NCCL_P2P_DISABLE"
    assert undo_variable("LD_LIBRARY_PATH", "/a:/b c") == "export LD_LIBRARY_PATH='/a:/b c'"
    assert undo_variable("X", "") == "export X=''"
    assert undo_variable("HF_TOKEN", "<redacted:abc>") == ""
    assert undo_variable("no name; x", "1") == ""


def test_a_local_tag_needs_its_index() -> None:
    tables = default()
    assert (
        pip_install("torch", "2.9.1+cu128", tables)
        == "pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128"
    )
    assert pip_install("vllm", "0.17.0", tables) == "pip install vllm==0.17.0"
    assert "--extra-index-url" in pip_install("flash-attn", "2.8.3+cu128", tables)
    assert pip_install("x", "1.0+local", tables) == "pip install x==1.0+local"
    assert pip_install("x", "", tables) == ""
    assert pip_reinstall("x", "1.0", tables) == "pip install --force-reinstall --no-deps x==1.0"


def test_kernel_parameters_of_plain_characters_only() -> None:
    assert "iommu=pt " in kernel_parameters("iommu=pt")
    assert kernel_parameters("a' -e 's/x/y/") == ""
    assert kernel_parameters("") == ""
