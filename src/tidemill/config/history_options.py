"""Options of the history of jobs."""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import Bool, DurationValue, Int, Text

__all__ = ["HistoryOptions"]

_MS = timedelta(milliseconds=1)


class HistoryOptions:
    """What remains of a job when its driver has ended, and the server that shows it."""

    ENABLED = option(
        "history.enabled",
        Bool(),
        True,
        "Tidemill only. Write a record of the job for 'tidemill history', if it has a checkpoint directory or an "
        "archive directory.",
    )
    INTERVAL = option(
        "history.interval",
        DurationValue(timedelta(seconds=1)),
        timedelta(seconds=30),
        "Tidemill only. How often a running job writes its record, for the case that its driver is killed.",
    )
    DIRECTORY = option(
        "jobmanager.archive.fs.dir",
        Text(),
        None,
        "Directory of the records of jobs; if not set, '_history' in execution.checkpointing.dir.",
    )
    RETAINED = option(
        "historyserver.archive.retained-jobs",
        Int(-1),
        200,
        "Number of ended jobs whose records are kept in a directory; -1: all. Flink's default is -1.",
    )
    RETAINED_FOR = option(
        "historyserver.archive.retained-ttl",
        DurationValue(_MS),
        None,
        "For how long records of ended jobs are kept; if not set, until there are too many.",
    )
    SHOWN = option(
        "historyserver.archive.fs.dir",
        Text(),
        None,
        "Directories of records that 'tidemill history' shows, separated by commas.",
    )
    REFRESH = option(
        "historyserver.archive.fs.refresh-interval",
        DurationValue(_MS),
        timedelta(seconds=10),
        "How often 'tidemill history' looks for new records.",
    )
    ADDRESS = option(
        "historyserver.web.address",
        Text(),
        None,
        "Address that 'tidemill history' listens on; if not set, that of rest.bind-address.",
    )
    PORT = option(
        "historyserver.web.port",
        Int(0, 65535),
        8082,
        "Port that 'tidemill history' listens on; if not set, the first free one from it.",
    )
