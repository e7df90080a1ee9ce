"""Flink 1.x's ``split`` and ``select``, implemented as filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tidemill.datastream.functions.basic import FilterFunction
from tidemill.datastream.functions.pickling import given

if TYPE_CHECKING:
    from tidemill.datastream.streams.data_stream import DataStream

__all__ = ["SelectedOutputs", "SplitStream"]


class SelectedOutputs(FilterFunction):
    """Keeps the records that belong to one of the named outputs.

    >>> SelectedOutputs(lambda n: ["even"] if n % 2 == 0 else ["odd"], ("odd",)).filter(3)
    True
    """

    def __init__(self, selector: Callable[[Any], Iterable[str]], names: tuple[str, ...]) -> None:
        self.selector = selector
        self.names = frozenset(names)

    def filter(self, value: Any) -> bool:
        """Whether the record belongs to one of the outputs."""
        chosen = self.selector(value)
        if isinstance(chosen, str):
            raise TypeError(f"the output selector must return a list of names, not the string {chosen!r}")
        return not self.names.isdisjoint(chosen)


class SplitStream:
    """A stream whose records are assigned to named outputs. A record may belong to several."""

    def __init__(self, stream: DataStream, output_selector: Callable[[Any], Iterable[str]]) -> None:
        if not callable(output_selector):
            raise TypeError(f"split() needs a callable that returns names, not {type(output_selector).__name__}")
        self._stream = stream
        self._selector = given(output_selector, "output selector", "split")

    def select(self, *output_names: str) -> DataStream:
        """The stream of the records that belong to at least one of these outputs."""
        if not output_names:
            raise ValueError("select() needs at least one name")
        selected = self._stream._plain().filter(SelectedOutputs(self._selector, output_names))
        return selected.name(f"Select: {', '.join(output_names)}")
