"""Classes that no other process can import are pickled with everything that they have."""

from __future__ import annotations

import enum
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.datastream.functions.pickling import pickled_by_value

SOURCE = Path(__file__).parents[3] / "src"


def enums() -> list[type[enum.Enum]]:
    """Enums of which some names are not found by iteration."""

    class Colour(enum.Enum):
        RED = 1
        ROUGE = RED
        BLUE = 2

        def shown(self) -> str:
            return self.name.lower()

    class Rights(enum.Flag):
        READ = 1
        WRITE = 2
        BOTH = 3
        NONE = 0

    class Grade(enum.IntEnum):
        GOOD = 1
        FINE = GOOD

    class Unit(str, enum.Enum):
        METRE = "m"
        METER = METRE

    return [Colour, Rights, Grade, Unit]


@pytest.mark.parametrize("position", range(4))
def test_an_enum_comes_back_in_the_process_that_defined_it(position: int) -> None:
    cls = enums()[position]
    assert pickle.loads(pickled_by_value(cls)) is cls
    assert pickle.loads(pickled_by_value([*cls])) == [*cls]


def test_an_enum_has_all_its_names_in_another_process() -> None:
    program = """
import pickle, sys
Colour, Rights, Grade, Unit = pickle.loads(sys.stdin.buffer.read())
assert [*Colour] == [Colour.RED, Colour.BLUE]
assert Colour["ROUGE"] is Colour.ROUGE is Colour.RED
assert Colour.ROUGE.shown() == "red"
assert Rights["BOTH"] is Rights(3) is Rights.READ | Rights.WRITE
assert Rights["NONE"] is Rights(0)
assert Grade["FINE"] is Grade.GOOD == 1
assert Unit["METER"] is Unit.METRE == "m"
"""
    subprocess.run(
        [sys.executable, "-c", program],
        input=pickled_by_value(enums()),
        env={"PYTHONPATH": str(SOURCE)},
        check=True,
    )
