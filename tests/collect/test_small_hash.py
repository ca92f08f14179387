"""Small and large contents have the digest that everybody computes."""

from __future__ import annotations

import hashlib

import pytest

from envsnap.collect.small_hash import LARGE, sha256


@pytest.mark.parametrize("data", [b"", b"x", b"x" * LARGE, b"x" * (LARGE + 1)])
def test_digest_is_sha_256(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).digest()
