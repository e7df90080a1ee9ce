"""Metric reporters, which export the metrics of a job. They are configured with Flink's keys::

    metrics.reporters: prom; mine               # the reporters to start; if not set, all that are configured
    metrics.reporter.prom.port: 9249            # a Prometheus endpoint, see tidemill.ops.prometheus
    metrics.reporter.mine.factory.class: my_package.reporting.MyReporter
    metrics.reporter.mine.interval: 30 s
    metrics.reporter.mine.url: ...              # any other key is an option of the reporter

A reporter cannot harm a job: it runs in a separate thread that the job does not wait for, and its exceptions are
logged.
"""

from __future__ import annotations

import importlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from tidemill.common.configuration import Configuration
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.config import MetricOptions
from tidemill.config.values import DurationValue
from tidemill.errors import ConfigurationError
from tidemill.metrics.registry import MetricRegistry

__all__ = ["MetricReporter", "start_reporters"]

log = logging.getLogger(__name__)

_PREFIX: Final = "metrics.reporter."
_PROMETHEUS: Final = "tidemill.ops.prometheus.PrometheusReporter"
#: Reporter classes by reporter name, for reporters without a class, and by the names of Flink's classes.
_KNOWN: Final = {
    "prom": _PROMETHEUS,
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": _PROMETHEUS,
}
#: How long the end of a job waits for the last report.
_LAST_SECONDS: Final = 2.0


class MetricReporter(ABC):
    """Exports metrics. A reporter is created without arguments, opened once, and closed when the job ends.

    >>> class Printing(MetricReporter):
    ...     def report(self, snapshot):
    ...         print(f"{snapshot.job_name} is at epoch {snapshot.get('currentEpoch'):.0f}")
    """

    def open(self, registry: MetricRegistry, options: Mapping[str, str]) -> None:
        """Prepare the reporter. ``options`` are the keys below ``metrics.reporter.<name>.``.

        A pull-based reporter keeps the registry. Raise :class:`~tidemill.errors.ConfigurationError` for invalid
        options: the job is then not started. Any other exception is logged, and the job runs without the reporter.
        """

    @abstractmethod
    def report(self, snapshot: MetricSnapshot) -> None:
        """Called every ``interval`` (10 s) and once when the job ends, in a separate thread of the reporter."""

    def close(self) -> None:
        """Release the resources of the reporter."""


class RunningReporters:
    """The reporters of one job."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._open: list[tuple[str, MetricReporter]] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    def add(self, name: str, reporter: MetricReporter, interval: float) -> None:
        """Start the periodic reports of an open reporter."""
        self._open.append((name, reporter))
        thread = threading.Thread(
            target=self._run, args=(name, reporter, interval), name=f"tidemill-metrics-{name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Let all reporters report the last values, then close them. Does not wait for slow reporters."""
        self._over.set()
        for thread in self._threads:
            thread.join(_LAST_SECONDS)
        for name, reporter in self._open:
            try:
                reporter.close()
            except Exception as error:
                log.warning("metric reporter %r could not be closed: %s", name, error)
        self._open.clear()

    def _run(self, name: str, reporter: MetricReporter, interval: float) -> None:
        failing = False
        over = False
        while not over:
            over = self._over.wait(interval)
            try:
                reporter.report(self._registry.snapshot())
                failing = False
            except Exception as error:
                if not failing:
                    log.warning("metric reporter %r failed and will be called again: %s", name, error)
                failing = True


def start_reporters(configuration: Configuration, registry: MetricRegistry) -> RunningReporters:
    """Start the configured reporters. Raises if their configuration is invalid."""
    running = RunningReporters(registry)
    with ExitStack() as undo:
        undo.callback(running.close)
        for name, options in _configured(configuration).items():
            reporter = _made(name, options)
            interval = _interval(name, options)
            try:
                reporter.open(registry, options)
            except ConfigurationError:
                raise
            except Exception as error:
                log.warning("the job runs without metric reporter %r: %s", name, error)
                continue
            running.add(name, reporter, interval)
        undo.pop_all()
    return running


def _configured(configuration: Configuration) -> dict[str, dict[str, str]]:
    """The options of each reporter to start, by name."""
    found: dict[str, dict[str, str]] = {}
    for key, value in configuration.to_dict().items():
        if key.startswith(_PREFIX):
            name, _, option = key.removeprefix(_PREFIX).partition(".")
            found.setdefault(name, {})[option] = value
    wanted = configuration.get(MetricOptions.REPORTERS)
    if wanted is None:
        return found
    return {name: found.get(name, {}) for name in wanted}


def _made(name: str, options: Mapping[str, str]) -> MetricReporter:
    key = f"{_PREFIX}{name}.factory.class"
    path = options.get("factory.class") or _KNOWN.get(name)
    if path is None:
        raise ConfigurationError(f"metric reporter {name!r} has no class: set {key} (only 'prom' needs none)")
    module, _, class_name = _KNOWN.get(path, path).replace(":", ".").rpartition(".")
    try:
        made: Any = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, ValueError) as error:
        hint = ". Install tidemill[ops]" if getattr(error, "name", None) == "prometheus_client" else ""
        raise ConfigurationError(
            f"metric reporter {name!r} cannot be created from {path} ({key}): {error}{hint}"
        ) from error
    if not isinstance(made, MetricReporter):
        raise ConfigurationError(f"{path}, set with {key}, is not a MetricReporter")
    return made


def _interval(name: str, options: Mapping[str, str]) -> float:
    try:
        return DurationValue().parse(options.get("interval", "10 s")).total_seconds()
    except ValueError:
        raise ConfigurationError(
            f"Invalid value {options['interval']!r} for configuration key '{_PREFIX}{name}.interval': it must be "
            f"{DurationValue().expects}."
        ) from None
