"""Secrets are replaced wherever they stand; what only looks like one stays readable."""

from __future__ import annotations

import copy
import string
import sys
from typing import Any

import pytest

from envsnap import secret_names, secret_patterns
from envsnap.redact import Redactor
from envsnap.secret_names import HARD, NONE, SOFT, TOKEN, secret_level

KEY = b"a key of the store"
WORD = "zX9qLm27RtVw4KpB8sYhN3cD"
HEX = "0f3a9c7be21d4568a0b1c2d3e4f5061728394a5b"
HIDDEN = Redactor(KEY).hash(WORD)


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(KEY)


# -- what stands in the place of a secret --------------------------------------------------------------------------------


def test_equal_secrets_of_one_store_compare_equal_and_others_do_not(redactor: Redactor) -> None:
    assert redactor.hash(WORD) == Redactor(KEY).hash(WORD)
    assert redactor.hash(WORD) != redactor.hash(WORD + "x")
    assert redactor.hash(WORD) != Redactor(b"another key").hash(WORD)


def test_the_place_holder_has_twelve_hex_digits(redactor: Redactor) -> None:
    inner = redactor.hash(WORD).removeprefix("<redacted:").removesuffix(">")
    assert len(inner) == 12
    assert set(inner) <= set(string.hexdigits.lower())


def test_a_secret_that_is_no_utf_8_can_be_hidden(redactor: Redactor) -> None:
    assert redactor.value("HF_TOKEN", "abc\udcffdef") == redactor.hash("abc\udcffdef")


@pytest.mark.parametrize("key", [b"", b"x" * 65])
def test_a_key_that_protects_nothing_or_does_not_fit_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        Redactor(key)


def test_the_hash_is_the_same_without_the_builtin_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_blake2", None)
    assert Redactor(KEY).hash(WORD) == HIDDEN


# -- names ---------------------------------------------------------------------------------------------------------------

LEVELS = {
    HARD: """API_KEY api_key apiKey APIKey OPENAI_API_KEY VLLM_API_KEY WANDB_API_KEY X-Api-Key trainer.logger.api_key
        PASSWORD password DB_PASS MYSQL_PWD PGPASSWORD RAY_REDIS_PASSWORD PASSWORD_HASH SECRET client_secret secrets
        AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID PRIVATE_KEY private_key_id ENCRYPTION_KEY SSH_KEY SECRET_KEY_BASE
        MODAL_TOKEN_SECRET GOOGLE_APPLICATION_CREDENTIALS credentials COOKIE Set-Cookie SESSION_KEY SLURM_JWT
        Authorization AccountKey SharedAccessKey api_key_prod API_KEY_FALLBACK ACCESS_KEY_2 passphrase secret.apiKey Pwd secret_id""",
    TOKEN: """HF_TOKEN HUGGING_FACE_HUB_TOKEN hf_token token authToken HFTOKEN AWS_SESSION_TOKEN PRIVATE-TOKEN TOKEN2
        API_TOKENS MODAL_TOKEN_ID HF_TOKEN_RO RAY_AUTH_TOKEN hf-token GITHUB_TOKEN accesstoken SLACK_BOT_TOKEN""",
    SOFT: "auth REGISTRY_AUTH session SESSION_ID key sig signature pat pwd",
    NONE: """TOKENIZERS_PARALLELISM GPU_PINNED_MIN_XFER_SIZE NCCL_P2P_LEVEL tokenizer_path max_total_tokens num_tokens
        HF_HUB_DISABLE_IMPLICIT_TOKEN SGLANG_NUM_RESERVED_DECODE_TOKENS PASSTHROUGH AUTHORS author KEYBOARD monkey PWD
        OLDPWD cwd tokenizer tokenizer-mode kv-cache-dtype tool-call-parser bos_token eos_token_id pad_token
        num_speculative_tokens token_map HF_TOKEN_PATH cache_key public_key PASSWORD_FILE secret_name TOKEN_TYPE
        ssl_keyfile SSH_AUTH_SOCK detokenizer NCCL_IGNORE_CPU_AFFINITY UCX_KEEPALIVE_INTERVAL design assigned compass
        VLLM_ALLOW_LONG_MAX_MODEL_LEN commit digest build_id NVreg_RegistryDwords OMP_NUM_THREADS skip_special_tokens
        FLASHINFER_DISABLE_VERSION_CHECK max_prefill_tokens tokens keys_per_block HF_HUB_ENABLE_HF_TRANSFER""",
}


@pytest.mark.parametrize(
    ("level", "name"), [(level, name) for level, names in LEVELS.items() for name in names.split()]
)
def test_a_name_promises_a_secret_or_does_not(level: int, name: str) -> None:
    assert secret_level(name) == level


@pytest.mark.parametrize("name", [*LEVELS[HARD].split(), *LEVELS[TOKEN].split(), *LEVELS[SOFT].split()])
def test_a_value_that_looks_like_a_secret_is_one_under_every_suspicious_name(redactor: Redactor, name: str) -> None:
    assert redactor.value(name, WORD) == HIDDEN


@pytest.mark.parametrize("name", LEVELS[NONE].split())
def test_a_word_stays_readable_under_a_harmless_name(redactor: Redactor, name: str) -> None:
    assert redactor.value(name, WORD) == WORD


def test_names_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_names, "REMEMBERED", 3)
    for number in range(10):
        assert secret_level(f"A{number}_TOKEN") == TOKEN
    assert len(secret_names._levels) <= 4


# -- values under a suspicious name ----------------------------------------------------------------------------------------

READABLE = [
    ("HF_TOKEN", ""),
    ("HF_TOKEN", "1"),
    ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
    ("num_token", "8192"),
    ("token", "0.5"),
    ("token", "[1, 2, 3]"[1:-1]),
    ("special_token", "<|im_end|>"),
    ("think_end_token", "</think>"),
    ("user_token", "<|user|>"),
    ("api_key", "None"),
    ("api_key", "EMPTY"),
    ("HF_TOKEN", "$HF_TOKEN"),
    ("HF_TOKEN", "${HF_TOKEN}"),
    ("HF_TOKEN", "${{ secrets.HF_TOKEN }}"),
    ("password", "****"),
    ("password", "<redacted:0123456789ab>"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/keys/service.json"),
    ("HF_TOKEN", "/root/.cache/huggingface/token"),
    ("DB_PASSWORD", "/run/secrets/db_password"),
    ("SSL_KEY", "/etc/ssl/private/server.pem"),
    ("auth", "kerberos"),
    ("auth", "token"),
    ("NPM_AUTH", "http://auth.example.com:8080/login"),
    ("session", "train-2024"),
    ("key", "model.layers.0"),
    ("key", "/data/keys/a"),
    ("signature", "sha256:" + HEX),
    ("auth", "1.2.3"),
    ("VLLM_ALLREDUCE_KEY", "fp8"),
]


@pytest.mark.parametrize(("name", "text"), READABLE)
def test_switches_counts_placeholders_and_paths_stay(redactor: Redactor, name: str, text: str) -> None:
    assert redactor.value(name, text) == text


HIDDEN_VALUES = [
    ("password", "hunter2"),
    ("password", "12345678"),
    ("password", "/not/a/file"),
    ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
    ("api_key", "token-abc123"),
    ("REGISTRY_AUTH", "bob:pw"),
    ("auth", "dXNlcjpwYXNzd29yZA=="),
    ("SESSION", HEX),
    ("WANDB_API_KEY", HEX),
    ("token", "s3cr3t"),
    ("Cookie", "a=1; b=2"),
]


@pytest.mark.parametrize(("name", "text"), HIDDEN_VALUES)
def test_a_secret_by_its_name_is_hidden_as_a_whole(redactor: Redactor, name: str, text: str) -> None:
    assert redactor.value(name, text) == redactor.hash(text)


def test_the_scheme_of_a_header_stays_and_the_hash_is_that_of_the_bare_token(redactor: Redactor) -> None:
    assert redactor.value("Authorization", f"Bearer {WORD}") == f"Bearer {HIDDEN}"


# -- known shapes ----------------------------------------------------------------------------------------------------------

SHAPES = [
    "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "fw_" + "3aBcDeFgHiJkLmNoPqRsTuVw",
    "api_org_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8",
    "gho_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8",
    "ghs_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8",
    "github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789",
    "glpat-" + "aB3_dE5-gH7iJ9kL1mN0",
    "sk-" + "aB3dE5gH7iJ9kL1mN0pQrStUvWxYz012345678901234567",
    "sk-" + "0123456789abcdef0123456789abcdef",
    "sk-proj-" + "aB3_dE5-gH7iJ9kL1mN0pQrStUvWxYz0123456789",
    "sk-ant-api03-" + "aB3_dE5-gH7iJ9kL1mN0pQrStUvWxYz0123456789-AA",
    "sk_live_" + "aB3dE5gH7iJ9kL1mN0pQrStU",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE",
    "xoxb-" + "123456789012-1234567890123-aBcDeFgHiJkLmNoPqRsTuVwX",
    "xoxp-" + "1234567890-abcdefghij",
    "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "npm_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789",
    "pypi-" + "AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIz",
    "nvapi-" + "aB3_dE5-gH7iJ9kL1mN0pQrStUvWxYz0123456789aB3_dE5-gH7iJ9kL1mN0pQr",
    "wandb_v1_" + "aB3dE5gH7iJ9kL1mN0pQrStUvWxYz",
    "dop_v1_" + "0123456789abcdef" * 4,
    "dckr_pat_" + "aB3_dE5-gH7iJ9kL1mN0pQrStUv",
    "dapi" + "0123456789abcdef" * 2,
    "hvs." + "CAESIJ_aB3-dE5gH7iJ9kL1mN0pQrStUvWxYz",
    "SG." + "aB3dE5gH7iJ9kL1mN0pQrS" + "." + "tUvWxYz0123456789aB3dE5gH7iJ9kL1mN0pQrStUv",
    "gsk_" + "aB3dE5gH7iJ9kL1mN0pQrStUvWxYz0123456789aB3dE5gH7iJ9k",
    "ya29." + "a0AfB_byC1234567890abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "123456789:AA" + "Hf0123456789abcdefghijklmnopqrstuv",
]


def _places(secret: str) -> list[str]:
    return [
        secret,
        f"prefix {secret} suffix",
        f"'{secret}'",
        f"x={secret},y=2",
        f'{{"x": "{secret}"}}',
        f"https://host/path/{secret}/more",
        f"/data/{secret}.log",
        f"line one\n{secret}\nline three",
    ]


@pytest.mark.parametrize("secret", SHAPES)
def test_a_token_of_a_known_shape_is_found_in_every_place(redactor: Redactor, secret: str) -> None:
    for text in _places(secret):
        assert secret not in redactor.text(text), text
        assert secret[8:] not in redactor.text(text), text


@pytest.mark.parametrize("secret", SHAPES)
def test_the_quick_look_misses_no_known_shape(secret: str) -> None:
    assert secret_patterns.SUSPECT.search(secret.lower())
    assert secret_patterns.shape_cues().search(secret.lower())


def test_an_aws_secret_is_found_beside_its_id(redactor: Redactor) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    assert secret not in redactor.text(f"AKIAIOSFODNN7EXAMPLE {secret}")
    assert redactor.text(f"asia-east1 {HEX}") == f"asia-east1 {HEX}"


PEM = "-----BEGIN {label}-----\nMIIEpAIBAAKCAQEA{word}\n{word}==\n-----END {label}-----"


@pytest.mark.parametrize("label", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PRIVATE KEY"])
def test_a_private_key_is_hidden_as_a_block(redactor: Redactor, label: str) -> None:
    block = PEM.format(label=label, word=WORD)
    assert redactor.text(f"before\n{block}\nafter") == f"before\n{redactor.hash(block)}\nafter"
    assert WORD not in redactor.text(block.replace("\n", "\\n"))
    assert WORD not in redactor.text(block[: block.index("-----END")])


def test_a_certificate_is_no_secret(redactor: Redactor) -> None:
    block = PEM.format(label="CERTIFICATE", word=WORD)
    assert redactor.text(block) == block


# -- URLs ------------------------------------------------------------------------------------------------------------------

URLS = [
    (f"https://user:{WORD}@github.com/a/b.git", f"https://user:{HIDDEN}@github.com/a/b.git"),
    (f"https://{WORD}@github.com/a/b.git", f"https://{HIDDEN}@github.com/a/b.git"),
    (f"https://{WORD}:x-oauth-basic@github.com/a", f"https://{HIDDEN}:x-oauth-basic@github.com/a"),
    (f"https://x-access-token:{WORD}@github.com/a", f"https://x-access-token:{HIDDEN}@github.com/a"),
    (f"git+https://oauth2:{WORD}@gitlab.com/a.git@v1", f"git+https://oauth2:{HIDDEN}@gitlab.com/a.git@v1"),
    (f"https://__token__:{WORD}@pypi.example.com/simple", None),
    (f"redis://:{WORD}@host:6379/0", f"redis://:{HIDDEN}@host:6379/0"),
    (f"postgresql+psycopg://app:{WORD}@db/x", f"postgresql+psycopg://app:{HIDDEN}@db/x"),
    (f"amqp://app:{WORD}@mq:5672/%2f", f"amqp://app:{HIDDEN}@mq:5672/%2f"),
    (f"postgres://app:a/{WORD}@db/x", None),
    (f"postgres://app:a@{WORD}@db/x", None),
    (f"https://host/a?token={WORD}&x=1", f"https://host/a?token={HIDDEN}&x=1"),
    (f"https://host/a?Expires=60&sign={WORD}", f"https://host/a?Expires=60&sign={HIDDEN}"),
    (f"https://host/a?x=1&sig={WORD}", f"https://host/a?x=1&sig={HIDDEN}"),
    (f"https://b.s3.amazonaws.com/a?X-Amz-Signature={WORD}&X-Amz-Expires=60", None),
    (f"https://b.s3.amazonaws.com/a?AWSAccessKeyId={WORD}&Expires=60", None),
    (f"https://host/#access_token={WORD}", f"https://host/#access_token={HIDDEN}"),
    (f"https://host/cb?code={WORD}", f"https://host/cb?code={HIDDEN}"),
    (f"https://maps.example.com/api?key={WORD}", f"https://maps.example.com/api?key={HIDDEN}"),
    (f"https://hooks.slack.com/services/T0/B0/{WORD}", None),
]


@pytest.mark.parametrize(("url", "expected"), URLS)
def test_a_url_keeps_its_host_and_loses_its_secret(redactor: Redactor, url: str, expected: str | None) -> None:
    redacted = redactor.url(url)
    assert WORD not in redacted
    assert redacted.startswith(url[:8])
    if expected is not None:
        assert redacted == expected
    assert WORD not in redactor.text(f"fetching {url} failed")


HARMLESS_URLS = [
    "https://github.com/sgl-project/sglang.git",
    "git@github.com:sgl-project/sglang.git",
    "ssh://git@github.com/a/b",
    "https://git@github.com/a/b",
    "http://proxy.example.com:3128",
    "http://host:8080/packages/@scope/name",
    "http://[fd00::1]:30000/v1",
    "docker://vllm/vllm-openai:v0.11.0@sha256:" + HEX,
    "docker://vllm-openai:v0.11.0@sha256:" + HEX,
    "git+https://github.com/a/b@" + HEX,
    "https://host/search?q=tokens&limit=10&key=1",
    "file:///srv/llm/sglang/python",
    "https://example.com/releases/v2.8.3/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp311-cp311-linux_x86_64.whl",
    "nccl-net://rdma@mlx5_0",
]


@pytest.mark.parametrize("url", HARMLESS_URLS)
def test_a_url_without_a_secret_stays(redactor: Redactor, url: str) -> None:
    assert redactor.text(url) == url


def test_a_proxy_without_a_scheme_loses_its_password(redactor: Redactor) -> None:
    assert redactor.value("http_proxy", f"bob:{WORD}@proxy:3128") == f"bob:{HIDDEN}@proxy:3128"
    assert redactor.argv(["x", "--proxy", f"bob:{WORD}@p:1"]) == ["x", "--proxy", f"bob:{HIDDEN}@p:1"]
    assert redactor.value("http_proxy", "proxy:3128") == "proxy:3128"
    assert redactor.value("remote_host", "git@host") == "git@host"
    assert redactor.value("remote_host", f"bob:{HIDDEN}@host") == f"bob:{HIDDEN}@host"


# -- free text -------------------------------------------------------------------------------------------------------------

TEXTS = [
    f"HF_TOKEN={WORD} python -m sglang.launch_server --tp 8",
    f"export HF_TOKEN={WORD}",
    f"setenv HF_TOKEN {WORD}",
    f"FROM image\nENV HF_TOKEN {WORD}\n",
    f"export DB_PASSWORD=a;b'{WORD}",
    f"password: correct horse {WORD}",
    f"db:\n  password: {WORD}\n  port: 5432",
    f"private_key: |\n  abc\n  {WORD}\nnext: 1",
    f"db:\n  password: >-\n    {WORD}",
    f'{{"api_key": "{WORD}", "x": 1}}',
    f"{{'hf_token': '{WORD}'}}",
    f'{{\\"api_key\\": \\"{WORD}\\"}}',
    f"server_args=ServerArgs(api_key='{WORD}', host='0.0.0.0')",
    f"Namespace(hf_token='{WORD}', tokenizer=None)",
    f"api_key=['{WORD}', 'x{WORD}']",
    f"[model]\ntoken = {WORD}",
    f'token = "{WORD}"',
    f'  "password": "{WORD}',
    f"+DB_PASSWORD={WORD}",
    f"-  password: {WORD}",
    f"Server=h;Uid=u;Pwd={WORD};",
    f"AccountName=x;AccountKey={WORD};EndpointSuffix=core",
    f"Authorization: Bearer {WORD}",
    f"authorization: token {WORD}",
    f"sent header 'Authorization: Bearer {WORD}' twice",
    "Authorization: Basic " + "Ym9iOnNlY3JldA==",
    f"curl -H 'Cookie: a=1; b={WORD}' http://host/",
    f"curl -u bob:{WORD} http://host/",
    f"X-Api-Key: {WORD}",
    f"PRIVATE-TOKEN: {WORD}",
    f"vllm serve m --api-key {WORD} --port 8000",
    f"vllm serve m --api-key={WORD} --port 8000",
    f"docker run -e HF_TOKEN={WORD} image",
    f'OPTIONS="--api-key {WORD} --tokenizer x"',
    f"machine api.wandb.ai login user password {WORD}",
    f"sshpass -p {WORD} ssh host",
    f"secret={WORD},other=1",
    f"a text with token:{WORD}",
    f"SharedAccessSignature sr=x&sig={WORD}&se=1",
    f'DOCKER_AUTH_CONFIG={{"auths": {{"ghcr.io": {{"auth": "{WORD}"}}}}}}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_in_a_text_is_found_by_what_stands_before_it(redactor: Redactor, text: str) -> None:
    redacted = redactor.text(text)
    assert WORD not in redacted
    assert "Ym9iOnNlY3JldA" not in redacted
    assert redactor.text(redacted) == redacted


def test_a_wandb_key_looks_like_a_commit_and_is_known_by_the_word_before_it(redactor: Redactor) -> None:
    for text in (f"wandb login {HEX}", f"wandb: your key is {HEX}", f"WANDB_API_KEY={HEX}"):
        assert HEX not in redactor.text(text), text
    assert redactor.text(f"commit {HEX}") == f"commit {HEX}"


HARMLESS_TEXTS = [
    "tokenizer: |\n  one\n  two\n",
    "tokens: 8192, token=5, max_total_tokens=8192",
    "ServerArgs(api_key=None, hf_token=None,key=None,tokenizer_path='/m', max_total_tokens=8192)",
    "Basic configuration of the Bearer token is required",
    "session started; auth: none; key=value",
    "Avg prompt throughput: 1.2 tokens/s, KV cache usage: 3 %",
    "--tokenizer-mode auto --tool-call-parser qwen --kv-cache-dtype fp8",
    f"HEAD is now at {HEX} fix token counting",
    "password=<redacted:0123456789ab> token: <redacted:0123456789ab>",
    "libcuda.so.580.95.05 sk-learn-like-name mask-rcnn-resnet-50-fpn-coco-finetuned",
    "GPU-15b9a525-37e6-4549-a3d3-664a81f38fd5",
    "/models/hub/models--Qwen--Qwen3-32B-AWQ/snapshots/" + HEX,
    "deep_gemm/cache/kernel.fp8_gemm_nt.aGVsbG8gd29ybGQgdGhpcyBpcw==/kernel.cubin",
    "std::session::key: value",
    "the password was wrong: ask for a password reset, or log in again",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
]


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_a_text_without_a_secret_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


# -- command lines -----------------------------------------------------------------------------------------------------------

COMMANDS = [
    ["python", "--api-key", WORD, "--tp", "8"],
    ["python", f"--api-key={WORD}"],
    ["vllm", "serve", "m", "--api-key", WORD, "x" + WORD, "--port", "1"],
    ["python", "--hf-token", WORD],
    ["python", "--password", "-a" + WORD],
    ["env", f"HF_TOKEN={WORD}", "python"],
    ["docker", "run", "-e", f"HF_TOKEN={WORD}", "image"],
    ["docker", "run", f"--env=MY_SECRET={WORD}", "image"],
    ["docker", "run", "--env", f"MY_SECRET={WORD}", "image"],
    ["bash", "-c", f"HF_TOKEN={WORD} exec python --api-key {WORD} --tokenizer-mode auto"],
    ["bash", "-lc", f"export HF_TOKEN='{WORD}'; python"],
    ["sh", "-c", f'python --api-key "{WORD}"'],
    ["curl", "--header", f"Authorization: Bearer {WORD}"],
    ["curl", "-H", f"X-API-Key: {WORD}"],
    ["curl", "-u", f"bob:{WORD}"],
    ["sshpass", "-p", WORD, "ssh"],
    ["train", f"+trainer.logger.api_key={WORD}"],
    ["helm", "--set", f"auth.password={WORD}"],
    ["python", "--config", f'{{"api_key": "{WORD}"}}'],
    ["python", f"--db=postgres://u:{WORD}@h/x"],
    ["python", f"hf://{WORD}:x@host"],
    ["ssh", "host", f"HF_TOKEN={WORD} python --tp 8"],
    ["x", f"DB_PASSWORD=correct horse {WORD}"],
]


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_secret_in_a_command_line_is_hidden_and_the_rest_stays(redactor: Redactor, argv: list[str]) -> None:
    redacted = redactor.argv(argv)
    assert not any(WORD in argument for argument in redacted)
    assert len(redacted) == len(argv)
    assert redacted[0] == argv[0]
    assert redactor.argv(redacted) == redacted


def test_what_follows_a_hidden_value_is_read_again(redactor: Redactor) -> None:
    argv = ["python", "--api-key", WORD, "--tokenizer", "X", "--max-total-tokens", "8"]
    assert redactor.argv(argv) == ["python", "--api-key", HIDDEN, "--tokenizer", "X", "--max-total-tokens", "8"]


HARMLESS_COMMANDS = [
    ["python", "--tokenizer", "X", "--max-total-tokens", "8", "--tokenizer-mode", "auto", "--kv-cache-dtype", "fp8"],
    ["vllm", "serve", "m", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"],
    ["torchrun", "--rdzv-endpoint", "node:29500", "train.py", "--config", "configs/a.yaml"],
    ["docker", "run", "-p", "8000:8000", "-u", "1000:1000", "-e", "HF_HUB_OFFLINE=1", "image"],
    ["python", "--api-key", "--port", "8"],
    ["python", "--enable-auth", "yes", "--skip-tokenizer-init"],
    ["bash", "-c", "exec vllm serve m --tokenizer-mode auto"],
    ["python", "--speculative-config", '{"method": "eagle", "num_speculative_tokens": 3}'],
    ["nsys", "profile", "-o", "out", "--sample=none", "python", "x.py"],
]


@pytest.mark.parametrize("argv", HARMLESS_COMMANDS)
def test_a_command_line_without_a_secret_stays(redactor: Redactor, argv: list[str]) -> None:
    assert redactor.argv(argv) == argv


# -- documents ---------------------------------------------------------------------------------------------------------------


def test_the_reference_snapshots_come_back_unchanged(
    redactor: Redactor, reference_documents: dict[str, dict[str, Any]]
) -> None:
    assert reference_documents
    for name, document in reference_documents.items():
        assert redactor.document(document) == document, name


def test_a_document_is_copied_and_not_changed(redactor: Redactor) -> None:
    document = {"env": {"HF_TOKEN": WORD, "NCCL_DEBUG": "WARN"}}
    before = copy.deepcopy(document)
    assert redactor.document(document) == {"env": {"HF_TOKEN": HIDDEN, "NCCL_DEBUG": "WARN"}}
    assert document == before


def test_every_kind_of_place_in_a_document(redactor: Redactor) -> None:
    document = {
        "meta": {"note": f"token: {WORD}"},
        "launch": {
            "argv": ["python", "--api-key", WORD],
            "args": {"api_key": [WORD, WORD], "hf_token": WORD, "port": 8000, "credentials": {"user": WORD}},
            "resolved": {"api_key": WORD, "nested": [{"password": WORD}]},
        },
        "env": {"OPENAI_API_KEY": WORD, "http_proxy": f"http://u:{WORD}@p:1"},
        "config": {"my-conf": {"settings": {"DB_PASSWORD": WORD, "NCCL_DEBUG": "INFO"}}},
        "origins": {"x": {"url": f"git+https://{WORD}@github.com/a/b"}},
        "source": {"x": {"upstream": f"https://u:{WORD}@host/x.git", "subject": f"drop password={WORD}"}},
        "missing": {"env.HF_TOKEN": "permission: /proc/1/environ", "x.y": f"failed: https://u:{WORD}@h/"},
        "outcome": {"symptom": [f"401 for url: https://host/?token={WORD}"]},
    }
    redacted = redactor.document(document)
    assert WORD not in repr(redacted)
    assert redacted["missing"]["env.HF_TOKEN"] == "permission: /proc/1/environ"
    assert redacted["config"]["my-conf"]["settings"]["NCCL_DEBUG"] == "INFO"
    assert redacted["launch"]["args"]["port"] == 8000
    assert redactor.document(redacted) == redacted


def test_a_secret_as_a_key_is_hidden(redactor: Redactor) -> None:
    secret = SHAPES[0]
    assert secret not in repr(redactor.document({"launch": {"args": {secret: True}}}))


def test_names_of_packages_and_repositories_promise_nothing(redactor: Redactor) -> None:
    document = {
        "packages": {"secretstorage": "3.3.3", "google-auth": "2.40.3", "keyring": "25.6.0", "api-key": "1.0a1"},
        "integrity": {"api-key": {"digest": "sha256:" + HEX}},
        "source": {"secret": {"commit": HEX, "branch": "main", "describe": "v1-41-gc1ed00af6"}},
        "native": {"auth_key": {"build_id": HEX, "file": "/usr/lib/auth_key.so"}},
    }
    assert redactor.document(document) == document


def test_numbers_stay_but_a_numeric_password_does_not(redactor: Redactor) -> None:
    document = {"launch": {"args": {"max_tokens": 8192, "token": 42, "enable_auth_token": True, "password": False}}}
    assert redactor.document(document) == document
    assert redactor.document({"launch": {"args": {"api_key": 123456}}}) == {
        "launch": {"args": {"api_key": redactor.hash("123456")}}
    }


def test_a_long_text_takes_time_in_proportion(redactor: Redactor) -> None:
    for text in ("token" * 40_000, "=" * 200_000, "https://" + "a:" * 100_000, "-" * 200_000, "key " * 50_000):
        redactor.text(text)  # a pattern that is not linear would take minutes
    assert WORD not in redactor.text("x" * 200_000 + f" api_key={WORD} " + "y" * 200_000)
