"""What behaves differently in Tidemill, and what to do about what it does not have: data for the analysis.

What is missing is not listed here, because names are looked up in Tidemill's modules. Only the advice is: it is given
for a name that the lookup does not find.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["DIFFERENCES", "Difference", "advice_for", "differences_of"]


@dataclass(frozen=True)
class Difference:
    """A class, or ``Class.method``, that behaves differently here: how, and the page of ``docs`` that describes it.

    With ``when``, only the calls for which it returns True do.
    """

    name: str
    text: str
    page: str
    when: Callable[[ast.Call], bool] | None = None


def _slides(call: ast.Call) -> bool:
    return len(call.args) + len(call.keywords) > 1


def _merges_sessions(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and "SessionWindows" in ast.unparse(call.func.value)


_SESSIONS: Final = (
    "keeps all records when a record merges two sessions; PyFlink loses those of one of them. To compare the results "
    "of both, use records that merge no sessions"
)
_CLOCK: Final = (
    "processing time is fixed during an epoch, and timers fire between two epochs: a timer may fire some milliseconds "
    "to seconds later than in Flink"
)

DIFFERENCES: Final = (
    Difference(
        "KeyedStream.count_window",
        "fires every 'slide' records, also before the first window is full, as in Flink's Java API; PyFlink fires only "
        "full windows: for those, use window(CountSlidingWindowAssigner.of(size, slide))",
        "windows.md#differences-from-flink",
        when=_slides,
    ),
    Difference("WindowedStream.reduce", _SESSIONS, "porting.md#results", when=_merges_sessions),
    Difference("WindowedStream.aggregate", _SESSIONS, "porting.md#results", when=_merges_sessions),
    Difference(
        "ContinuousEventTimeTrigger",
        "fires in the order of time, as in Flink's Java API; in PyFlink it may fire after later timers of the same "
        "watermark",
        "porting.md#results",
    ),
    Difference(
        "ProcessFunction.Context.timestamp",
        "the timestamp that an assigner gave; in PyFlink it is -2**63 if the function directly follows the assigner. "
        "None, not -2**63, if there is none",
        "porting.md#results",
    ),
    Difference("TimerService.register_processing_time_timer", _CLOCK, "process-functions-and-timers.md#timer-rules"),
    Difference("TimerService.current_processing_time", _CLOCK, "process-functions-and-timers.md#timer-rules"),
    Difference("TriggerContext.register_processing_time_timer", _CLOCK, "process-functions-and-timers.md#timer-rules"),
)

#: A method that changes an attribute of its function, other than ``open``.
ATTRIBUTE: Final = (
    "an attribute of a function is lost when its task moves to another worker or is restored, and each subtask has its "
    "own: what must survive belongs into state (working-with-state.md#attributes-are-not-state)"
)

#: A text that names a module of PyFlink.
TEXT: Final = "this text names a module of PyFlink and was not changed: change it if the program imports what it names"

_JAVA: Final = "there are no Java objects here: use the Python API"
_TABLES: Final = "use a DataFrame as input (env.from_dataframe) or as output (SparkSink): see connectors/spark.md"

#: Advice for names that the lookup does not find: a module of PyFlink with all that is in it, a class, or a method.
_ADVICE: Final = {
    "pyflink.table": _TABLES,
    "pyflink.ml": "use a Python library in a function, such as map or map_batch",
    "pyflink.cep": "use a KeyedProcessFunction with state and timers",
    "pyflink.java_gateway": _JAVA,
    "pyflink.util": _JAVA,
    "pyflink.fn_execution": "the internals of PyFlink's workers are not here: use the classes of tidemill.datastream",
    "pyflink.pyflink_gateway_server": _JAVA,
    "pyflink.shell": "start python, and build a program there",
    "pyflink.testing": "use tidemill.testing",
    "get_java_function": _JAVA,
}
_OTHERWISE: Final = "not in Tidemill: porting.md lists what is there, and what to use instead"


def differences_of(names: frozenset[str], call: ast.Call | None) -> list[Difference]:
    """The differences of an object with any of these names, for a call of it, or another use if ``call`` is None."""
    return [
        one for one in DIFFERENCES if one.name in names and (one.when is None or (call is not None and one.when(call)))
    ]


def advice_for(name: str) -> str:
    """What to do about a name of PyFlink that does not exist here.

    >>> advice_for("pyflink.table.StreamTableEnvironment").startswith("use a DataFrame")
    True
    """
    last = name.rpartition(".")[2]
    if last.startswith(("_j_", "j_")):
        return _JAVA
    for known, text in _ADVICE.items():
        if name == known or name.startswith(f"{known}.") or last == known:
            return text
    return _OTHERWISE
