"""Random types that change as they may: what was stored is found as a value of the new type, also after a merge."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tests.unit.state.backends import commit, make_backend, restore
from tidemill.common import Row, Types
from tidemill.common.typeinfo import DataclassTypeInfo, TypeInformation
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.state.codecs.class_names import register_class
from tidemill.state.codecs.serializers import Convert, Incompatible, compatibility
from tidemill.state.files.state_file import decode_sections, encode_sections
from tidemill.state.keys.key_groups import key_group_of
from tidemill.state.merging import merge_sections

T = Types
_numbers = itertools.count()


class Evolution(NamedTuple):
    """A type, what it becomes, values of it, and what each of them becomes."""

    old: TypeInformation
    new: TypeInformation
    values: st.SearchStrategy[Any]
    becomes: Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=5)
BASIC = [
    Evolution(T.INT(), T.INT(), ints, same),
    Evolution(T.INT(), T.LONG(), ints, same),
    Evolution(T.INT(), T.DOUBLE(), ints, float),
    Evolution(T.LONG(), T.BIG_INT(), longs, same),
    Evolution(T.LONG(), T.OPTIONAL(T.LONG()), longs, same),
    Evolution(T.DOUBLE(), T.DOUBLE(), st.floats(allow_nan=False), same),
    Evolution(T.STRING(), T.STRING(), texts, same),
    Evolution(T.STRING(), T.PICKLED_BYTE_ARRAY(), texts, same),
    Evolution(T.BOOLEAN(), T.BOOLEAN(), st.booleans(), same),
]


def lists(inner: Evolution) -> Evolution:
    return Evolution(
        T.LIST(inner.old),
        T.LIST(inner.new),
        st.lists(inner.values, max_size=3),
        lambda value: [inner.becomes(item) for item in value],
    )


def maps(inner: Evolution) -> Evolution:
    return Evolution(
        T.MAP(T.STRING(), inner.old),
        T.MAP(T.STRING(), inner.new),
        st.dictionaries(texts, inner.values, max_size=3),
        lambda value: {key: inner.becomes(item) for key, item in value.items()},
    )


def optionals(inner: Evolution) -> Evolution:
    return Evolution(
        T.OPTIONAL(inner.old),
        T.OPTIONAL(inner.new),
        st.none() | inner.values,
        lambda value: None if value is None else inner.becomes(value),
    )


def tuples(parts: list[Evolution]) -> Evolution:
    return Evolution(
        T.TUPLE([part.old for part in parts]),
        T.TUPLE([part.new for part in parts]),
        st.tuples(*(part.values for part in parts)),
        lambda value: tuple(part.becomes(item) for part, item in zip(parts, value, strict=True)),
    )


def rows(parts: list[Evolution], change: tuple[bool, bool, bool]) -> Evolution:
    """A named row that may lose its last field or gain one, and have its fields in another order."""
    loses, gains, turns = change
    names = [f"f{i}" for i in range(len(parts))]
    kept = list(zip(names, parts, strict=True))[: len(parts) - (loses and len(parts) > 1)]
    new = [(name, part.new) for name, part in kept] + ([("added", T.LONG())] if gains else [])
    new = new[::-1] if turns else new

    def becomes(row: Row) -> Row:
        found = {name: part.becomes(row[name]) for name, part in kept}
        return Row(**{name: found.get(name) for name, _ in new})

    return Evolution(
        T.ROW_NAMED(names, [part.old for part in parts]),
        T.ROW_NAMED([name for name, _ in new], [type_info for _, type_info in new]),
        st.tuples(*(part.values for part in parts)).map(lambda v: Row(**dict(zip(names, v, strict=True)))),
        becomes,
    )


def classes(parts: list[Evolution], change: tuple[bool, bool, bool]) -> Evolution:
    """A dataclass that may lose its last field or gain one with a default, and have its fields in another order."""
    loses, gains, turns = change
    name = f"Evolving{next(_numbers)}"
    names = [f"f{i}" for i in range(len(parts))]
    kept = list(zip(names, parts, strict=True))[: len(parts) - (loses and len(parts) > 1)]
    kept = kept[::-1] if turns else kept
    added: list[Any] = [("added", list, field(default_factory=lambda: [7]))] if gains else []

    def made(of: list[tuple[str, Any]]) -> Any:
        return make_dataclass(name, of, namespace={"__module__": __name__})

    before, after = made([(n, object) for n in names]), made([(n, object) for n, _ in kept] + added)
    register_class(after)
    old = DataclassTypeInfo(before, dict(zip(names, (part.old for part in parts), strict=True)))
    new = DataclassTypeInfo(
        after, {**{n: part.new for n, part in kept}, **({"added": T.LIST(T.LONG())} if gains else {})}
    )

    def becomes(value: Any) -> Any:
        return after(**{n: part.becomes(getattr(value, n)) for n, part in kept})

    return Evolution(old, new, st.tuples(*(part.values for part in parts)).map(lambda v: before(*v)), becomes)


#: A field removed and another added at once could be a renamed one.
flags = st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(lambda change: change[:2] != (True, True))


def grown(inner: st.SearchStrategy[Evolution]) -> st.SearchStrategy[Evolution]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lists),
        inner.map(maps),
        inner.map(optionals),
        several.map(tuples),
        st.builds(rows, several, flags),
        st.builds(classes, several, flags),
    )


evolutions = st.recursive(st.sampled_from(BASIC), grown, max_leaves=5)


def shown(value: Any) -> str:
    """Numbers of other types are equal, but not shown alike."""
    return repr(value)


KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], None], Callable[[Any], Any]]] = {
    "value": (lambda t: ValueStateDescriptor("s", t), lambda s, v: s.update(v), lambda s: s.value()),
    "list": (lambda t: ListStateDescriptor("s", t), lambda s, v: s.update([v, v]), lambda s: list(s.get())),
    "map": (lambda t: MapStateDescriptor("s", T.STRING(), t), lambda s, v: s.put("x", v), lambda s: dict(s.items())),
}


@settings(max_examples=examples(120), deadline=None)
@given(st.data(), evolutions, st.sampled_from(sorted(KINDS)))
def test_what_may_evolve_is_found_evolved(data: st.DataObject, evolution: Evolution, kind: str) -> None:
    make, put, read = KINDS[kind]
    value = data.draw(evolution.values)
    wanted = evolution.becomes(value)
    files: list[bytes] = []
    for type_info, key, stored in ((evolution.old, "a", value), (evolution.new, "b", wanted)):
        backend = restore(make_backend(key_type=T.STRING()), files)
        state = getattr(backend, f"{kind}_state")(make(type_info))
        backend.begin_epoch()
        backend.context.key = key
        if stored is not None:
            put(state, stored)
        file = commit(backend)
        files += [] if file is None else [file]
    sections = [section for file in files for section in decode_sections(file, "file")]
    merged = merge_sections(sections, {"op": 16}, keep_deletes=False)
    assert len(merged) <= 1
    for found in (files, [encode_sections(merged)[0]]):
        backend = restore(make_backend(key_type=T.STRING()), found)
        state = getattr(backend, f"{kind}_state")(make(evolution.new))
        seen = {}
        for key in ("a", "b"):
            backend.context.key = key
            seen[key] = read(state)
        assert shown(seen["a"]) == shown(seen["b"])
        if wanted is not None and kind == "value":
            assert shown(seen["a"]) == shown(wanted)


KEYS = [part for part in BASIC if part.new != T.PICKLED_BYTE_ARRAY() and part.old != T.DOUBLE()]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(), st.recursive(st.sampled_from(KEYS), lambda inner: st.lists(inner, min_size=1).map(tuples), max_leaves=4)
)
def test_a_key_that_may_evolve_stays_in_its_group(data: st.DataObject, evolution: Evolution) -> None:
    found = compatibility(evolution.old.describe(), evolution.new.describe(), is_key=True)
    assert not isinstance(found, Incompatible)
    key = data.draw(evolution.values)
    assert key_group_of(evolution.becomes(key), 1024) == key_group_of(key, 1024)


def test_an_optional_number_may_become_one_that_can_be_none_anyway() -> None:
    assert T.OPTIONAL(T.BIG_INT()) == T.BIG_INT()
    assert compatibility(T.OPTIONAL(T.LONG()).describe(), T.BIG_INT().describe()) == Convert()
    assert isinstance(compatibility(T.OPTIONAL(T.LONG()).describe(), T.LONG().describe()), Incompatible)


def test_a_new_field_gets_a_default_of_its_own() -> None:
    evolution = classes([BASIC[0]], (False, True, False))
    made = [evolution.becomes(value(1)) for value in [evolution.old.python_class] * 2]  # type: ignore[attr-defined]
    assert made[0].added == made[1].added
    assert made[0].added is not made[1].added
    assert fields(made[0])[-1].default is MISSING
