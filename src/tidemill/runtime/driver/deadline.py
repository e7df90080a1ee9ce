"""Calls of foreign code that are given up after a while."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_END: Final = None
#: Seconds that something may take to be put away when a job is to end.
_PATIENCE: Final = 10.0


class DeadlineExceededError(Exception):
    """A call did not return in time. It may still be running, and take effect later."""


class CallAbandonedError(Exception):
    """Somebody could not wait for a call any longer. It may still be running."""


class _Call:
    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.done = threading.Event()
        self.error: BaseException | None = None


class Deadline:
    """Runs calls one after the other in one thread of its own, and waits ``seconds`` for each.

    Python cannot end a thread: one that hangs is left behind, and the next call gets a new one. Without ``seconds``
    calls run in the thread of the caller, for as long as they take.

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
        """Whoever waits for a call waits no longer, and for later ones not for long; called from another thread."""
        if self.seconds is not None:
            self.seconds = min(self.seconds, _PATIENCE)
        if (call := self._running) is not None and not call.done.is_set():
            call.error = CallAbandonedError("the job is to end")
            call.done.set()

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """While the block runs something that can be interrupted: do so after ``seconds``, and say so in the error."""
        if self.seconds is None:
            yield
            return
        expired = threading.Event()
        over = False
        lock = threading.Lock()

        def give_up() -> None:
            with lock:
                if not over:  # else it would be something later that is interrupted
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
        """Let the thread end when it has nothing left to do. Another call starts a new one."""
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
