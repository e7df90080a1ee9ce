"""The output of the demo while it runs: a live display on a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.support.findings import Alert
from tidemill.python_versions import Self

_BARS: Final = " ▁▂▃▄▅▆▇█"
#: Chosen so that the display fits on a terminal of 80 columns and 24 lines.
_ALERTS_SHOWN: Final = 4
_EVENTS_SHOWN: Final = 6
_SECONDS_PER_LINE: Final = 2.0


@dataclass
class Progress:
    """The progress of the job, as of its last committed epoch."""

    total_records: int
    records: int = 0
    epochs: int = 0
    rate: float = 0.0
    state_entries: int = 0
    bytes_written: int = 0
    bytes_last_epoch: int = 0
    alerts: int = 0
    workers: dict[int, int] = field(default_factory=dict)  # lane -> pid
    epoch_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=48))


class View(Protocol):
    """Shows a running job."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def restart_clock(self) -> None:
        """Count the time from now on."""

    def show(self, progress: Progress) -> None:
        """Show the progress of the job."""

    def event(self, text: str) -> None:
        """Show an event."""

    def alert(self, alert: Alert) -> None:
        """Show an alert."""


def open_view(console: Console) -> View:
    """Create the view that is suitable for the output."""
    return LiveView(console) if console.is_terminal else PlainView(console)


class PlainView:
    """Prints events as they occur, and a progress line every two seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = time.monotonic()
        self._printed = -_SECONDS_PER_LINE
        self._last_alert = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def restart_clock(self) -> None:
        """Count the time from now on."""
        self._start = time.monotonic()
        self._printed = -_SECONDS_PER_LINE

    def show(self, progress: Progress) -> None:
        """Print a progress line if one is due."""
        elapsed = time.monotonic() - self._start
        if not progress.epochs or elapsed - self._printed < _SECONDS_PER_LINE:
            return
        self._printed = elapsed
        self._line(
            f"epoch {progress.epochs:>3} | {progress.records:>7,} payments | {progress.rate:>6,.0f}/s | "
            f"state {progress.state_entries:>6,} entries, {_size(progress.bytes_written):>8} written | "
            f"{progress.alerts:>3} alerts{self._last_alert}"
        )
        self._last_alert = ""

    def event(self, text: str) -> None:
        """Print the event."""
        self._line(f"* {text}")

    def alert(self, alert: Alert) -> None:
        """Keep the alert for the next line, because there are several alerts per second."""
        self._last_alert = f", last: {_describe(alert)}"

    def _line(self, text: str) -> None:
        # Never wrap lines, regardless of the reported width of the output.
        self._console.print(f"{time.monotonic() - self._start:5.1f} s  {text}", highlight=False, soft_wrap=True)


class LiveView:
    """A display that is redrawn several times per second."""

    def __init__(self, console: Console) -> None:
        self._start = time.monotonic()
        self._progress = Progress(total_records=1)
        self._alerts: deque[Alert] = deque(maxlen=_ALERTS_SHOWN)
        self._events: deque[str] = deque(maxlen=_EVENTS_SHOWN)
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def restart_clock(self) -> None:
        """Count the time from now on."""
        self._start = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Keep the progress for the next redraw."""
        self._progress = progress

    def event(self, text: str) -> None:
        """Add the event to the list."""
        self._events.append(f"{time.monotonic() - self._start:5.1f} s  {text}")

    def alert(self, alert: Alert) -> None:
        """Add the alert to the list."""
        self._alerts.append(alert)

    def _render(self) -> RenderableType:
        progress = self._progress
        elapsed = time.monotonic() - self._start
        workers = "   ".join(f"lane {lane}: pid {pid}" for lane, pid in progress.workers.items())
        numbers = Table.grid(padding=(0, 2))
        numbers.add_column(style="dim", no_wrap=True)
        numbers.add_column(no_wrap=True)
        numbers.add_row("payments", f"[bold]{progress.records:,}[/] of {progress.total_records:,}")
        numbers.add_row("", ProgressBar(total=progress.total_records, completed=progress.records, width=40))
        numbers.add_row("speed", f"[bold]{progress.rate:,.0f}[/] payments/s in {progress.epochs:,} committed epochs")
        numbers.add_row("epoch time", Text(_sparkline(progress.epoch_seconds), style="cyan"))
        last, written = _size(progress.bytes_last_epoch), _size(progress.bytes_written)
        numbers.add_row("state", f"[bold]{progress.state_entries:,}[/] entries; written: {last} last, {written} in all")
        numbers.add_row("workers", workers or "none")
        alerts = "\n".join(_describe(alert) for alert in reversed(self._alerts)) or "none yet"
        title = "[bold]Tidemill[/] · card fraud detection on Spark"
        return Group(
            Panel(numbers, title=title, subtitle=f"{elapsed:.0f} s", title_align="left", subtitle_align="right"),
            Panel(Text("\n".join(self._events)), title="events", title_align="left", border_style="yellow"),
            Panel(Text(alerts), title=f"alerts: {progress.alerts}", title_align="left", border_style="red"),
        )


def _describe(alert: Alert) -> str:
    clock = datetime.fromtimestamp(alert.at / 1000, timezone.utc).strftime("%H:%M:%S")
    return f"{clock} card {alert.card:05} {alert.rule}: {alert.detail}"


def _sparkline(seconds: deque[float]) -> str:
    """One bar per epoch, the longest at full height, so that a recovery stands out."""
    if not seconds:
        return ""
    top = max(seconds)
    return "".join(_BARS[max(1, round(one / top * (len(_BARS) - 1)))] for one in seconds) + f"  max {top:.2f} s"


def _size(count: float) -> str:
    if count < 1_000_000:
        return f"{count / 1000:.0f} kB"
    return f"{count / 1_000_000:.1f} MB"
