"""Errors of user functions: the user's traceback first, then the place in the job and the record.

A user function that raises does not end the worker, and Spark does not retry it: the subtask reports a :class:`Failure`
to the driver instead of its ack. Failures that the program did not cause (a lost disk, a killed process) remain
exceptions, and Spark retries the task.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import dataclass, replace
from typing import Any, Final

from tidemill import errors
from tidemill.checkpoint.model import Epoch
from tidemill.common.calls import NO_RECORD, is_interrupt, noted_record
from tidemill.datastream.functions.user_line import PACKAGE
from tidemill.errors import FailureSite, TidemillError, UserCodeError
from tidemill.state.keys.key_groups import Subtask

#: The maximum number of characters of a record or key that a message shows.
_SHOWN: Final = 200
#: The modules that call user functions.
_CALLERS: Final = ("/common/calls.py", "/operators/record_loops.py")
#: The address in the text of an object, which is different after each restart.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Failure:
    """The report of a subtask that could not finish its epoch. ``primary`` is False if another failure caused it."""

    kind: str
    message: str
    chain: str
    subtask: Subtask
    primary: bool = True
    site: FailureSite | None = None

    def to_error(self) -> TidemillError:
        """Return the exception to raise on the driver."""
        kind = getattr(errors, self.kind, TidemillError)
        error: TidemillError = kind(self.message)
        error.site = self.site
        return error


def user_traceback(error: BaseException) -> str:
    """Return the traceback of an exception without the engine's frames."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    if not shown and not (frames and frames[-1].filename.endswith(_CALLERS)):
        shown = list(frames)  # the engine raised it, not a function written in C such as int()
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)] if shown else []
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
    advice: str = "",
) -> TidemillError:
    """Wrap an exception that a user function raised; ``site`` is the place in the job, as far as the caller knows it.
    ``advice`` is a sentence at the end of the message.

    One of Tidemill's own errors (such as state used in the wrong place) keeps its class, so that callers can
    distinguish it. Everything else becomes a :class:`UserCodeError`, including ``SystemExit`` and ``KeyboardInterrupt``
    if the function raised them: a function cannot end the process it runs in. An interrupt by a signal is raised
    unchanged.
    """
    if is_interrupt(error):
        raise error
    if record is NO_RECORD:
        record = noted_record(error)
    details = []
    site = replace(site or FailureSite(), exception=type(_meant(error)).__name__)
    if record is not NO_RECORD:
        site = replace(site, record=message_text(record))
        details.append(f"record {site.record}")
    if key is not NO_RECORD:
        site = replace(site, key=message_text(key))
        details.append(f"key {site.key}")
    message = f"{user_traceback(error)}\n\nraised in {where}"
    if line:
        message += f", defined at {line}"
    if details:
        message += f", while processing {', '.join(details)}"
    if not isinstance(error, Exception):
        message += f". A function cannot end its process with {type(error).__name__}: the job fails instead"
    message += f". {advice}" if advice and isinstance(error, Exception) else ""
    kind = type(error) if isinstance(error, TidemillError) else UserCodeError
    wrapped = kind(message)
    wrapped.site = site
    return wrapped


def failure_of(
    error: TidemillError, chain: str, subtask: Subtask, *, epoch: Epoch | None = None, primary: bool = True
) -> Failure:
    """Return the report of an error of the program, or (not ``primary``) of a consequence of another error."""
    site = error.site or FailureSite(exception=type(error).__name__)
    site = replace(site, uid=site.uid or chain, subtask=subtask, epoch=epoch)
    return Failure(type(error).__name__, str(error), chain, subtask, primary, site)


def without_payload(error: Exception) -> str:
    """Return the message of an error for logs: the record and its key are user data, and replaced by fingerprints."""
    text, site = str(error), getattr(error, "site", None) or FailureSite()
    for what, value in (("record", site.record), ("key", site.key)):
        if value:
            digest = hashlib.sha256(value.encode()).hexdigest()[:12]
            text = text.replace(f"{what} {value}", f"{what} #{digest}")
    return text


def _meant(error: BaseException) -> BaseException:
    """Return what a function raised: Python converts a StopIteration in a generator or coroutine to a RuntimeError."""
    cause = error.__cause__
    ended = type(error) is RuntimeError and isinstance(cause, (StopIteration, StopAsyncIteration))
    return cause if ended and cause is not None else error


def message_of(error: BaseException) -> str:
    """Return the text of an exception, or a placeholder if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception as broken:
        return f"<{type(error).__name__} whose str raised {type(broken).__name__}>"


def message_text(value: Any) -> str:
    """Return the text of a record or key for messages. It is the same for the same value after a restart."""
    try:
        text = repr(value)
    except Exception as error:  # a broken __repr__ must not hide the real error
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
