"""Facts of any type: written by hand, imported from elsewhere, half known. No rule may fail over them."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from error_texts import SAMPLES
from replay import PROFILES, profile

from envsnap.comparison import compare
from envsnap.explain import explain
from envsnap.explain.shapes import is_well_shaped, well_shaped
from envsnap.explain.undo import undo_script
from envsnap.facts import leaves
from envsnap.model import Snapshot

ODD: tuple[Any, ...] = (
    None, "", 0, -1, True, 1.5, [], ["a", "1"], {}, {"x": "y"}, "text", "1.2.3", "9" * 40, "unlimited", {"a": {"b": 1}},
)  # fmt: skip
FRAME = ("schema", "meta", "collectors", "missing")


def spoilt(name: str, choose: random.Random) -> Snapshot:
    """A profile of which some facts, tables or sections are something else, or gone."""
    document = profile(name).document
    paths = [path for path, _ in leaves({key: value for key, value in document.items() if key not in FRAME})]
    for _ in range(choose.choice([3, 30, 150])):
        path = choose.choice(paths)
        path = path[: choose.choice([len(path), len(path), len(path), max(1, len(path) - 1)])]
        node: Any = document
        for part in path[:-1]:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, dict):
            value = copy.deepcopy(choose.choice(ODD))
            if value is None:
                node.pop(path[-1], None)
            else:
                node[path[-1]] = value
    return Snapshot(document)


@pytest.mark.parametrize("seed", range(60))
def test_no_rule_fails_over_odd_facts(seed: int) -> None:
    choose = random.Random(seed)
    name = choose.choice(PROFILES)
    before, after = spoilt(name, choose), spoilt(name, choose)
    error = "\n".join(choose.sample(list(SAMPLES.values()), choose.choice([0, 1, 3])))
    explain(None, after, error, is_strict=True)
    changes = compare(before, after)
    explanation = explain(changes, after, error, is_strict=True)
    assert undo_script(changes, explanation.suspects).startswith("#!")


def test_what_has_not_the_shape_of_its_section_is_left_out() -> None:
    facts = {
        "gpu": {"a": {"name": "x"}, "b": "odd"},
        "env": {"A": "1"},
        "packages": "odd",
        "launch": {"args": 1, "cwd": "/"},
    }
    assert well_shaped(facts) == {"gpu": {"a": {"name": "x"}}, "env": {"A": "1"}, "launch": {"cwd": "/"}}
    assert well_shaped(facts)["env"] is facts["env"]


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        (("gpu",), False),
        (("gpu", "a"), False),
        (("gpu", "a", "name"), True),
        (("env", "A"), True),
        (("launch", "args"), False),
        (("launch", "args", "tp_size"), True),
        (("launch", "cwd"), True),
        (("libraries", "nccl", "copies"), True),
        (("libraries", "nccl", "torch"), False),
    ],
)
def test_a_path_is_as_long_as_those_of_its_section(path: tuple[str, ...], fits: bool) -> None:
    assert is_well_shaped(path) is fits
