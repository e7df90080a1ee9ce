"""Programs, values and calls give the results that PyFlink 2.3 gave, or a difference that is listed with its reason.

``recorded/pyflink.json`` was written by ``tools/record_pyflink.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.differential import cases
from tests.semantics.differential.cases_values import TYPES, WAYS, Values
from tests.semantics.differential.differences import ACCEPTED_HERE, DIFFERENCES
from tests.semantics.differential.program import Call, Program, lines, shown
from tidemill.common import Configuration
from tidemill.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from tidemill.errors import SerializationError, TypeMismatchError
from tidemill.state.codecs.normal_form import NormalForm, is_simple, normal_form, stream_key_form

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded" / "pyflink.json").read_text(encoding="utf-8")
)
#: Types of which a state keeps more than Flink: rows without names, and the precision of a FLOAT in a row.
KEPT_IN_A_STATE = ("ROW", "NESTED")
PROGRAMS = [program for program in cases.PROGRAMS if program.id in RECORDED]
CALLS = [call for call in cases.CALLS if call.id in RECORDED]
VALUES = [values for values in cases.VALUES if any(label in RECORDED for label in values.labels())]


def environment(batch: bool = False, settings: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    local = {"execution.target": "local", "parallelism.default": "1", **(settings or {})}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(local))
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def check(id_: str, ours: dict[str, Any]) -> None:
    """Compare an outcome with that of PyFlink. An error must be an error; its text is compared only for calls."""
    flink = RECORDED[id_]
    same = ours == flink or ("error" in ours and "error" in flink and says(id_, ours["error"], flink["error"]))
    accepted = "error" in flink and "error" not in ours and id_.startswith(ACCEPTED_HERE)
    if not listed(id_) and not accepted:
        assert same, f"{id_}\n  PyFlink: {flink}\n  here:    {ours}"


def listed(id_: str) -> bool:
    return any(fnmatchcase(id_, pattern) for pattern in DIFFERENCES)


def says(id_: str, ours: str, flink: str) -> bool:
    """Whether an error has the text of PyFlink's. What Java or Python itself says is worded in another way here."""
    kind, _, text = flink.partition(": ")
    worded_by_pyflink = id_.startswith("calls-") and kind in ("Exception", "TypeError", "ValueError")
    return not worded_by_pyflink or text.rstrip(".") in ours


def failure(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"}


def ran(program: Program, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    try:
        stream = program.build(environment(program.batch, program.settings))
        if program.printed:
            stream.print()
            stream.get_execution_environment().execute()
            return {"records": capsys.readouterr().out.splitlines()}
        with stream.execute_and_collect() as found:
            records = [one if type(one) is str else shown(one) for one in found]
    except Exception as error:
        return failure(error)
    return {"records": lines(records, program.ordered)}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_program(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    check(program.id, ran(program, capsys))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.id)
def test_call(call: Call) -> None:
    try:
        result = call.call()
    except Exception as error:
        check(call.id, failure(error))
        return
    text = shown(result)
    plain = RECORDED[call.id].get("result", "").startswith("<")
    check(call.id, {"result": f"<{type(result).__name__}>" if plain else text})


# --- values


@pytest.mark.parametrize("values", [one for one in VALUES if one.way == "coded"], ids=lambda values: values.id)
def test_values(values: Values) -> None:
    """What the serializer of a type makes of a value is what records, values of a state and keys become here."""
    type_info = TYPES[values.type][0]()
    conversions = [type_info.shaper(strict=False)]
    form = normal_form(type_info, strict=False)
    if is_simple(type_info):
        keys = stream_key_form(type_info)
        assert form is not None
        assert keys is not None
        conversions += [keys] if values.type in ("SQL_TIME", "SQL_TIMESTAMP") else [keys, stored(form)]
    elif form is not None and values.type not in KEPT_IN_A_STATE:
        conversions.append(form.settled)
    for label, value in zip(values.labels(), values.values, strict=True):
        emitted, *others = conversions
        check(label, converted(emitted, value))
        if "result" in RECORDED[label]:
            for conversion in others:
                check(label, converted(conversion, value))


def stored(form: NormalForm) -> Callable[[list[Any]], list[Any]]:
    """The conversion of a value that is put into a state, which is the value that is read from it."""
    convert = form.convert
    return lambda values: [value if type(value) is form.kind or convert is None else convert(value) for value in values]


def converted(conversion: Callable[[list[Any]], list[Any]], value: Any) -> dict[str, Any]:
    try:
        return {"result": shown(conversion([value])[0])}
    except (SerializationError, TypeMismatchError) as error:
        return failure(error)


@pytest.mark.parametrize("values", [one for one in VALUES if one.way == "coded"], ids=lambda values: values.type)
def test_values_in_a_job(values: Values) -> None:
    pairs = [
        (label, value)
        for label, value in zip(values.labels(), values.values, strict=True)
        if "result" in RECORDED[label] and not listed(label)
    ]
    with WAYS["exchanged"](
        TYPES[values.type][0](), [value for _, value in pairs], environment()
    ).execute_and_collect() as found:
        assert list(found) == [RECORDED[label]["result"] for label, _ in pairs]


@pytest.mark.parametrize("values", [one for one in VALUES if one.way == "source"], ids=lambda values: values.id)
def test_values_of_a_collection(values: Values) -> None:
    type_info = TYPES[values.type][0]()
    for label, value in zip(values.labels(), values.values, strict=True):
        if label in RECORDED:
            check(label, converted(type_info.coercer_of_literals(), value))


def test_enough_is_recorded() -> None:
    assert len(RECORDED) >= 400


def test_each_listed_difference_is_one() -> None:
    unused = [pattern for pattern in DIFFERENCES if not any(fnmatchcase(id_, pattern) for id_ in RECORDED)]
    assert unused == []
