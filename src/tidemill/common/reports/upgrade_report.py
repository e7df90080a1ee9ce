"""The report on an upgrade: what happens to each state when a changed program starts from the state of an old one."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.errors import StateMigrationError, TidemillError
from tidemill.python_versions import StrEnum

__all__ = ["Change", "Outcome", "UpgradeReport"]


class Outcome(StrEnum):
    """What happens to a state."""

    #: The program uses it unchanged.
    RESTORED = "restored"
    #: The program uses it in another form: with another type or another time to live.
    MIGRATED = "migrated"
    #: No such state is stored: it starts empty.
    NEW = "new"
    #: Its operator does not register it in ``open()``: it is kept unchanged until a program registers it.
    ORPHANED = "orphaned"
    #: Its operator no longer exists, and the program is allowed to drop its state.
    DROPPED = "dropped"
    #: The program cannot be started from it.
    REFUSED = "refused"
    #: The outcome cannot be determined before the job runs.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Change:
    """What happens to one state, or to a whole operator if ``state`` is empty.

    ``stored`` and ``declared`` are the stored and the declared type; empty if there is none. ``detail`` is the reason.
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
    """What would happen to each state if a program started from a committed epoch. Its text form is a table.

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
        """The changes that prevent a start."""
        return self.of(Outcome.REFUSED)

    def of(self, outcome: Outcome) -> list[Change]:
        """The changes with one outcome."""
        return [change for change in self.changes if change.outcome is outcome]

    def check(self) -> None:
        """Raise if the program cannot be started from this state. The message lists every reason."""
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
    """The operator and state that a detail is about; the detail of a refusal names them itself."""
    if change.outcome is Outcome.REFUSED:
        return ""
    return f"{change.name!r} (uid {change.operator})" + (f", state {change.state!r}: " if change.state else ": ")
