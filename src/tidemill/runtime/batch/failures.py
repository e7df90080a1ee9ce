"""Errors of user functions: the user's own traceback first, then where in the job it happened and on which record.

A failing user function does not end the worker, nor does Spark retry it: the subtask reports a :class:`Failure` to the
driver in place of its ack. What is no fault of the program (a lost disk, a killed process) stays an exception and is
Spark's to retry.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass, replace
from typing import Any, Final

from tidemill import errors
from tidemill.common.calls import NO_RECORD, is_interrupt, noted_record
from tidemill.datastream.functions.user_line import PACKAGE
from tidemill.errors import FailureSite, TidemillError, UserCodeError
from tidemill.state.keys.key_groups import Subtask

#: How much of a record or key is shown.
_SHOWN: Final = 200
#: The address in the text of an object: another one after each restart.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Failure:
    """A subtask's report that it could not finish its epoch. ``primary`` is False for a mere consequence."""

    kind: str
    message: str
    chain: str
    subtask: Subtask
    primary: bool = True
    site: FailureSite | None = None

    def to_error(self) -> TidemillError:
        """The exception to raise on the driver."""
        kind = getattr(errors, self.kind, TidemillError)
        error: TidemillError = kind(self.message)
        error.site = self.site
        return error


def user_traceback(error: BaseException) -> str:
    """The traceback of an exception without the engine's frames at its top."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if not frame.filename.startswith(PACKAGE)] or list(frames)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
    if error.__cause__ is not None and not isinstance(error, TidemillError):
        lines[:0] = [
            *traceback.format_exception(error.__cause__),
            "\nThe above exception was the direct cause of the following exception:\n\n",
        ]
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()


def user_error(
    where: str,
    error: BaseException,
    *,
    record: Any = NO_RECORD,
    key: Any = NO_RECORD,
    line: str = "",
    site: FailureSite | None = None,
) -> TidemillError:
    """Wrap what a user function raised; ``site`` is what the caller knows of the place.

    An error of our own that a user function ran into (state used in the wrong place, say) keeps its class, so that
    callers can tell it apart; everything else becomes a :class:`UserCodeError`. That goes for ``SystemExit`` and
    ``KeyboardInterrupt`` too, if the function raised them: a function cannot end the process it runs in. An interrupt
    by a signal is raised as it is.
    """
    if is_interrupt(error):
        raise error
    if record is NO_RECORD:
        record = noted_record(error)
    details = []
    site = replace(site or FailureSite(), exception=type(_meant(error)).__name__)
    if record is not NO_RECORD:
        site = replace(site, record=shown(record))
        details.append(f"record {site.record}")
    if key is not NO_RECORD:
        site = replace(site, key=shown(key))
        details.append(f"key {site.key}")
    message = f"{user_traceback(error)}\n\nraised in {where}"
    if line:
        message += f", defined at {line}"
    if details:
        message += f", while processing {', '.join(details)}"
    if not isinstance(error, Exception):
        message += f". A function cannot end its process with {type(error).__name__}: the job fails instead"
    kind = type(error) if isinstance(error, TidemillError) else UserCodeError
    wrapped = kind(message)
    wrapped.site = site
    return wrapped


def failure_of(
    error: TidemillError, chain: str, subtask: Subtask, *, epoch: int | None = None, primary: bool = True
) -> Failure:
    """The report of an error that is the program's own, or (not ``primary``) the consequence of another one."""
    site = error.site or FailureSite(exception=type(error).__name__)
    site = replace(site, uid=site.uid or chain, subtask=subtask, epoch=epoch)
    return Failure(type(error).__name__, str(error), chain, subtask, primary, site)


def without_payload(error: Exception) -> str:
    """What an error says, for logs: the record and its key, which are the user's data, only by their fingerprints."""
    text, site = str(error), getattr(error, "site", None) or FailureSite()
    for what, value in (("record", site.record), ("key", site.key)):
        if value:
            digest = hashlib.sha256(value.encode()).hexdigest()[:12]
            text = text.replace(f"{what} {value}", f"{what} #{digest}")
    return text


def _meant(error: BaseException) -> BaseException:
    """What a function raised: Python makes a RuntimeError of a StopIteration that leaves a generator or coroutine."""
    cause = error.__cause__
    ended = type(error) is RuntimeError and isinstance(cause, (StopIteration, StopAsyncIteration))
    return cause if ended and cause is not None else error


def message_of(error: BaseException) -> str:
    """The text of an exception; one whose ``__str__`` raises has none."""
    try:
        return str(error)
    except Exception as broken:
        return f"<{type(error).__name__} whose str raised {type(broken).__name__}>"


def shown(value: Any) -> str:
    """A record or key as messages show it; the same for the same value after a restart."""
    try:
        text = repr(value)
    except Exception as error:  # a broken __repr__ must not hide the real error
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
