"""model: what is being served, as its directory or the hub's cache on this machine tells. Weights are never hashed.

Sources of truth: the command line for its name; config.json, hf_quant_config.json and the names and sizes of its
files for the rest. A model that still has to be fetched, or only lies there in part, is not known.
"""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.collect.env import readable
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.collect.arguments import Arguments
    from envsnap.collect.declare import Facts
    from envsnap.collect.model_files.places import Place
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "model.path", IDENTITY, "string",
        "Where the model lies: its directory, that of its repository in the hub's cache, or its name on the hub while "
        "it is not there", weight=6,
    ),
    FactSpec(
        "model.revision", IDENTITY, "string",
        "The commit of the hub's or git's repository: the cache's refs, the notes of a download, HEAD", weight=7,
    ),
    FactSpec("model.architecture", IDENTITY, "string", "`architectures[0]` of config.json", weight=6),
    FactSpec(
        "model.quantization", IDENTITY, "string",
        "The method that config.json or hf_quant_config.json names", weight=6,
    ),
    FactSpec("model.dtype", IDENTITY, "string", "The data type that config.json names", weight=6),
    FactSpec("model.config_digest", IDENTITY, "string", "`sha256:` of config.json", weight=6),
    FactSpec(
        "model.tokenizer_digest", IDENTITY, "string",
        "`sha256:` over names and contents of the tokenizer's files, the chat template among them", weight=5,
    ),
    FactSpec(
        "model.code_digest", IDENTITY, "string",
        "`sha256:` over the model's own Python files (remote code)", weight=6,
    ),
    FactSpec(
        "model.weights_gib", IDENTITY, "number",
        "Size in GiB of the weight files that a server loads; stat", weight=6,
    ),
    FactSpec(
        "model.weight_files", IDENTITY, "integer",
        "How many weight files a server loads; the directory", weight=5,
    ),
]  # fmt: skip

NAMES = ("model_path", "model", "model_name_or_path", "pretrained_model_name_or_path", "model_id", "model_dir")
"""Options that name the model, first that is given."""
ENGINES = ("sglang", "vllm", "tgi", "trtllm", "lmdeploy", "aphrodite", "ktransformers", "mlc-llm")
"""Frameworks in whose command such an option names a model for certain; elsewhere it does if there is one."""


@collector(section="model", facts=FACTS, deadline=2.0)
def collect_model(host: Host) -> Iterator[Facts]:
    """Find the model that the command names and read its small files."""
    from envsnap.collect.arguments import arguments_of
    from envsnap.collect.machine.inside import inside

    if not host.argv:
        yield {"model": host.denied.get("argv", Missing("not-asked", "no command was given"))}
        return
    arguments = arguments_of(host, host.argv)
    name = _name(arguments)
    if name is None:
        yield {"model": arguments.unread or {}}
        return
    files = inside(host)
    if isinstance(files, Missing):
        yield {"model": files}
        return
    yield from _describe(files, arguments, name)


def _name(arguments: Arguments) -> str | None:
    for option in NAMES:
        found = arguments.values.get(option)
        if isinstance(found, str) and found:
            return found
    if arguments.started.framework == "tgi":
        return arguments.started.host.environ.get("MODEL_ID") or None
    if arguments.started.framework == "llama.cpp":
        found = arguments.values.get("m")
        return found if isinstance(found, str) and found else None
    return None


def _describe(files: Host, arguments: Arguments, name: str) -> Iterator[Facts]:
    from envsnap.collect.model_files.places import find_model

    place = find_model(arguments.started.host, files, name, arguments.values)
    if place.missing is not None and arguments.started.framework not in ENGINES:
        return  # `--model resnet50` of some script: nothing says that it is one of a hub
    yield {"model": {"path": readable(place.path)}}
    if place.missing is not None:
        yield {"model": place.missing}
        return
    yield {"model": {"revision": place.revision}}
    yield {"model": _configured(files, place)}
    yield {"model": _measured(files, place)}


def _configured(files: Host, place: Place) -> dict[str, Any]:
    from envsnap.collect.config import digest_of
    from envsnap.collect.model_files.contents import architecture_of, dtype_of, quantization_of, read_config

    found = read_config(files, place, "config.json")
    modelopt = read_config(files, place, "hf_quant_config.json")
    if isinstance(found, Missing):
        return dict.fromkeys(("architecture", "config_digest", "dtype", "quantization"), found)
    if found is None:
        return {}
    data, config = found
    return {
        "architecture": architecture_of(config),
        "config_digest": digest_of(data),
        "dtype": dtype_of(config),
        "quantization": modelopt
        if isinstance(modelopt, Missing)
        else quantization_of(config, modelopt[1] if modelopt else None),
    }


def _measured(files: Host, place: Place) -> dict[str, Any]:
    from envsnap.collect.model_files.contents import digests_of
    from envsnap.collect.model_files.weights import weights_of

    weights = weights_of(files, place)
    return {"weight_files": weights.count, "weights_gib": weights.gib, **(digests_of(files, place))}
