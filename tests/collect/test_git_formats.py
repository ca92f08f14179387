"""Git's own text formats, read without git: whatever git writes is read as git reads it."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.collect.repository.config import parse_config, remote_url, submodule_paths, without_credentials
from envsnap.collect.repository.status import parse_status

ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


def test_a_configuration_as_people_write_it() -> None:
    config = parse_config(
        "[core]\n\tbare = false\n\tignoreCase\n; a comment\n# another\n"
        '[remote "up.stream \\"x\\""] url = a#b\n'
        '[Remote "o"]\n  URL = "https://x/#y" ; comment\n'
        "[branch.main]\n\tremote = o\\\n  n\\te\n"
        '[branch "x"]\n\tname = a  b  \n\tquoted = "  " end\n\ttwice = 1\n\ttwice = 2\n'
    )
    assert parse_config("[a]\r\n\tb = c\r\n") == {("a", ""): {"b": "c"}}
    assert config == {
        ("core", ""): {"bare": "false", "ignorecase": "true"},
        ("remote", 'up.stream "x"'): {"url": "a"},
        ("remote", "o"): {"url": "https://x/#y"},
        ("branch", "main"): {"remote": "o  n\te"},
        ("branch", "x"): {"name": "a  b", "quoted": "   end", "twice": "2"},
    }


def test_garbage_is_passed_over() -> None:
    text = '<<<<<<< HEAD\n[submodule "a"]\n\tpath = a\n=======\n\tpath = b\n>>>>>>> side\n[broken\n= x\n'
    assert submodule_paths(parse_config(text)) == {"a": "b"}


@settings(max_examples=60, deadline=None)
@given(name=ANY_TEXT.filter(lambda name: "\n" not in name), value=ANY_TEXT)
def test_what_git_writes_is_read_as_git_reads_it(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: str
) -> None:
    file = tmp_path_factory.mktemp("config") / "config"
    command = ["git", "config", "-f", str(file)]
    subprocess.run([*command, f"remote.{name}.url", value], check=True, capture_output=True)
    read = subprocess.run([*command, "--get", "-z", f"remote.{name}.url"], check=True, capture_output=True).stdout
    text = file.read_bytes().decode("utf-8", "backslashreplace")
    assert parse_config(text) == {("remote", name): {"url": read[:-1].decode()}}


@given(st.text())
def test_any_text_is_read_as_some_configuration(text: str) -> None:
    config = parse_config(text)
    remote_url(config, "main")
    submodule_paths(config)


URL_PART = st.text("abcdefgh0123456789-._~%+", min_size=1, max_size=12)


@given(
    scheme=st.sampled_from(["https", "http", "ftp", "ssh", "git+ssh"]),
    user=URL_PART,
    secret=st.text("XYZ:@/!$&'()*,;=+", min_size=1, max_size=12).map(lambda text: f"S3CRET{text}"),
    host=URL_PART,
    port=st.sampled_from(["", ":8443"]),
)
def test_a_password_never_stays_in_a_url(scheme: str, user: str, secret: str, host: str, port: str) -> None:
    url = f"{scheme}://{user}:{secret}@{host}{port}/x/y.git"
    told = without_credentials(f"clone: from {url} into z")
    assert "S3CRET" not in told
    assert told.endswith(f"{host}{port}/x/y.git into z")


@pytest.mark.parametrize("text", ["", "pull: Fast-forward", "git@host:a/b.git", "C:\\x", "http://host/a/b", "://@"])
def test_a_text_without_credentials_stays(text: str) -> None:
    assert without_credentials(text) == text


PATHS = st.binary(min_size=1, max_size=30).map(lambda name: name.replace(b"\0", b"0"))


@given(
    tracked=st.lists(PATHS, unique=True, max_size=5),
    untracked=st.lists(PATHS, unique=True, max_size=5),
    cut=st.integers(0, 400),
)
def test_any_path_is_read_back_and_a_cut_output_never_invents_one(
    tracked: list[bytes], untracked: list[bytes], cut: int
) -> None:
    shapes = (
        b"1 .M N... 100644 100644 100644 aa bb %s",
        b"2 R. N... 100644 100644 100644 aa bb R100 %s\0? before",
        b"u UU N... 100644 100644 100644 100644 aa bb cc %s",
    )
    records = [shapes[number % 3] % name for number, name in enumerate(tracked)]
    records += [b"? " + name for name in untracked]
    output = b"".join(record + b"\0" for record in [b"# branch.oid aa", b"# branch.head main", *records])
    status = parse_status(output)
    assert (list(status.modified), status.untracked, status.has_all_tracked) == (tracked, untracked, True)
    part = parse_status(output[:cut], is_cut=True)
    assert list(part.modified) == tracked[: len(part.modified)]
    assert part.untracked == untracked[: len(part.untracked)]
    if part.has_all_tracked:
        assert list(part.modified) == tracked


@pytest.mark.parametrize("output", [b"1 .M\0", b"garbage\0", b"# branch.ab x\0", b"2 R. N... 1 2 3\0"])
def test_what_is_not_in_the_format_is_refused(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_status(output)


def test_headers() -> None:
    status = parse_status(b"# branch.oid (initial)\0# branch.head (detached)\0# branch.ab +3 -12\0# stash 2\0")
    assert (status.commit, status.branch, status.ahead, status.behind, status.stashes) == (None, None, 3, 12, 2)
    assert parse_status(b"").modified == {}
