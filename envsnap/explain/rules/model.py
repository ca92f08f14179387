"""ES81x, the model: another revision, other files, another kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = ("model.*", "launch.**", "env.*", "packages.*", "limits.**")
MOVED = "https://github.com/verl-project/verl/pull/7658"


@rule(
    "ES810",
    title="the model's revision moved",
    component="model",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(MOVED, "https://huggingface.co/docs/huggingface_hub/guides/download"),
    fires=[
        {
            "both": {"model.path": "org/model"},
            "before": {"model.revision": "a" * 40},
            "after": {"model.revision": "b" * 40},
        },
    ],
    quiet=[
        {"both": {"model.path": "org/model", "model.revision": "a" * 40}},
        {
            "before": {"model.path": "org/a", "model.revision": "a" * 40},
            "after": {"model.path": "org/b", "model.revision": "b" * 40},
        },
    ],
)
def revision_moved(ctx: RuleContext) -> Iterator[Finding]:
    """The hub's `main` moves.

    Without `--revision` each start takes what is there: another tokenizer, template, generation configuration or code.
    """
    moved = ctx.change("model.revision")
    if moved is None or ctx.moved("model.path", "launch.args.model", "launch.args.model_path") or moved.before is None:
        return
    parts = [
        name.removesuffix("_digest")
        for name in ("config_digest", "tokenizer_digest", "code_digest")
        if ctx.change(f"model.{name}") is not None
    ]
    pinned = ctx.change("launch.args.revision") is not None
    yield Finding(
        f"the model's revision moved from {str(moved.before)[:9]} to {str(moved.after)[:9]}",
        ("model.revision", *(f"model.{part}_digest" for part in parts), "launch.args.revision" if pinned else ""),
        f"{'another revision was asked for' if pinned else 'the branch on the hub moved, and no revision is pinned'}"
        + (f": {', '.join(parts)} differ" if parts else ": only files that are not compared differ"),
        strength=STRONG
        if ctx.error_is("model", "tokenizer", "transformers", "numerics", "hub") or parts
        else PLAUSIBLE,
        advice=f"pin it: --revision {moved.before}",
        key="revision",
        covers=("model.*",),
    )


@rule(
    "ES811",
    title="the model's files changed in place",
    component="model",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://huggingface.co/docs/huggingface_hub/guides/manage-cache",),
    fires=[
        {
            "both": {"model.path": "/data/m", "model.revision": "a" * 40},
            "before": {"model.tokenizer_digest": "sha256:a"},
            "after": {"model.tokenizer_digest": "sha256:b"},
        },
        {"both": {"model.path": "/data/m"}, "before": {"model.weight_files": 30}, "after": {"model.weight_files": 28}},
    ],
    quiet=[{"both": {"model.path": "/data/m", "model.tokenizer_digest": "sha256:a", "model.weight_files": 30}}],
)
def files_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Configuration, tokenizer, code or weights of the model directory were edited or only partly copied."""
    if ctx.moved("model.path", "model.revision", "launch.args.model", "launch.args.model_path"):
        return
    moved = ctx.changed(
        "model.config_digest", "model.tokenizer_digest", "model.code_digest", "model.weight_files", "model.weights_gib"
    )
    if not moved:
        return
    names = [change.path[1].removesuffix("_digest").replace("_", " ") for change in moved]
    incomplete = any(change.path[1] == "weight_files" and change.direction == "down" for change in moved)
    yield Finding(
        f"files of the model changed in place: {', '.join(names)}",
        tuple(".".join(change.path) for change in moved),
        "weight files are missing: an interrupted download or copy"
        if incomplete
        else "the directory's files are others than before under the same name and revision",
        strength=SURE if incomplete and ctx.error_is("model") else STRONG,
        key="files",
        covers=("model.*",),
    )


@rule(
    "ES812",
    title="another model, or another form of it",
    component="model",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.vllm.ai/en/latest/models/supported_models.html",),
    fires=[
        {"before": {"model.path": "/data/a"}, "after": {"model.path": "/data/b"}},
        {
            "both": {"model.path": "/data/a"},
            "before": {"model.quantization": "fp8"},
            "after": {"model.quantization": "awq"},
        },
    ],
    quiet=[{"both": {"model.path": "/data/a", "model.quantization": "fp8", "model.dtype": "bfloat16"}}],
)
def other_model(ctx: RuleContext) -> Iterator[Finding]:
    """Another model needs other memory, kernels and support of the engine.

    So do another data type and another quantisation.
    """
    path = ctx.change("model.path") or ctx.change("launch.args.model") or ctx.change("launch.args.model_path")
    form = ctx.changed("model.quantization", "model.dtype", "model.architecture")
    if path is None and not form:
        return
    moved = path or form[0]
    yield Finding(
        f"{'model' if path is not None else moved.path[-1]} {moved.before} → {moved.after}",
        (
            "model.path",
            "launch.args.model",
            "launch.args.model_path",
            *(".".join(change.path) for change in form),
            "model.weights_gib",
        ),
        "another model (or form of it) needs other memory, kernels and support of the engine",
        strength=STRONG
        if ctx.error_is("model", "memory", "memory-fraction", "transformers", "hub", "arch", "tokenizer")
        else PLAUSIBLE,
        key="model",
        covers=("model.*", "launch.args.model*", "launch.resolved.*", "launch.budget.*"),
    )
