"""What is remembered of failures: where they were, and that one record was the cause of several."""

from __future__ import annotations

from tidemill.checkpoint.model import Epoch
from tidemill.errors import CheckpointError, FailureSite, UserCodeError
from tidemill.runtime.batch.failures import Failure, failure_of, user_error
from tidemill.runtime.observe.exception_history import ExceptionHistory
from tidemill.state.keys.key_groups import Subtask


def failure(record: object, *, key: object = "k", epoch: int = 3, raised: Exception | None = None) -> Exception:
    """An error as the driver gets it from a worker."""
    site = FailureSite("parse", "parse-1")
    error = user_error("parse", raised or ValueError("bad"), record=record, key=key, site=site)
    report: Failure = failure_of(error, "chain", Subtask(1), epoch=Epoch(epoch))
    return report.to_error()


def test_an_entry_says_where_it_was_and_what_followed() -> None:
    history = ExceptionHistory(16)
    history.failed(failure({"id": 7}), 1000)
    history.followed_by("started again after 50 ms")
    (entry,) = history.entries()
    assert entry.exception == "ValueError: bad"
    assert entry.site == FailureSite("parse", "parse-1", 1, 3, "ValueError", "'k'", "{'id': 7}")
    assert entry.message.startswith("ValueError: bad\n")
    assert (entry.timestamp, entry.last_timestamp, entry.times) == (1000, 1000, 1)
    assert entry.story() == (
        "ValueError: bad in operator 'parse' (uid parse-1), subtask 2, epoch 3: failed at record {'id': 7}, key 'k', "
        "1970-01-01T00:00:01.000Z; started again after 50 ms"
    )


def test_failures_at_the_same_record_are_one_story() -> None:
    history = ExceptionHistory(16)
    for time in (1000, 2000, 3000):
        history.failed(failure(7, raised=ValueError(f"at {time}")), time)
        history.followed_by("started again")
    (entry,) = history.entries()
    assert (entry.times, entry.timestamp, entry.last_timestamp) == (3, 1000, 3000)
    assert entry.exception == "ValueError: at 3000"
    assert "failed 3 times at the same record 7, key 'k'" in entry.story()


def test_other_records_keys_exceptions_and_failures_in_between_are_stories_of_their_own() -> None:
    history = ExceptionHistory(16)
    for error in (
        failure(7),
        failure(8),
        failure(8, key="other"),
        failure(8, key="other", raised=KeyError("x")),
        OSError("disk"),
        failure(8, key="other", raised=KeyError("x")),
    ):
        history.failed(error, 0)
    assert [entry.times for entry in history.entries()] == [1] * 6


def test_objects_without_a_text_of_their_own_are_recognised_again() -> None:
    history = ExceptionHistory(16)
    for _ in range(2):
        history.failed(failure(object()), 0)
    (entry,) = history.entries()
    assert (entry.times, entry.site.record) == (2, "<object object>")


def test_failures_without_a_record_are_reported_one_by_one_and_only_the_last_are_kept() -> None:
    history = ExceptionHistory(2)
    for number in range(4):
        history.failed(CheckpointError(f"disk {number}"), number)
    assert [entry.exception for entry in history.entries()] == ["CheckpointError: disk 3", "CheckpointError: disk 2"]
    assert history.entries()[0].story() == "CheckpointError: disk 3: failed at 1970-01-01T00:00:00.003Z"


def test_an_error_without_a_message_is_named() -> None:
    history = ExceptionHistory(2)
    assert history.failed(UserCodeError(), 0).exception == "UserCodeError"
