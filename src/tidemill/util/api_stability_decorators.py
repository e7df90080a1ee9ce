"""PyFlink's decorators that mark the stability of functions and classes. Here they return what they decorate."""

from __future__ import annotations

import warnings
from typing import TypeVar

__all__ = ["BaseAPIStabilityDecorator", "Deprecated", "Experimental", "Internal", "Public", "PublicEvolving"]

T = TypeVar("T")


class BaseAPIStabilityDecorator:
    """A mark without effect."""

    def __call__(self, func_or_cls: T) -> T:
        """The function or class itself."""
        return func_or_cls


class Public(BaseAPIStabilityDecorator):
    """Stable."""


class PublicEvolving(BaseAPIStabilityDecorator):
    """Public, and may change between versions."""


class Experimental(BaseAPIStabilityDecorator):
    """May change or be removed."""


class Internal(BaseAPIStabilityDecorator):
    """Not for users."""


class Deprecated(BaseAPIStabilityDecorator):
    """Deprecated since a version: decorating it is a ``DeprecationWarning``, as in PyFlink."""

    def __init__(self, since: str, detail: str | None = None) -> None:
        self.since = since
        self.detail = detail

    def __call__(self, func_or_cls: T) -> T:
        """The function or class itself."""
        name = getattr(func_or_cls, "__qualname__", repr(func_or_cls))
        more = "" if self.detail is None else f" {self.detail}"
        warnings.warn(f"{name} is deprecated since version {self.since}.{more}", DeprecationWarning, stacklevel=2)
        return func_or_cls
