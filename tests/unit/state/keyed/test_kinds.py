"""What distinguishes one kind of state from another is said in the registry, and nobody else asks which kind it is.

How a new kind is added, and that nothing else is needed, is shown in ``tests/contract/test_new_state_kind.py``.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemill.datastream.functions import state_descriptors
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.state.files.section_kinds import SECTION_KINDS, TIMER
from tidemill.state.keyed import collection_states, single_states
from tidemill.state.keyed.keyed_state import KeyedState
from tidemill.state.keyed.kinds import KINDS, TIMERS, StateKind, tables_of
from tidemill.state.keyed.ttl_states import TtlState

SOURCE = Path(__file__).parents[4] / "src"

#: The kinds of state, and those of sections.
NAMES = {*KINDS, *SECTION_KINDS}
DESCRIPTORS = {kind.descriptor.__name__ for kind in KINDS.values()}
STATES = {cls.__name__ for kind in KINDS.values() for cls in (kind.state, kind.watched, kind.expiring, kind.immutable)}
#: Modules in which such a word is not a kind of state, or that take some kinds only; and why.
MAY_ASK = {
    "tidemill.common.type_kinds.internal_form": "kinds of type information",
    "tidemill.connectors.formats.avro": "kinds of Avro's types",
    "tidemill.connectors.formats.avro_schema": "kinds of Avro's types",
    "tidemill.connectors.spark.schema_types": "kinds of Spark's types",
    "tidemill.state.codecs.serializers": "kinds of type information",
    "tidemill.state.operator.operator_state": "operator state is declared with two of the descriptors",
    "tidemill.datastream.streams.broadcast_stream": "broadcast state is declared with one of the descriptors",
    "tidemill.datastream.streams.queryable_state": "as_queryable_state() takes two of the descriptors",
}


def switches(source: str) -> Iterator[tuple[int, str]]:
    """Where a module asks which kind of state it has: by comparing names, by class, or with a dict by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
            asks = any(_is_kind(one) for one in compared)
            if asks and any(
                isinstance(c, ast.Constant) and c.value in NAMES for one in compared for c in ast.walk(one)
            ):
                yield node.lineno, "compares the name of a kind"
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(keys & NAMES) >= 3:
                yield node.lineno, "has a dict by kind"
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant) and node.value.value in NAMES:
            yield node.value.lineno, "matches the name of a kind"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            if asked & (DESCRIPTORS | STATES):
                yield node.lineno, f"asks for {', '.join(sorted(asked & (DESCRIPTORS | STATES)))}"


def _is_kind(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "kind" or name.endswith("_kind")


@pytest.mark.parametrize(
    "source",
    [
        'if kind == "list": pass',
        'x = 1 if section.kind != "map" else 2',
        'x = shape.kind in ("list", "map")',
        'TABLES = {"value": 1, "list": 2, "map": 3}',
        "if isinstance(descriptor, MapStateDescriptor): pass",
        "if isinstance(state, (KeyedValueState, TtlListState)): pass",
        'match kind:\n    case "reducing": pass',
    ],
)
def test_a_switch_is_seen(source: str) -> None:
    assert list(switches(source))


@pytest.mark.parametrize(
    "source",
    [
        'if kind == "epoch": pass',
        'if column == "value": pass',
        'x = {"value": 1, "epoch": 2}',
        "if isinstance(descriptor, StateDescriptor): pass",
    ],
)
def test_what_is_no_switch_passes(source: str) -> None:
    assert not list(switches(source))


def test_no_module_distinguishes_the_kind_of_a_state() -> None:
    found = []
    for path in sorted((SOURCE / "tidemill").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if module not in MAY_ASK:
            found += [f"{path}:{line} {what}" for line, what in switches(path.read_text(encoding="utf-8"))]
    assert not found, "look up the kind in tidemill.state.keyed.kinds or files.section_kinds:\n" + "\n".join(found)


def test_the_modules_that_may_ask_still_do() -> None:
    idle = [
        module
        for module in MAY_ASK
        if not list(switches(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")))
    ]
    assert not idle, "take them out of the list"


def test_every_descriptor_has_a_kind() -> None:
    declared = {
        cls
        for _, cls in inspect.getmembers(state_descriptors, inspect.isclass)
        if issubclass(cls, StateDescriptor) and cls is not StateDescriptor
    }
    assert declared == {kind.descriptor for kind in KINDS.values()}


def test_every_state_object_has_a_kind() -> None:
    states = {
        cls
        for module in (single_states, collection_states)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, KeyedState) and cls not in (KeyedState, single_states.SingleValueState)
    }
    assert states == {kind.state for kind in KINDS.values()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_parts_of_a_kind_fit(kind: StateKind) -> None:
    assert KINDS[kind.name] is kind
    assert kind.tables.rocksdb_table().section_kind is kind.tables.section_kind
    assert tables_of(kind.tables.section_kind.name) is kind.tables
    assert issubclass(kind.watched, kind.state)
    assert issubclass(kind.expiring, TtlState)
    assert (kind.stored_by or kind).tables is kind.tables
    for name in ("peek", "replace"):
        assert getattr(kind.state, name) is not getattr(KeyedState, name)
        assert getattr(kind.expiring, name) is not getattr(TtlState, name)


def test_names_in_files_are_as_they_were() -> None:
    """They are part of the format: a file written before must still be read."""
    assert list(KINDS) == ["value", "list", "map", "reducing", "aggregating"]
    assert list(SECTION_KINDS) == ["value", "list", "map", "timer"]
    stored = {kind.name: kind.tables.section_kind.name for kind in KINDS.values()}
    assert stored == {"value": "value", "list": "list", "map": "map", "reducing": "value", "aggregating": "value"}
    assert tables_of(TIMER.name) is TIMERS
