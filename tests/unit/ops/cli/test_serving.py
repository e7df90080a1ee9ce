"""Waiting for the signal to end."""

from __future__ import annotations

import os
import signal
import threading

from tidemill.ops.cli.serving import until_ended


def test_signals_end_the_wait_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with until_ended() as wait:
        for kind in (signal.SIGINT, signal.SIGTERM):
            timer = threading.Timer(0.05, os.kill, (os.getpid(), kind))
            timer.start()
            wait()
            timer.join()
        for _ in range(200):  # also while another one is handled
            os.kill(os.getpid(), signal.SIGTERM)
        wait()
    assert signal.getsignal(signal.SIGTERM) is before
