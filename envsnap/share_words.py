"""What the share level tells apart: public words that may stay in a path or a URL, and the shapes of private things."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from envsnap.secret_names import words

REASONS = {
    "host": "name of a machine",
    "user": "name of an account",
    "path": "folder or file of its owner",
    "gpu": "identity of a GPU",
    "mig": "identity of a MIG device",
    "ip": "network address",
    "mac": "hardware address",
    "uuid": "unique identifier",
    "id": "unique identifier",
    "guid": "hardware address",
    "serial": "serial number",
    "bucket": "name of a bucket",
    "registry": "name of a registry",
    "project": "name of a repository",
    "account": "name of a cluster, an account or a job",
}
"""Kinds of what is replaced, and why."""

PUBLIC_PARTS = words(
    """
    usr lib lib64 lib32 libx32 libexec bin sbin etc proc sys dev boot run var tmp opt mnt media srv home root nix snap
    store local share include src python pkgs envs env venv .venv venvs virtualenvs conda miniconda miniconda3 anaconda3
    miniforge3 mambaforge .local .cache .config .nccl.conf cache caches log logs models model data datasets weights
    checkpoints scratch shared nfs lustre gpfs fsx workspace work workdir sgl-workspace vllm-workspace app code project
    projects repo repos hub snapshots blobs refs huggingface torch sglang vllm flashinfer triton transformers nccl cuda
    nvidia compat targets stubs extras nvvm ucx hpcx mellanox ofed nccl-tests deepspeed deep_gemm tvm-ffi inductor users
    torchinductor torch_compile_cache torch_extensions cutlass jit_cache pytorch shm site-packages dist-packages
    kernel kernels io pci devices bus class infiniband net numa node fs cgroup module modules params systemd system user
    hf nv .nv ComputeCache .triton hcoll lib-dynload jit configs recipes serving train torchinductor_root etc-nccl-conf
    .pyenv pyenv versions shims .cargo .rustup .nvm .npm uv .uv uvx pipx condabin scripts activate csrc utils __w build
    nvcc nvidia-smi gcc g++ cc c++ clang clang++ ninja cmake ptxas cuobjdump nvlink fatbinary git bash sh uname ldconfig
    conf default profile.d ld.so.conf.d modprobe.d modules-load.d security limits.conf limits.d ld.so.preload
    """
)
"""Parts of paths that tell nobody's name: what every machine has, and the folders that public images and guides use."""

SYSTEM_ROOTS = words("etc proc sys dev bin sbin lib lib64 lib32 boot")
"""Folders whose content is the system's own; below /usr the same holds but for /usr/local."""

KEPT_SUFFIX = re.compile(
    r"[\w.+-]{1,80}\.(?:py|pyc|so(?:\.[\d.]+)?|toml|json|ya?ml|cu|cuh|cpp|cc|h|hpp|sh|log|txt|md|conf|xml|pth|cfg|whl"
    r"|safetensors|gguf|lock|ini|service|bin)"
)
"""Names of files that stay readable at the end of a private path, as in the frames of a traceback."""

PUBLIC_HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:github\.com|githubusercontent\.com|github\.io|gitlab\.com|huggingface\.co|hf\.co|hf-mirror\.com|"
    r"pypi\.org|pythonhosted\.org|pytorch\.org|nvidia\.com|nvidia\.cn|nvcr\.io|docker\.io|docker\.com|ghcr\.io|quay\.io|"
    r"gcr\.io|k8s\.io|kernel\.org|python\.org|conda\.io|anaconda\.org|anaconda\.com|ubuntu\.com|debian\.org|"
    r"flashinfer\.ai|vllm\.ai|sglang\.ai|sgl-project\.github\.io|modelscope\.cn|wandb\.ai|"
    r"stackoverflow\.com|readthedocs\.io|freedesktop\.org|w3\.org|apache\.org|openai\.com)|localhost",
    re.IGNORECASE,
)
"""Hosts that everybody knows."""

PRIVATE_DOMAIN = (
    r"local|localdomain|internal|intranet|intra|lan|corp|private|home\.arpa|cluster\.local|svc|svc\.cluster\.local|"
    r"compute\.internal|ec2\.internal|consul"
)

COMMON_NAMES = words(
    """
    root user users admin administrator nobody daemon ubuntu debian centos fedora rocky ec2-user vscode jovyan runner
    docker container host hosts localhost local node nodes gpu gpus cuda rank worker workers master server client main
    head test tests tester dev build app web api data model models train training infer inference default none null true
    false python torch vllm sglang triton nccl linux system service slurm ray home work workspace python3 vm pod job
    bash shell conda base prod production staging auto info warn error debug trace version driver kernel proxy
    registry mirror git gitlab github cache store storage gateway login artifacts wheels pypi index docs www api
    """
)
"""Names that say nothing about anybody, and would take half of a report with them if they were replaced everywhere."""

IMAGE = re.compile(
    r"(?:(?<=oci://)|(?<=docker://)|(?<![\w./:@-]))((?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d{2,5})?|[a-z0-9-]+:\d{2,5}|localhost:\d{2,5})/"
    r"((?:[a-z0-9._-]+/)*)([a-z0-9._-]+)(?=[:@][\w.:-])",
)
"""An image with its registry: `registry.acme.io/team/image:tag`."""
BUCKET = re.compile(
    r"\b(s3|s3a|gs|gcs|az|abfss?|wasbs?|hdfs|oss|obs|cos|r2|tos|swift|b2)://([^\s/'\"<>,;:@]+@)?([^\s/'\"<>,;)\]}]+)"
    r"(/[^\s'\"<>,;)\]}]*)?",
    re.IGNORECASE,
)
BUCKET_HOST = re.compile(
    r"https?://(?:([\w.-]{1,200}?)\.(?:s3|obs|oss|cos|blob|storage)[\w.-]*\.(?:com|net|cn)|"
    r"(?:s3[\w.-]*\.amazonaws\.com|storage\.googleapis\.com)/([\w.-]+))(/[^\s'\"<>,;)\]}]*)?",
    re.IGNORECASE,
)
URL = re.compile(
    r"\b((?!hf:|docker:|oci:|model:)[a-z][a-z0-9+.-]{1,20})://((?:[^\s/@'\"<>]|<redacted:[0-9a-f]*>)*@)?(\[[0-9a-fA-F:.]+\]|[^\s/:'\"<>,;?#)\]}]+)(:\d{1,5})?"
    r"(/[^\s'\"<>,;)\]}]*)?",
    re.IGNORECASE,
)
SCP = re.compile(r"\b([\w.-]{1,64})@([\w-]+(?:\.[\w-]+)+):([\w./~-]+)")
MAIL = re.compile(r"(?<![\w.@/:+-])([\w.+-]{1,64})@((?!sha256|sha512)(?:[\w-]+\.)*[A-Za-z][\w-]*)(?![\w-])")
UUID = re.compile(
    r"(?<![0-9A-Za-z])((?:GPU|MIG|GI)-)?([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
    r"(?![0-9A-Za-z])"
)
GPU_UUID = re.compile(r"(?<![0-9A-Za-z])GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MAC = re.compile(
    r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])|"
    r"(?<![0-9A-Fa-f-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f-])"
)
GUID = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![0-9A-Fa-f:])|\b0x[0-9a-f]{16}\b(?=.{0,4}guid)")
IPV4 = re.compile(
    r"(?<![\w.+-])(?<!==)((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})(:\d{1,5}|/\d{1,2})?(?![\w.-]|\.\d)"
)
IPV6 = re.compile(
    r"(?<![\w:.])((?:[23][0-9a-f]{3}|f[c-f][0-9a-f]{2})(?::[0-9a-f]{0,4}){2,7})(?:%[\w-]+)?(?![\w:])", re.IGNORECASE
)
VERSION_BEFORE = re.compile(r"(?:version|release|\bV|cudnn|[=<>!~]=|\]\s\S{1,60})\s{0,3}[:=v]?\s{0,3}$", re.IGNORECASE)
PATH = re.compile(r"(?:(?<![\w.<~@/+-])|(?<=file://)|(?<=-[ILB]))~?/(?:[^\s/:'\"`<>,;|()\[\]{}=&?*#\\]+/{0,3})+")
NCCL_HOST = re.compile(r"^\W{0,3}(?:\S+ )?([A-Za-z][\w.-]{2,60}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL", re.MULTILINE)
PROMPT = re.compile(r"\b([a-z_][\w.-]{1,31})@([\w.-]{2,60}):[~/]", re.MULTILINE)
FQDN = re.compile(
    rf"(?<![\w/@-])(?<!\w\.)((?:[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?\.)+(?:{PRIVATE_DOMAIN}))(?![\w-])", re.IGNORECASE
)
USER_IN_PATH = re.compile(r"/(?:home|[Uu]sers)/([^\s/:'\"`<>,;|()\[\]{}=&?*#\\]+)")
PUBLIC_SHAPES = re.compile(
    r"python[\d.]*t?(?:\.zip)?|vmlinuz-[\w.-]+|initrd[\w.-]*|gpu_p2p_access_cache_for_[\d,_-]+(?:\.json)?|lib[\w+-]{1,40}\.(?:so|a)[\d.]*|\d{1,10}|[0-9a-f]{7,64}|(?:x86_64|aarch64|sbsa)[\w-]*|models--[\w.-]+|"
    r"(?:cuda|nvhpc|hpcx|nccl|cudnn|mlnx|gcc|llvm)[-_v]?[\d.]+|cu\d{2,3}|sm_?\d{2,3}a?|ld-linux[\w.-]*|_[A-Z]{1,2}|\.{1,2}|\d{1,3}\.\d{1,3}(?:\.\d{1,4})?|"
    r"__editable__[\w.+-]*|(?:meta-|deepseek-ai-)?(?:llama|qwen|deepseek|mistral|mixtral|gemma|glm|phi|gpt-oss|kimi|"
    r"minimax|opt|gpt2|bge|e5|nemotron)(?:[-_.]?(?:v?\d+(?:\.\d+)*|\d+x\d+b|a?\d+(?:\.\d+)?[bm]|e\d+b|instruct|chat|base|it|hf|"
    r"fp8|fp4|nvfp4|awq|gptq|int4|int8|w8a8|w4a16|coder|math|moe|next|thinking|vl|r1|small|large|mini|nemo|air|flash|"
    r"distill|llama|qwen|embedding|reranker|m3|k2|m1|m2|preview|terminus|exp|super|ultra|nano))*",
    re.IGNORECASE,
)
"""Parts of a path that are public by their shape: versions, libraries, commits, names of published models."""
SERIAL = re.compile(
    r"(?:(?<![A-Za-z])serial(?:[ _-]?(?:number|no))?|\bs/n|\basset[ _-]?tag)"
    r"[\"']?\s{0,24}[:=]\s{0,4}[\"']?[\w-]*\d[\w-]*",
    re.IGNORECASE,
)
"""A serial number with its name: nothing else tells it from a count."""
NAMED = re.compile(r"^(?:export )?([A-Za-z_]\w{2,60})=[\"']?([^\s\"']{3,120})", re.MULTILINE)
"""A variable of a listing, whose name may tell that its value is a name of somebody."""
REFLOG = re.compile(r"(reflog (\S+): [\w -]+(?:\([\w -]+\))?: )(.+)", re.DOTALL)
"""A move of HEAD: behind the command stands the first line of the commit's message, or names of branches."""
REMOTE_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/@]*@)?([\w.-]+)[:/]")
OF_A_REPOSITORY = words("branch subject modified untracked")
"""What of a private repository tells what is worked on in it."""
ALIAS = re.compile(r"(?:host|user|path|gpu|mig|ip|mac|uuid|serial|bucket|registry|project|account|id|guid)-\d+")

_PATTERNS = {
    "serial": SERIAL,
    "uuid": UUID,
    "bucket": BUCKET,
    "bucket_host": BUCKET_HOST,
    "url": URL,
    "scp": SCP,
    "mail": MAIL,
    "image": IMAGE,
    "mac": MAC,
    "guid": GUID,
    "ipv6": IPV6,
    "ipv4": IPV4,
    "path": PATH,
    "fqdn": FQDN,
}
ANY = re.compile(
    "|".join(
        f"(?P<{name}>(?{'i' if pattern.flags & re.IGNORECASE else ''}:{pattern.pattern}))"
        for name, pattern in _PATTERNS.items()
    )
)
"""All shapes in one pattern; the name of the group that matched is the shape's."""

_USER_FIELD = re.compile(r"(?:.*_)?(?:user|logname|username)", re.IGNORECASE)
_HOST_FIELD = re.compile(
    r"(?:.*_)?(?:host|hostname|host_ip|addr|address|nodename|nodelist|hosts|fqdn|init_method)", re.IGNORECASE
)
_ACCOUNT_FIELD = re.compile(
    r"(?:.*_)?(?:account|cluster_name|job_name|partition|reservation|qos|pod_name|pod_namespace|project|entity|tenant)",
    re.IGNORECASE,
)
_SERIAL_FIELD = re.compile(r"(?:.*_)?serial", re.IGNORECASE)
NOBODY = frozenset(("", "0.0.0.0", "::", "localhost", "none", "auto", "unknown", "127.0.0.1", "::1"))  # noqa: S104 - names to leave alone


class Redaction(NamedTuple):
    """What was replaced: its kind, what stood there, what stands there now, and how often."""

    kind: str
    original: str
    alias: str
    times: int

    @property
    def reason(self) -> str:
        """Why it was replaced."""
        return REASONS[self.kind]


def kind_of_field(path: tuple[str, ...]) -> str:
    """What a fact's value is as a whole, by its name; empty where its name does not tell."""
    name, section = path[-1], path[0]
    if path == ("meta", "host"):
        return "host"
    if section == "meta" or section in ("packages", "pins", "collectors", "missing"):
        return ""
    if _SERIAL_FIELD.fullmatch(name):
        return "serial"
    if path == ("container", "id"):
        return "id"
    if section not in ("env", "launch", "gpu", "config", "network"):
        return ""
    for kind, pattern in (("user", _USER_FIELD), ("host", _HOST_FIELD), ("account", _ACCOUNT_FIELD)):
        if pattern.fullmatch(name):
            return kind
    return ""


def bare_host(value: str) -> str:
    """A name of a machine without scheme, port and account."""
    bare = value.partition("://")[2] or value
    return re.sub(r":\d{1,5}$", "", bare.rpartition("@")[2])


def is_everyone(address: str) -> bool:
    """Whether an address is every machine's own."""
    return address.startswith(("127.", "255.")) or address in NOBODY


def normal(name: str) -> str:
    """A name of a package in one spelling."""
    return name.lower().replace("_", "-")


DOTTED = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
"""Four numbers: an address, or a version that looks like one."""
VERSIONED = ("packages", "pins", "libraries", "cuda", "torch", "driver", "origins")


def leaves_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a table with its path; the items of a list share one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from leaves_of(item, path)
    elif not isinstance(value, datetime.datetime):
        yield path, value


def dotted_versions(document: Mapping[str, Any]) -> set[str]:
    """Versions of four numbers that a document tells (`12.6.4.1`): they look like addresses and are none."""
    values = [value for section in VERSIONED for _, value in leaves_of(document.get(section, {}))]
    # Events name packages with their versions; those of the reflog hold what people wrote.
    values += [text for text in document.get("events", {}).values() if not str(text).startswith("reflog ")]
    return {found for value in values if isinstance(value, str) for found in DOTTED.findall(value)}
