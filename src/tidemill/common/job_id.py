"""The identifier of a job."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from tidemill.errors import ConfigurationError

__all__ = ["JobID"]

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, order=True, slots=True)
class JobID:
    """Identifies a job. A generated id has 32 hexadecimal digits; users may choose any other id that is safe in a path.

    >>> str(JobID("word-count"))
    'word-count'
    >>> len(str(JobID.generate()))
    32
    """

    value: str

    def __post_init__(self) -> None:
        if not _SAFE.fullmatch(self.value) or ".." in self.value:
            raise ConfigurationError(
                f"Invalid job id {self.value!r}: it must be 1 to 128 letters, digits, '.', '_' or '-', begin with a "
                "letter or digit, and not contain '..'."
            )

    @staticmethod
    def generate() -> JobID:
        """Generates a new unique id."""
        return JobID(uuid.uuid4().hex)

    def __str__(self) -> str:
        return self.value
