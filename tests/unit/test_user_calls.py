"""No builtin that ends early at a ``StopIteration`` runs code that may be the user's.

``map`` and its like take a ``StopIteration`` of their function for the end of their input: records are lost without an
error. User functions are called in comprehensions or loops, over a whole batch by ``tidemill.common.calls``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
#: The one place that may.
EXEMPT = SOURCE / "tidemill" / "common" / "calls.py"
#: Iterators that call a function for each item: the position of the function among the arguments.
CALLERS = {
    "map": 0,
    "filter": 0,
    "starmap": 0,
    "takewhile": 0,
    "dropwhile": 0,
    "filterfalse": 0,
    "accumulate": 1,
    "groupby": 1,
}
#: Functions that run no code of a record's class, or (``str``, ``repr``) only for a message.
HARMLESS = {
    "_local",
    "_decoded",
    "self.reader.read",
    "_metric_of",
    "_epoch_of",
    "_checkpoint_of",
    "_masked_exception",
    "_masked_checkpoint",
    "parse_driver_record",
    "type",
    "id",
    "len",
    "int",
    "float",
    "abs",
    "str",
    "repr",
    "str.lower",
    "tuple",
    "list",
    "itemgetter",
    "is_",
}
#: Beyond that, code of ours that looks at types only, or never sees a record: names, paths, options, files.
OURS = {
    "Call",
    "KafkaRecord",
    "KeyGroup",
    "ProducerColumns.from_bytes",
    "SectionGroups",
    "Stamped",
    "_declaration",
    "_first",
    "_frozen",
    "_has_timestamp",
    "_holds_pickles",
    "_is_fixed",
    "_is_hidden",
    "_is_like",
    "_is_none",
    "_kind_of",
    "_may_have_state",
    "_names_of",
    "_shown",
    "_text",
    "_time_state",
    "_values_of",
    "_with_tuples",
    "attrgetter('time')",
    "configuration.contains",
    "configuration.get",
    "copy",
    "db.property_int_value",
    "immutable_type",
    "input_prefix",
    "inputs.__getitem__",
    "is_immutable",
    "is_exact",
    "is_operator_state",
    "json_text if target == TEXT else _string",
    "lambda group: (group.file, group.size)",
    "lambda group: group.partition",
    "members.get",
    "parse_manifest",
    "self._files().exists",
    "self._group_of.__getitem__",
    "self._is_plain",
    "self._is_stored",
    "self._row",
    "self.configuration.contains",
    "str(error).__contains__",
}

MODULES = [path for path in sorted((SOURCE / "tidemill").rglob("*.py")) if path != EXEMPT]


def swallowing(source: str) -> Iterator[tuple[int, str]]:
    """(line, function) of every iterator that would take a StopIteration of that function for its end."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "iter" and len(node.args) == 2:
            yield node.lineno, ast.unparse(node.args[0])
        place = CALLERS.get(name)
        # Methods called map or filter are those of streams.
        if place is None or (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "itertools"):
            continue
        given = [keyword.value for keyword in node.keywords if keyword.arg in ("key", "func")]
        given += node.args[place : place + 1]
        for function in given:
            made = isinstance(function, ast.Call) and ast.unparse(function.func) == "itemgetter"
            if not made and ast.unparse(function) not in HARMLESS | OURS | {"None"}:
                yield node.lineno, ast.unparse(function)


def test_no_user_function_runs_where_its_stop_iteration_would_be_swallowed() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {function}"
        for path in MODULES
        for line, function in swallowing(path.read_text())
    ]
    assert not found, f"use a comprehension, call_each or with_each (tidemill.common.calls): {found}"


@pytest.mark.parametrize(
    "source",
    [
        "list(map(f, xs))",
        "out.extend(map(self.f, xs))",
        "list(filter(lambda x: f(x), xs))",
        "itertools.starmap(f, xs)",
        "list(groupby(xs, key=f))",
        "iter(f, None)",
        "list(map(attrgetter('a'), xs))",
    ],
)
def test_the_rule_finds(source: str) -> None:
    assert list(swallowing(source))


@pytest.mark.parametrize("source", ["[f(x) for x in xs]", "set(map(type, xs))", "stream.map(f)", "filter(None, xs)"])
def test_the_rule_allows(source: str) -> None:
    assert not list(swallowing(source))
