"""Calls of external code with a timeout."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_END: Final = None
#: The maximum number of seconds that a call may take while a job is ending.
_PATIENCE: Final = 10.0


class DeadlineExceededError(Exception):
    """A call did not return in time. It may still be running, and take effect later."""


class CallAbandonedError(Exception):
    """The caller stopped waiting for a call. It may still be running."""


class _Call:
    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.done = threading.Event()
        self.error: BaseException | None = None


class Deadline:
    """Runs calls one after the other in its own thread, and waits at most ``seconds`` for each.

    Python cannot end a thread: a thread that hangs is abandoned, and the next call gets a new one. Without ``seconds``,
    calls run in the thread of the caller, without a time limit.

    >>> Deadline(5.0, "example").run(lambda: print("done"))
    done
    """

    def __init__(self, seconds: float | None, name: str) -> None:
        self.seconds = seconds
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] | None = None
        self._running: _Call | None = None

    def run(self, act: Callable[[], None]) -> None:
        """Call ``act``; raises what it raises, or :class:`DeadlineExceededError`."""
        if self.seconds is None:
            act()
            return
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._calls,), name=self._name, daemon=True).start()
        call = self._running = _Call(act)
        self._calls.put(call)
        in_time = call.done.wait(self.seconds)
        self._running = None
        if not in_time or isinstance(call.error, CallAbandonedError):
            self.close()
        if not in_time:
            raise DeadlineExceededError(f"a call did not return within {self.seconds:g} s")
        if call.error is not None:
            raise call.error

    def abandon(self) -> None:
        """Stop waiting for the current call, and limit the time of later calls. Called from another thread."""
        if self.seconds is not None:
            self.seconds = min(self.seconds, _PATIENCE)
        if (call := self._running) is not None and not call.done.is_set():
            call.error = CallAbandonedError("the job is ending")
            call.done.set()

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call ``interrupt`` if the block takes longer than ``seconds``, and raise :class:`DeadlineExceededError`."""
        if self.seconds is None:
            yield
            return
        expired = threading.Event()
        over = False
        lock = threading.Lock()

        def give_up() -> None:
            with lock:
                if not over:  # otherwise this would interrupt something that runs later
                    expired.set()
                    interrupt()

        timer = threading.Timer(self.seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if expired.is_set():
                raise DeadlineExceededError(f"a call did not return within {self.seconds:g} s") from error
            raise
        finally:
            timer.cancel()
            with lock:
                over = True

    def close(self) -> None:
        """Let the thread end after its last call. Another call starts a new thread."""
        if self._calls is not None:
            self._calls.put(_END)
            self._calls = None


def _serve(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not _END:
        try:
            call.act()
        except BaseException as error:
            call.error = error
        finally:
            call.done.set()
