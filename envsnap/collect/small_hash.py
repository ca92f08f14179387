"""SHA-256 of small contents without importing hashlib, whose OpenSSL costs a third of an interpreter's start."""

from __future__ import annotations

LARGE = 256 << 10
"""Bytes above which OpenSSL, several times as fast, is worth its import."""


def sha256(data: bytes) -> bytes:
    """The digest of some bytes."""
    if len(data) <= LARGE:
        try:
            from _sha2 import sha256 as small  # Python 3.12 and newer
        except ImportError:
            try:
                from _sha256 import sha256 as small
            except ImportError:
                from hashlib import sha256 as small
        return bytes(small(data).digest())
    import hashlib

    return hashlib.sha256(data).digest()
