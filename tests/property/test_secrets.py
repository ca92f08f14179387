"""A planted secret never comes out, whatever its shape and place; and redacting twice changes nothing."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.redact import Redactor

REDACTOR = Redactor(b"a key of the store")
ALNUM = string.ascii_letters + string.digits
WORDLIKE = ALNUM + "_-"
HEX = "0123456789abcdef"


def characters(alphabet: str, shortest: int, longest: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=shortest, max_size=longest)


SHAPED = st.one_of(
    st.builds("hf_{}".format, characters(ALNUM, 30, 40)),
    st.builds("{}{}".format, st.sampled_from(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]), characters(ALNUM, 36, 40)),
    st.builds("github_pat_{}".format, characters(ALNUM + "_", 40, 82)),
    st.builds("glpat-{}".format, characters(WORDLIKE, 20, 30)),
    st.builds("sk-{}".format, characters(HEX, 31, 31).map(lambda body: body + "7")),
    st.builds("sk-proj-{}".format, characters(WORDLIKE, 40, 120)),
    st.builds("sk-ant-api03-{}".format, characters(WORDLIKE, 80, 95)),
    st.builds("{}{}".format, st.sampled_from(["AKIA", "ASIA"]), characters(string.ascii_uppercase + "234567", 16, 16)),
    st.builds("{}{}".format, st.sampled_from(["xoxb-", "xoxp-", "xoxa-"]), characters(ALNUM + "-", 12, 60)),
    st.builds("AIza{}".format, characters(WORDLIKE, 35, 35)),
    st.builds("npm_{}".format, characters(ALNUM, 36, 36)),
    st.builds("pypi-AgEIcHlwaS5vcmc{}".format, characters(WORDLIKE, 30, 100)),
    st.builds("nvapi-{}".format, characters(WORDLIKE, 64, 64)),
    st.builds("dop_v1_{}".format, characters(HEX, 64, 64)),
    st.builds("SG.{}.{}".format, characters(WORDLIKE, 22, 22), characters(WORDLIKE, 43, 43)),
    st.builds(
        "eyJ{}.eyJ{}.{}".format,
        characters(WORDLIKE, 15, 40),
        characters(WORDLIKE, 10, 60),
        characters(WORDLIKE, 20, 60),
    ),
)
"""Secrets that tell themselves by their shape."""

NAMED = st.one_of(
    characters(ALNUM + "!#%*+,./:?@^_~-", 8, 40)
    .filter(lambda text: any(sign.isdigit() for sign in text) and any(sign.isalpha() for sign in text))
    .map(lambda text: "Q7" + text + "x"),
    characters(HEX, 40, 40).map(lambda text: "a1" + text[2:]),
    characters(ALNUM + "+/", 40, 40).map(lambda text: text[:-2] + "Z9"),
)
"""Secrets that only their names betray."""

HARD_NAMES = st.sampled_from(
    ["API_KEY", "OPENAI_API_KEY", "VLLM_API_KEY", "WANDB_API_KEY", "DB_PASSWORD", "MYSQL_PWD", "AWS_SECRET_ACCESS_KEY",
     "client_secret", "apiKey", "PRIVATE_KEY", "redis-password", "HF_TOKEN", "hf_token", "GITHUB_TOKEN", "accessToken"]
)  # fmt: skip


def shows(secret: str, redacted: object) -> bool:
    """Whether a redacted thing still holds the secret, or most of it."""
    text = repr(redacted)
    return secret in text or secret[len(secret) // 3 :] in text


# -- places ----------------------------------------------------------------------------------------------------------------

SHAPED_PLACES = [
    "{}",
    "before {} after",
    "a={} b",
    '{{"x": ["{}"]}}',
    "x: '{}'",
    "https://host/{}/x",
    "(see {})",
    "\n{}\n",
    "/data/{}/log",
]

NAMED_PLACES = [
    "{name}={secret}",
    "export {name}={secret}",
    "{name}='{secret}' python -m x --tp 8",
    '{{"{name}": "{secret}", "x": 1}}',
    "Args(x=1, {name}='{secret}', y=2)",
    "{name}: {secret}",
    "run --{name} '{secret}' --tokenizer x",
    "run --{name}='{secret}' --tokenizer x",
    '+{name} = "{secret}"',
    "bash -c \"{name}='{secret}' run\"",
]


@settings(max_examples=200, deadline=None)
@given(SHAPED, st.sampled_from(SHAPED_PLACES))
def test_a_token_of_a_known_shape_never_comes_out_of_a_text(secret: str, place: str) -> None:
    text = place.format(secret)
    redacted = REDACTOR.text(text)
    assert not shows(secret, redacted)
    assert REDACTOR.text(redacted) == redacted


@settings(max_examples=200, deadline=None)
@given(NAMED, HARD_NAMES, st.sampled_from(NAMED_PLACES))
def test_a_named_secret_never_comes_out_of_a_text(secret: str, name: str, place: str) -> None:
    text = place.format(name=name, secret=secret)
    redacted = REDACTOR.text(text)
    assert not shows(secret, redacted)
    assert REDACTOR.text(redacted) == redacted


@settings(max_examples=200, deadline=None)
@given(
    characters(ALNUM + "!$*+,.;_~-=:@", 6, 40).map(lambda text: "Q7" + text + "x"),
    st.sampled_from(
        ["https://u:{}@host/a.git", "git+https://u:{}@host/a", "redis://:{}@h:6379/0", "postgres://a:{}@db/x"]
    ),
)
def test_a_password_never_comes_out_of_a_url(secret: str, place: str) -> None:
    url = place.format(secret)
    assert not shows(secret, REDACTOR.url(url))
    assert not shows(secret, REDACTOR.text(f"cannot reach {url} now"))
    assert REDACTOR.url(REDACTOR.url(url)) == REDACTOR.url(url)


@settings(max_examples=200, deadline=None)
@given(NAMED, HARD_NAMES, st.integers(0, 5))
def test_a_named_secret_never_comes_out_of_a_command_line(secret: str, name: str, place: int) -> None:
    option = "--" + name.lower().replace("_", "-") if name.isupper() else "--" + name
    argv = [
        ["run", option, secret, "--tp", "8"],
        ["run", f"{option}={secret}", "--tp", "8"],
        ["docker", "run", "-e", f"{name}={secret}", "image"],
        ["docker", "run", f"--env={name}={secret}", "image"],
        ["env", f"{name}={secret}", "run"],
        ["bash", "-c", f"{name}='{secret}' run {option} '{secret}'"],
    ][place]
    redacted = REDACTOR.argv(argv)
    assert not shows(secret, redacted)
    assert len(redacted) == len(argv)
    assert REDACTOR.argv(redacted) == redacted


def plant(secret: str, name: str, place: int) -> dict[str, Any]:
    """A document with a secret in one of its places."""
    return [
        {"env": {name: secret, "NCCL_DEBUG": "WARN"}},
        {"config": {"a": {"path": "/a", "settings": {name: secret}}}},
        {"launch": {"args": {name: secret}}},
        {"launch": {"resolved": {name: [secret, secret]}}},
        {"launch": {"args": {"a": {"b": {"c": {name: secret}}}}}},
        {"launch": {"argv": ["x", f"--{name}", secret]}},
        {"launch": {"args": {"items": [{name: secret}]}}},
        {"model": {"settings": f"{name}: '{secret}'"}},
    ][place]


@settings(max_examples=200, deadline=None)
@given(NAMED, HARD_NAMES, st.integers(0, 7))
def test_a_named_secret_never_comes_out_of_a_document(secret: str, name: str, place: int) -> None:
    redacted = REDACTOR.document(plant(secret, name, place))
    assert not shows(secret, redacted)
    assert REDACTOR.document(redacted) == redacted


@settings(max_examples=200, deadline=None)
@given(SHAPED, st.sampled_from(["x", "NCCL_DEBUG", "CUDA_HOME", "subject"]), st.integers(0, 7))
def test_a_shaped_secret_never_comes_out_of_a_document_under_any_name(secret: str, name: str, place: int) -> None:
    assert not shows(secret, REDACTOR.document(plant(secret, name, place)))


@settings(max_examples=200, deadline=None)
@given(SHAPED, st.sampled_from(["source", "packages", "origins", "missing", "collectors", "events", "integrity"]))
def test_a_shaped_secret_never_comes_out_of_a_section_keyed_by_identity(secret: str, section: str) -> None:
    document = {section: {"a": {"url": f"https://u:{secret}@host/a", "text": f"failed: {secret}", secret: "x"}}}
    assert not shows(secret, REDACTOR.document(document))


# -- any text --------------------------------------------------------------------------------------------------------------

ANYTHING = st.lists(
    st.one_of(
        st.sampled_from(
            ["token", "api_key", "password", "Authorization", "Bearer ", "Basic ", "=", ": ", "://", "@", "'", '"', "\\", "\n",
             " ", ",", "[", "]", "{", "}", "--", "-", "?", "&", "<redacted:0123456789ab>", "<", ">", "hf_", "sk-", "eyJ", "key",
             "auth", "-----BEGIN PRIVATE KEY-----", "https", "user:pw", "|", "None", "1", "wandb login ", "export ", ";"]
        ),
        st.text(max_size=6),
        SHAPED,
    ),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(ANYTHING)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@settings(max_examples=200, deadline=None)
@given(st.lists(ANYTHING, min_size=1, max_size=5))
def test_redacting_a_command_line_twice_changes_nothing(argv: list[str]) -> None:
    once = REDACTOR.argv(argv)
    assert REDACTOR.argv(once) == once
    assert len(once) == len(argv)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["HF_TOKEN", "password", "auth", "key", "NCCL_DEBUG", "http_proxy"]), ANYTHING)
def test_redacting_a_value_twice_changes_nothing(name: str, text: str) -> None:
    once = REDACTOR.value(name, text)
    assert REDACTOR.value(name, once) == once


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["NCCL_DEBUG", "OMP_NUM_THREADS", "tokenizer_path", "max_total_tokens", "x", "commit"]),
        st.one_of(
            st.integers(),
            st.booleans(),
            st.floats(allow_nan=False),
            characters(string.ascii_lowercase + string.digits + "./_", 0, 30),
            characters(HEX, 40, 40),
            st.uuids().map(str),
            st.lists(characters(string.ascii_lowercase, 1, 8), max_size=3),
        ),
    )
)
def test_a_harmless_document_comes_back_as_it_was(table: dict[str, Any]) -> None:
    document = {"env": table, "launch": {"args": table}, "source": {"a": table}}
    assert REDACTOR.document(document) == document
