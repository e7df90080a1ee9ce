"""The report on an upgrade: what becomes of each state when a changed program is started from what an old one left."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.errors import StateMigrationError, TidemillError

__all__ = ["Change", "Outcome", "UpgradeReport"]


class Outcome(StrEnum):
    """What becomes of a state."""

    #: The program goes on with it.
    RESTORED = "restored"
    #: The program goes on with it, in another form: of another type, or with another time to live.
    MIGRATED = "migrated"
    #: Nothing is stored of it: it starts empty.
    NEW = "new"
    #: Its operator does not register it when it is opened: it stays as it is, until a program does.
    ORPHANED = "orphaned"
    #: Its operator is gone, and the program may leave it behind.
    DROPPED = "dropped"
    #: The program cannot be started from it.
    REFUSED = "refused"
    #: It cannot be told before the job runs.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Change:
    """What becomes of one state (or, with ``state`` empty, of an operator as a whole).

    ``stored`` and ``declared`` are the types, side by side; empty where there is none. ``detail`` says why.
    """

    operator: str
    name: str
    state: str
    outcome: Outcome
    stored: str = ""
    declared: str = ""
    detail: str = ""
    error: type[TidemillError] = field(default=StateMigrationError, repr=False)


@dataclass(frozen=True)
class UpgradeReport:
    """What a program would find of a committed epoch; printed, it is a table.

    >>> old, new = "value(Integer)", "value(Long)"
    >>> change = Change("count", "Count", "n", Outcome.MIGRATED, old, new, "values are converted")
    >>> print(UpgradeReport("job", 7, (change,)))
    From epoch 7 of job job:
    <BLANKLINE>
    operator  uid    state  outcome   stored          declared
    --------  -----  -----  --------  --------------  -----------
    Count     count  n      migrated  value(Integer)  value(Long)
    <BLANKLINE>
    migrated: 'Count' (uid count), state 'n': values are converted
    """

    job_id: str
    epoch: int
    changes: tuple[Change, ...]

    @property
    def refused(self) -> list[Change]:
        """What stands in the way of a start."""
        return self.of(Outcome.REFUSED)

    def of(self, outcome: Outcome) -> list[Change]:
        """The changes with one outcome."""
        return [change for change in self.changes if change.outcome is outcome]

    def check(self) -> None:
        """Raise if the program cannot be started from this state; the message has everything that stands in the way."""
        if self.refused:
            raise self.refused[0].error("\n".join(change.detail for change in self.refused))

    def __str__(self) -> str:
        rows = [("operator", "uid", "state", "outcome", "stored", "declared")]
        rows += [(c.name, c.operator, c.state, c.outcome.value, c.stored, c.declared) for c in self.changes]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        notes = [f"{c.outcome.value}: {_label(c)}{c.detail}" for c in self.changes if c.detail]
        head = f"From epoch {self.epoch} of job {self.job_id}:"
        return "\n".join([head, "", *lines, *([""] if notes else []), *notes])


def _label(change: Change) -> str:
    """What a detail is about; a refusal says so itself."""
    if change.outcome is Outcome.REFUSED:
        return ""
    return f"{change.name!r} (uid {change.operator})" + (f", state {change.state!r}: " if change.state else ": ")
