"""What options a framework declares: read from its own source, by its syntax tree, never by importing it.

Three forms are understood: `parser.add_argument("--tensor-parallel-size", "-tp", ...)`; SGLang's fields
`tp_size: A[int, Arg(aliases=["--tensor-parallel-size"])]`; vLLM's dataclasses `EngineArgs` and `FrontendArgs`, each
field of which is an option of its own name. Sources of truth: argparse; `add_cli_args_from_dataclass` in
sglang/srt/arg_groups/arg_utils.py of SGLang 0.5.23; `get_kwargs` in vllm/engine/arg_utils.py of vLLM 0.33.0.
"""

from __future__ import annotations

import ast

from envsnap.collect.arguments.option import (
    ANY,
    APPEND,
    FLAG,
    FLOAT,
    GUESS,
    INT,
    OFF,
    ONE,
    ONE_OR_SEVERAL,
    OPTIONAL,
    SEVERAL,
    SWITCH,
    TEXT,
    Option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def read_options(texts: Iterable[str], *, bare_fields: bool) -> dict[str, Option]:
    """The options that some source files declare, by option string.

    `bare_fields`: whether each field of a class `...Args` is an option although nothing marks it (vLLM's rule). A
    file with a syntax that this Python does not know counts as empty.
    """
    trees = []
    for text in texts:
        try:
            trees.append(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    declared = list(_fields(trees))
    found: dict[str, Option] = {}
    for name, annotation, owner in declared:
        for option, names in _of_field(name, annotation, bare=bare_fields and owner.endswith("Args")):
            for written in names:
                found.setdefault(written, option)
    fields = {name: annotation for name, annotation, _ in reversed(declared)}
    for call in _calls(trees):
        names = [node.value for node in call.args if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        names = [written for written in names if written.startswith("-")]
        if names:
            option = _of_call(call, names, fields, bare=bare_fields)
            found.update(dict.fromkeys(names, option))
    return found


def _fields(trees: list[ast.Module]) -> Iterator[tuple[str, ast.expr, str]]:
    """The annotated names of all classes, each with the name of its class."""
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                        yield line.target.id, line.annotation, node.name


def _calls(trees: list[ast.Module]) -> Iterator[ast.Call]:
    """The calls of `add_argument`; they stand as statements of their own or are assigned."""
    waiting: list[ast.AST] = list(trees)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr == "add_argument":
                yield node.value
        elif isinstance(node, ast.stmt | ast.Module):
            for name in ("body", "orelse", "finalbody"):
                waiting += getattr(node, name, [])


# -- fields ----------------------------------------------------------------------------------------------------------


def _of_field(name: str, annotation: ast.expr, *, bare: bool) -> Iterator[tuple[Option, list[str]]]:
    """The option that a field declares, with its strings."""
    own = f"--{name.replace('_', '-')}"
    metadata = _metadata(annotation)
    if metadata is None:
        if bare and not name.startswith("_"):
            kind, count = _of_hint(annotation, bool_kind=SWITCH)
            yield Option(name, kind, count), [own]
        return
    hint, marks = metadata
    argument = next((mark for mark in marks if isinstance(mark, ast.Call) and _name(mark.func) == "Arg"), None)
    if argument is None and not any(isinstance(mark, ast.Constant | ast.JoinedStr) for mark in marks):
        return
    words = {keyword.arg: keyword.value for keyword in argument.keywords if keyword.arg} if argument else {}
    if _constant(words.get("no_cli")) is True:
        return
    names = [_constant(words.get("cli_name")) or own, *_strings(words.get("aliases"))]
    kind, count = _of_hint(hint, bool_kind=FLAG, is_parsed="type_parser" in words)
    if "type_parser" in words:
        kind = _kind_of_parser(words["type_parser"])
    if "nargs" in words:
        count = _count(words["nargs"], count)
    if "action" in words:
        kind, count = _of_action(words["action"], kind, count)
    yield Option(name, kind, count), [str(written) for written in names]


def _metadata(annotation: ast.expr) -> tuple[ast.expr, list[ast.expr]] | None:
    """Type and marks of `Annotated[T, ...]` or its short form `A[T, ...]`."""
    if isinstance(annotation, ast.Subscript) and _name(annotation.value) in ("A", "Annotated"):
        parts = annotation.slice
        if isinstance(parts, ast.Tuple) and parts.elts:
            return parts.elts[0], parts.elts[1:]
    return None


def _of_hint(hint: ast.expr, *, bool_kind: str, is_parsed: bool = False) -> tuple[str, str]:
    """Kind and count that follow from a type: both frameworks look at its alternatives in this order."""
    alternatives = list(_alternatives(hint))
    names = {_name(node) for node in alternatives}
    if {"bool", "str"} <= names:
        return TEXT, OPTIONAL
    if "bool" in names:
        return bool_kind, ONE
    for node in alternatives:
        if isinstance(node, ast.Subscript) and _name(node) == "Literal":
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            is_number = isinstance(_constant(first), int) and "str" not in names
            return (INT if is_number else TEXT), ONE
    for node in alternatives:
        if _name(node) in ("list", "List", "set", "tuple", "Sequence") and not is_parsed:
            inner = node.slice if isinstance(node, ast.Subscript) else None
            inner = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
            return _scalar({_name(inner)} if inner is not None else set()), (
                ONE_OR_SEVERAL if "str" in names else SEVERAL
            )
    return _scalar(names), ONE


def _scalar(names: set[str]) -> str:
    if "str" in names or "dict" in names or "Dict" in names:
        return TEXT
    if "int" in names:
        return INT
    if "float" in names:
        return FLOAT
    return GUESS


def _alternatives(hint: ast.expr) -> Iterator[ast.expr]:
    """The types of a union, without None; a quoted annotation is read as if it were not."""
    if isinstance(hint, ast.BinOp):
        yield from _alternatives(hint.left)
        yield from _alternatives(hint.right)
    elif isinstance(hint, ast.Subscript) and _name(hint) in ("Optional", "Union"):
        for part in hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]:
            yield from _alternatives(part)
    elif isinstance(hint, ast.Constant):
        if isinstance(hint.value, str):
            try:
                yield from _alternatives(ast.parse(hint.value, mode="eval").body)
            except (SyntaxError, ValueError):
                return
    else:
        yield hint


# -- calls -----------------------------------------------------------------------------------------------------------


def _of_call(call: ast.Call, names: list[str], fields: dict[str, ast.expr], *, bare: bool) -> Option:
    """The option of one call of `add_argument`."""
    words = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    shared = next((keyword.value for keyword in call.keywords if keyword.arg is None), None)
    name = _destination(words, names, fields)
    if "action" not in words and "type" not in words and shared is not None:
        subject = _shared_field(shared)
        hint = fields.get(name) or (fields.get(subject) if subject else None)
        kind, count = _of_hint(hint, bool_kind=SWITCH if bare else FLAG) if hint is not None else (GUESS, ONE)
    else:
        kind, count = (_kind_of_parser(words["type"]) if "type" in words else TEXT), ONE
    if "nargs" in words:
        count = _count(words["nargs"], count)
    if "action" in words:
        kind, count = _of_action(words["action"], kind, count)
    return Option(name, kind, count)


def _destination(words: dict[str, ast.expr], names: list[str], fields: dict[str, ast.expr]) -> str:
    """What the value is called: the field that it ends up in, which SGLang's `default=ServerArgs.tp_size` names."""
    given = _constant(words.get("dest"))
    if isinstance(given, str) and given in fields:
        return given
    candidates = [written.lstrip("-").replace("-", "_") for written in names if written.startswith("--")]
    own = [given] if isinstance(given, str) else candidates or [names[0].lstrip("-").replace("-", "_")]
    default = words.get("default")
    if own[0] not in fields:
        if isinstance(default, ast.Attribute) and default.attr in fields and default.attr in candidates:
            return default.attr
        own = [name for name in candidates if name in fields] or own
    return own[0]


def _shared_field(node: ast.expr) -> str | None:
    """The field in `**parallel_kwargs["tensor_parallel_size"]`."""
    found = _constant(node.slice) if isinstance(node, ast.Subscript) else None
    return found if isinstance(found, str) else None


def _of_action(action: ast.expr, kind: str, count: str) -> tuple[str, str]:
    """Kind and count under an action: argparse's own by name, others by what their class is called."""
    name = str(_constant(action) or _name(action)).lower().replace("_", "")
    for part, found in (("storetrue", FLAG), ("storefalse", OFF), ("booleanoptional", SWITCH), ("count", FLAG)):
        if part in name:
            return found, ONE
    if name in ("append", "extend"):
        return kind, APPEND if name == "append" else SEVERAL
    return kind, count


def _kind_of_parser(parser: ast.expr) -> str:
    """What `type=` makes of a word; JSON stays the text that it is."""
    name = _name(parser.func) if isinstance(parser, ast.Call) else _name(parser)
    if isinstance(parser, ast.Call) and parser.args and name.startswith("optional"):
        return _kind_of_parser(parser.args[0])
    if isinstance(parser, ast.Attribute) and _name(parser.value) == "json":
        return TEXT
    lowered = name.lower()
    for part, kind in (("int", INT), ("float", FLOAT), ("str", TEXT), ("json", TEXT)):
        if lowered == part or lowered.startswith(f"{part}_") or lowered.endswith(f"_{part}") or f"_{part}_" in lowered:
            return kind
    return TEXT if lowered in ("loads", "path") else GUESS


def _count(node: ast.expr, otherwise: str) -> str:
    found = _constant(node)
    if isinstance(found, int):
        return str(found)
    return found if isinstance(found, str) and found in (OPTIONAL, ANY, SEVERAL) else otherwise


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _strings(node: ast.expr | None) -> list[str]:
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    return [part.value for part in elements if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _name(node: ast.expr) -> str:
    """The last part of a name: `argparse.BooleanOptionalAction`, `Optional[int]`; empty for anything else."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
