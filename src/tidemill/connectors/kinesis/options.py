"""The properties of a Kinesis consumer, with the names of Flink's ``ConsumerConfigConstants``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.errors import ConfigurationError
from tidemill.python_versions import datetime_from_iso

__all__ = ["ConsumerOptions", "InitialPosition"]

_INITIAL: Final = "flink.stream.initpos"
_TIMESTAMP: Final = "flink.stream.initpos.timestamp"
#: Flink's default format of a timestamp is ISO 8601; other formats are not supported.
_FORMAT: Final = "flink.stream.initpos.timestamp.format"
_DEFAULT_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"

#: Either the beginning of what Kinesis keeps (None), or a time in ms.
InitialPosition = int | None


@dataclass(frozen=True)
class ConsumerOptions:
    """How shards are read. Times are in seconds."""

    initial: str
    timestamp: int | None
    records_per_request: int
    interval: float
    retries: int
    backoff_base: float
    backoff_max: float
    backoff_factor: float
    discovery_interval: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ConsumerOptions:
        """Parse properties. Raises :class:`ConfigurationError` for invalid values."""
        initial = properties.get(_INITIAL, "LATEST")
        if initial not in ("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP"):
            raise ConfigurationError(f"{_INITIAL} must be LATEST, TRIM_HORIZON or AT_TIMESTAMP, not {initial!r}")
        reads = "flink.shard.getrecords"
        return cls(
            initial=initial,
            timestamp=_timestamp(properties) if initial == "AT_TIMESTAMP" else None,
            records_per_request=min(10_000, int(_number(properties, f"{reads}.maxrecordcount", 10_000, least=1))),
            interval=_number(properties, f"{reads}.intervalmillis", 200) / 1000,
            retries=int(_number(properties, f"{reads}.maxretries", 3)),
            backoff_base=_number(properties, f"{reads}.backoff.base", 300) / 1000,
            backoff_max=_number(properties, f"{reads}.backoff.max", 1000) / 1000,
            backoff_factor=_number(properties, f"{reads}.backoff.expconst", 1.5, least=1),
            discovery_interval=_number(properties, "flink.shard.discovery.intervalmillis", 10_000) / 1000,
        )

    def backoff(self, attempt: int) -> float:
        """Return the seconds to wait after a number of failed attempts."""
        return float(min(self.backoff_max, self.backoff_base * self.backoff_factor ** min(attempt, 64)))


def _number(properties: Mapping[str, str], name: str, default: float, least: float = 0) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < least:
        raise ConfigurationError(f"{name} must be a number of at least {least:g}, not {text!r}")
    return value


def _timestamp(properties: Mapping[str, str]) -> int:
    text = properties.get(_TIMESTAMP)
    if text is None:
        raise ConfigurationError(f"{_INITIAL}: AT_TIMESTAMP needs {_TIMESTAMP}")
    if properties.get(_FORMAT, _DEFAULT_FORMAT) != _DEFAULT_FORMAT:
        raise ConfigurationError(f"{_FORMAT} is not supported: give {_TIMESTAMP} in ISO 8601, or in seconds since 1970")
    try:
        return int(float(text) * 1000)  # Flink takes seconds, with a fraction
    except ValueError:
        pass
    try:
        moment = datetime_from_iso(text)
    except ValueError:
        raise ConfigurationError(
            f"{_TIMESTAMP} must be in ISO 8601 (2016-04-04T19:58:46.480-00:00) or seconds since 1970, not {text!r}"
        ) from None
    if moment.tzinfo is None:
        raise ConfigurationError(f"{_TIMESTAMP} needs a time zone: {text!r}")
    return int(moment.timestamp() * 1000)
