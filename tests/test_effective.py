"""Which value of a variable wins: the environment, NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.effective import effective_settings, unread_layers
from envsnap.model import Snapshot
from envsnap.render.effective_text import effective_lines
from envsnap.render.lines import plain


def conf(path: str, **settings: str) -> dict[str, Any]:
    return {"path": path, "digest": "sha256:0", "settings": settings}


def snapshot(env: dict[str, str], missing: dict[str, str] | None = None, **config: dict[str, Any]) -> Snapshot:
    files = {name.replace("_", "-"): table for name, table in config.items()}
    return Snapshot({"schema": 1, "meta": {}, "missing": missing or {}, "env": env, "config": files})


def found(of: Snapshot) -> dict[str, tuple[str, str, list[tuple[str, str]]]]:
    return {setting.name: (setting.value, setting.origin, setting.hidden) for setting in effective_settings(of)}


HOME = conf("/home/me/.nccl.conf", NCCL_ALGO="Tree", NCCL_PROTO="LL", NCCL_DEBUG="INFO")
SYSTEM = conf("/etc/nccl.conf", NCCL_ALGO="NVLS", NCCL_PROTO="Simple", NCCL_IB_TC="106")
NAMED = conf("/srv/my.conf", NCCL_PROTO="LL128")


def test_the_environment_wins_then_the_users_file_then_the_machines() -> None:
    assert found(snapshot({"NCCL_ALGO": "Ring"}, home_nccl_conf=HOME, etc_nccl_conf=SYSTEM)) == {
        "NCCL_ALGO": ("Ring", "environment", [("/home/me/.nccl.conf", "Tree"), ("/etc/nccl.conf", "NVLS")]),
        "NCCL_DEBUG": ("INFO", "/home/me/.nccl.conf", []),
        "NCCL_IB_TC": ("106", "/etc/nccl.conf", []),
        "NCCL_PROTO": ("LL", "/home/me/.nccl.conf", [("/etc/nccl.conf", "Simple")]),
    }


def test_a_named_file_stands_in_the_place_of_the_users() -> None:
    env = {"NCCL_CONF_FILE": "/srv/my.conf"}
    settings = found(snapshot(env, nccl_conf_file=NAMED, home_nccl_conf=HOME, etc_nccl_conf=SYSTEM))
    assert settings["NCCL_PROTO"] == ("LL128", "/srv/my.conf", [("/etc/nccl.conf", "Simple")])
    assert settings["NCCL_ALGO"] == ("NVLS", "/etc/nccl.conf", [])
    assert "NCCL_DEBUG" not in settings


def test_a_name_that_is_empty_names_no_file() -> None:
    settings = found(snapshot({"NCCL_CONF_FILE": ""}, home_nccl_conf=HOME))
    assert settings["NCCL_ALGO"] == ("Tree", "/home/me/.nccl.conf", [])


def test_a_variable_that_is_set_to_nothing_hides_the_files() -> None:
    settings = found(snapshot({"NCCL_ALGO": ""}, home_nccl_conf=HOME))
    assert settings["NCCL_ALGO"] == ("", "environment", [("/home/me/.nccl.conf", "Tree")])


def test_what_the_environment_is_not_captured_for_is_left_out() -> None:
    assert found(snapshot({}, etc_nccl_conf=conf("/etc/nccl.conf", SOMETHING="1", NCCL_X="2"))).keys() == {"NCCL_X"}


def test_places_that_could_not_be_read() -> None:
    missing = {"config.etc-nccl-conf.settings": "permission: /etc/nccl.conf", "env": "permission: /proc/7/environ"}
    of = snapshot({}, missing, etc_nccl_conf={"path": "/etc/nccl.conf"})
    assert unread_layers(of) == {
        "environment": "permission: /proc/7/environ",
        "/etc/nccl.conf": "permission: /etc/nccl.conf",
    }
    assert "not known: /etc/nccl.conf (permission: /etc/nccl.conf)" in plain(effective_lines(of))


def test_lines() -> None:
    of = snapshot({"NCCL_ALGO": "Ring", "NCCL_IB_TC": ""}, etc_nccl_conf=SYSTEM)
    assert plain(effective_lines(of)).splitlines() == [
        "NCCL_ALGO   Ring    from the environment",
        "            NVLS    not used, of /etc/nccl.conf",
        'NCCL_IB_TC  ""      from the environment',
        "            106     not used, of /etc/nccl.conf",
        "NCCL_PROTO  Simple  from /etc/nccl.conf",
    ]
    assert plain(effective_lines(of, "NCCL_PROTO")) == "NCCL_PROTO  Simple  from /etc/nccl.conf\n"
    assert plain(effective_lines(of, "NCCL_NONE")) == "`NCCL_NONE` is set nowhere\n"


_LAYER = st.dictionaries(st.sampled_from(["NCCL_A", "NCCL_B", "NCCL_C"]), st.sampled_from(["", "1", "2"]))


@given(env=_LAYER, home=_LAYER, system=_LAYER)
def test_it_is_what_setenv_without_overwriting_gives(
    env: dict[str, str], home: dict[str, str], system: dict[str, str]
) -> None:
    seen = dict(env)
    for file in (home, system):
        for name, value in file.items():
            seen.setdefault(name, value)
    of = snapshot(env, home_nccl_conf=conf("h", **home), etc_nccl_conf=conf("e", **system))
    assert {setting.name: setting.value for setting in effective_settings(of)} == seen


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def named(envsnap: Any) -> dict[str, str]:
    (envsnap.cwd / "my.conf").write_text("NCCL_ALGO=Tree\nNCCL_IB_HCA=mlx5_0\n")
    return {"NCCL_CONF_FILE": "my.conf", "NCCL_ALGO": "Ring"}


def test_show_effective(envsnap: Any, named: dict[str, str]) -> None:
    envsnap.take(**named)
    lines = envsnap("show", "env", "--effective").stdout.splitlines()
    place = str(envsnap.cwd / "my.conf")
    assert [line.split() for line in lines if line.startswith("NCCL_IB_HCA")] == [
        ["NCCL_IB_HCA", "mlx5_0", "from", place]
    ]
    assert [line.split()[:2] for line in lines if "not used" in line] == [["Tree", "not"]]
    only = json.loads(envsnap("show", "env.NCCL_ALGO", "--effective", "--json").stdout)
    assert only["schema"] == "envsnap.effective/1"
    assert only["variables"] == {
        "NCCL_ALGO": {"value": "Ring", "origin": "environment", "hidden": [{"origin": place, "value": "Tree"}]}
    }
    assert envsnap("show", "latest", "--effective").stdout.splitlines() == lines


def test_show_effective_of_now_and_of_the_wrong_thing(envsnap: Any, named: dict[str, str]) -> None:
    out = envsnap("show", "now:env.NCCL_IB_HCA", "--effective", **named).stdout
    assert out.split()[:2] == ["NCCL_IB_HCA", "mlx5_0"]
    envsnap.take()
    assert "not about `gpu`" in envsnap("show", "latest:gpu", "--effective", code=2).stderr
