"""Tags that identify side outputs."""

from __future__ import annotations

from typing import ClassVar

from tidemill.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidemill.python_versions import Self

__all__ = ["OutputTag"]


class OutputTag:
    """The name and type of a side output.

    A process function emits to it by yielding ``tag, value``; :meth:`DataStream.get_side_output` returns its stream.
    Tags are equal if their ids are equal, because workers use copies of the program's tags.

    >>> late = OutputTag("late", Types.STRING())
    >>> late == OutputTag("late")
    True
    """

    __slots__ = ("tag_id", "type_info")

    #: Whether a tag was ever created in this process. If not, records need not be checked for tags.
    in_use: ClassVar[bool] = False

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        OutputTag.in_use = True
        return super().__new__(cls)

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        if not tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string")
        self.tag_id = tag_id
        if type_info is None:
            self.type_info: TypeInformation = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, list):
            self.type_info = RowTypeInfo(type_info)
        elif isinstance(type_info, TypeInformation):
            self.type_info = type_info
        else:
            raise TypeError(
                f"OutputTag type_info must be None, list or TypeInformation, not {type(type_info).__name__} "
                f"(tag {tag_id!r})"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(("OutputTag", self.tag_id))

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
