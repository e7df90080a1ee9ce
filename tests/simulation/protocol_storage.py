"""The storage as one process of a schedule sees it: every call is a step, and may fail in any way a store fails."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tests.simulation.protocol_world import World
from tidemill.checkpoint.storage.api import Names, NotFoundError, Storage


class SharedStorage(Storage):
    """All processes have this view of the one disk; who calls is who has the turn."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._disk = world.disk
        self._files = world.disk.files

    def create(self, name: str, data: bytes) -> None:
        """As the contract says; a change may also come late, or twice."""
        self._change("create", name, partial(self._disk.create, name, data))

    def write(self, name: str, data: bytes) -> None:
        """As the contract says; a change may also come late, or twice."""
        self._change("write", name, partial(self._disk.write, name, data))

    def delete(self, names: Iterable[str]) -> None:
        """As the contract says; it may also end in the middle, come late, or twice."""
        wanted = [*names]
        fault = self._world.step("delete")
        if fault == "middle":
            self._disk.delete(wanted[: len(wanted) // 2])
            self._world.after(self._world.dice.choice(("kill after", "error after")))
        else:
            self._take_effect(fault, "delete", partial(self._disk.delete, wanted))

    def read(self, name: str) -> bytes:
        """All bytes, or an error."""
        self._world.step("read")
        data = self._files.get(name)
        if data is None:
            raise NotFoundError(f"{name} does not exist")
        return data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes, or an error."""
        return self.read(name)[offset : offset + length]

    def exists(self, name: str) -> bool:
        """The truth, or an error."""
        self._world.step("exists")
        return name in self._files

    def list(self, prefix: str = "") -> Names:
        """The names of now, or of some changes ago, or with gaps."""
        fault, dice = self._world.step("list"), self._world.dice
        if fault == "gaps":
            names, share = self._disk.names(prefix), dice.random()
            if share < 0.5:
                return names[: int(2 * share * len(names))]  # a page that ends too soon
            return [name for name in names if dice.random() < share]
        return self._disk.names(prefix, undo=dice.randint(1, 12) if fault == "stale" else 0)

    def size(self, name: str) -> int:
        """The number of bytes, or an error."""
        return len(self.read(name))

    def _change(self, call: str, name: str, effect: partial[None]) -> None:
        self._take_effect(self._world.step(call, f"{call} {name.partition('/')[0]}"), f"{call} {name}", effect)

    def _take_effect(self, fault: str | None, what: str, effect: partial[None]) -> None:
        if fault is None:
            effect()
        elif fault.startswith("late"):
            self._world.late(what, effect, fault)
        else:
            effect()
            if fault == "twice":
                self._world.late(what, effect, fault)
            self._world.after(fault)
