"""The keys of Flink that neither have a meaning here nor belong to a family: they are accepted quietly."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["flink_keys"]


@cache
def flink_keys() -> frozenset[str]:
    """The keys in ``flink_keys.txt``, which are read on first use: only programs with unusual keys need them.

    >>> "web.timeout" in flink_keys()
    True
    """
    text = files("tidemill.config").joinpath("flink_keys.txt").read_text(encoding="utf-8")
    return frozenset(text.split())
