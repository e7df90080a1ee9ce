"""Slot sharing groups of operators, and the resources they request.

Spark determines the size of its executors. A group only determines which operators may be chained; its resources are
stored for tools that read the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering

__all__ = ["MemorySize", "SlotSharingGroup"]


@total_ordering
class MemorySize:
    """An amount of memory.

    >>> MemorySize.of_mebi_bytes(3).get_kibi_bytes()
    3072
    """

    __slots__ = ("_bytes",)

    def __init__(self, j_memory_size: int | MemorySize | None = None, bytes_size: int | None = None) -> None:
        """``bytes_size`` is a number of bytes. It may also be given as the first argument, as may another size."""
        given = bytes_size if j_memory_size is None else j_memory_size
        if given is None:
            raise TypeError("MemorySize needs a number of bytes: MemorySize(bytes_size=1024)")
        self._bytes = given.get_bytes() if isinstance(given, MemorySize) else given
        if self._bytes < 0:
            raise ValueError(f"a memory size must not be negative: {self._bytes}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """``mebi_bytes`` times 2**20 bytes."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """The size in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """The size in units of 2**10 bytes, rounded down."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """The size in units of 2**20 bytes, rounded down."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """The size in units of 2**30 bytes, rounded down."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """The size in units of 2**40 bytes, rounded down."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and other._bytes == self._bytes

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise TypeError(f"Does not support comparison with non-MemorySize {other}")
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"{self._bytes} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A named slot sharing group. Build it with :meth:`builder`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """The name of the group, which operators refer to."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """The requested CPU cores, or None if unspecified."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """The requested heap memory, or None if unspecified."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The requested off-heap memory, or None if unspecified."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """The requested managed memory, or None if unspecified."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Other requested resources, by name."""
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Creates a builder for a group with this name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Builds a slot sharing group."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._heap: MemorySize | None = None
            self._off_heap: MemorySize | None = None
            self._managed: MemorySize | None = None
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Sets the requested CPU cores."""
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the requested heap memory."""
            self._heap = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the requested heap memory in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the requested off-heap memory."""
            self._off_heap = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the requested off-heap memory in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the requested managed memory."""
            self._managed = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the requested managed memory in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Sets the requested amount of another resource, by name."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Builds the group."""
            return SlotSharingGroup(
                self._name, self._cpu_cores, self._heap, self._off_heap, self._managed, dict(self._external)
            )
