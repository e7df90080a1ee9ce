"""Peak memory of the processes of a run, sampled from this process."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil

from tidemill.python_versions import Self


class PeakMemory:
    """Samples the resident memory of this process and its descendants while the block runs."""

    def __init__(self) -> None:
        self.driver = 0
        self.jvm = 0
        self.workers = 0
        self.largest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.25):
            jvm = workers = 0
            for process in me.children(recursive=True):
                try:
                    used = process.memory_info().rss
                    if "java" in process.name():
                        jvm += used
                    else:
                        workers += used
                        self.largest = max(self.largest, used)
                except psutil.Error:
                    continue
            self.driver = max(self.driver, me.memory_info().rss)
            self.jvm = max(self.jvm, jvm)
            self.workers = max(self.workers, workers)

    def megabytes(self) -> dict[str, int]:
        """The peaks, in MB."""
        return {
            "driver": self.driver >> 20,
            "jvm": self.jvm >> 20,
            "python workers": self.workers >> 20,
            "largest worker": self.largest >> 20,
        }
