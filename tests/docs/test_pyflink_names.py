"""Every name of PyFlink 1.12 to 2.3 can be imported from the same place here, and every method takes its arguments.

`tests/docs/pyflink_differences.py` has the exceptions, each with a reason.
"""

from __future__ import annotations

import pytest

from tests.docs.pyflink_differences import reason, unused
from tests.docs.pyflink_names import (
    CLASSES,
    MODULES,
    VERSIONS,
    Parameter,
    differences,
    expanded,
    parameters_of,
    takes,
)


@pytest.mark.parametrize("module", MODULES)
def test_what_differs_has_a_reason(module: str) -> None:
    assert {difference for difference in differences(module) if reason(difference) is None} == set()


def test_each_reason_is_needed() -> None:
    assert unused({difference for module in MODULES for difference in differences(module)}) == []


def test_the_fixture_has_what_programs_import() -> None:
    assert len(VERSIONS) == 13
    assert len(MODULES) > 60
    assert MODULES["datastream.window"]["Time"] == ["common.time:Time", "1.16-2.3"]
    assert MODULES["datastream"]["ExternalizedCheckpointCleanup"][1] == "1.12-1.20"
    assert CLASSES["datastream.data_stream:DataStream"]["key_by"] == {
        "key_selector key_type_info=": "1.12",
        "key_selector key_type= key_type_info=": "1.13",
        "key_selector key_type=": "1.14-2.3",
    }


def test_versions_are_ranges() -> None:
    assert expanded("1.12-1.13 2.0") == ["1.12", "1.13", "2.0"]


def test_a_signature_is_read() -> None:
    assert parameters_of("a b= *rest c **more") == [
        Parameter("a", False, ""),
        Parameter("b", True, ""),
        Parameter("rest", False, "*"),
        Parameter("c", False, "keyword"),
        Parameter("more", False, "**"),
    ]


class Example:
    def method(self, first: int, second: int = 2, *, third: int = 3) -> None:
        """The method that the cases call."""


@pytest.mark.parametrize(
    ("signature", "newest", "fits"),
    [
        ("first", None, True),
        ("first second=", None, True),
        ("first second", None, True),
        ("first second= third=", None, True),  # by name
        ("", None, False),  # ours needs an argument
        ("first=", None, False),  # theirs does not need it
        ("one", None, False),
        ("one", "first", True),  # renamed since
        ("first * third", None, True),
        ("first * fourth", None, False),
        ("first *others", None, False),
        ("first j_second=", None, True),  # a Java object
    ],
)
def test_arguments_fit_or_not(signature: str, newest: str | None, fits: bool) -> None:
    assert takes(Example.method, signature, newest) is fits
