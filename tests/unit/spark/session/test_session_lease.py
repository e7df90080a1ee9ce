"""Who holds a Spark session: the last one stops it, and all have another one if Spark dies under theirs."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from tidemill.common import Configuration
from tidemill.errors import EngineLostError, JobExecutionError
from tidemill.spark.session import session_lease
from tidemill.spark.session.session_lease import SessionLease


class FakeContext:
    """As much of a context as a hold on it needs."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        SparkContext._active_spark_context = None


class FakeSession:
    def __init__(self) -> None:
        self.sparkContext = FakeContext()

    def stop(self) -> None:
        self.sparkContext.stop()


class FakeSpark:
    """PySpark, as far as this process knows it: a JVM that may die, and the session in it."""

    def __init__(self) -> None:
        self.session: Any = None
        self.made: list[Any] = []
        self.adopted: list[Any] = []
        self.is_dead = False
        self.dies_while_made = False

    def running(self) -> Any:
        return None if self.session is None or self.is_dead or self.session.sparkContext.stopped else self.session

    def new(self, configuration: Configuration) -> Any:
        assert not self.is_dead, "PySpark would ask the dead JVM"
        self.bring(FakeSession())
        self.made.append(self.session)
        if self.dies_while_made:
            self.is_dead, self.dies_while_made = True, False
            raise ConnectionError("the JVM does not answer")
        return self.session

    def bring(self, session: FakeSession) -> None:
        self.session = session
        SparkContext._active_spark_context = session.sparkContext  # type: ignore[assignment]
        SparkContext._gateway = object()

    def forget(self) -> None:
        assert self.is_dead
        self.is_dead, self.session = False, None
        SparkContext._active_spark_context = SparkContext._gateway = None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    pyspark = FakeSpark()
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session_lease._MadeHere, "context", None)
    monkeypatch.setattr(session_lease._MadeHere, "users", 0)
    monkeypatch.setattr(session_lease, "running_session", pyspark.running)
    monkeypatch.setattr(session_lease, "new_session", pyspark.new)
    monkeypatch.setattr(session_lease, "adopt", pyspark.adopted.append)
    monkeypatch.setattr(session_lease, "_answers", lambda: not pyspark.is_dead)
    monkeypatch.setattr(session_lease, "_forget_jvm", pyspark.forget)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return pyspark


def lease() -> SessionLease:
    return SessionLease(Configuration())


def is_stopped(session: Any) -> bool:
    return bool(session.sparkContext.stopped)


def test_a_session_that_was_made_here_stays_until_its_last_user_is_gone(fake: FakeSpark) -> None:
    first, second = lease(), lease()
    assert first.session is second.session
    first.release()
    assert not is_stopped(second.session), "another job runs in it"
    second.release()
    assert is_stopped(second.session)
    third = lease()
    assert third.session is not first.session
    assert fake.adopted == []


@pytest.mark.parametrize(("code", "hint"), [(52, True), (1, False), (None, False)])
def test_a_spark_that_ran_out_of_memory_is_reported_with_the_option_that_helps(
    fake: FakeSpark, code: int | None, hint: bool
) -> None:
    class Ending:
        """A JVM that ends, or not, while one waits for it."""

        def wait(self, timeout: float) -> int:
            if code is None:
                raise subprocess.TimeoutExpired("java", timeout)
            fake.is_dead = True
            return code

    taken = lease()
    SparkContext._gateway = SimpleNamespace(proc=Ending())
    loss = taken.loss()
    assert ("spark.driver.memory" in str(loss)) == hint
    assert isinstance(loss, EngineLostError) == (code is None)


def test_a_session_of_the_programs_is_the_programs_to_stop(fake: FakeSpark) -> None:
    own: Any = FakeSession()
    fake.bring(own)
    taken = lease()
    assert taken.session is own
    taken.release()
    assert not is_stopped(own)
    assert fake.adopted == [own]
    assert fake.made == []


def test_a_session_that_the_program_has_replaced_is_left_alone(fake: FakeSpark) -> None:
    taken = lease()
    taken.session.stop()
    own: Any = FakeSession()
    fake.bring(own)
    taken.release()
    assert SparkContext._active_spark_context is own.sparkContext


def test_all_who_held_a_session_under_which_spark_died_have_one_and_the_same_other(fake: FakeSpark) -> None:
    first, second = lease(), lease()
    lost = first.session
    fake.is_dead = True
    told = first.loss()
    assert type(told) is JobExecutionError, "which restart strategies treat as any other"
    assert "restarted with the job" in str(told)
    renewed = first.renew()
    assert type(second.loss()) is JobExecutionError, "though the other one has replaced it already"
    assert second.renew() is renewed
    assert first.session is not lost
    assert len(fake.made) == 2
    first.release()
    assert not is_stopped(second.session)
    second.release()
    assert is_stopped(second.session)


def test_a_session_that_only_seemed_to_be_lost_is_kept(fake: FakeSpark) -> None:
    taken = lease()
    assert taken.renew() is fake.made[0]
    taken.release()
    assert is_stopped(fake.made[0]), "it was held once"


def test_a_job_that_failed_since_spark_died_can_be_executed_again(fake: FakeSpark) -> None:
    failed = lease()
    fake.is_dead = True
    failed.release()
    again = lease()
    assert again.session is fake.made[1]
    failed_first, fake.is_dead = again, True
    after = lease()
    assert after.session is fake.made[2], "the other one has not yet ended"
    failed_first.release()
    assert not is_stopped(after.session), "it is not the session that was held"


def test_a_jvm_that_dies_while_a_session_is_made_is_not_the_programs_to_replace(fake: FakeSpark) -> None:
    fake.dies_while_made = True
    with pytest.raises(JobExecutionError, match="while it was started: execute the job again"):
        lease()
    again = lease()
    assert again.session is fake.made[1]
    again.release()
    assert is_stopped(again.session)


def test_a_second_death_while_the_session_is_renewed_is_mended_by_the_next_attempt_of_whichever_job(
    fake: FakeSpark,
) -> None:
    first, second = lease(), lease()
    fake.is_dead = fake.dies_while_made = True
    with pytest.raises(JobExecutionError):
        first.renew()
    assert type(second.loss()) is JobExecutionError
    renewed = second.renew()
    assert renewed is fake.made[2]
    assert first.renew() is renewed
    first.release()
    assert not is_stopped(renewed)
    second.release()
    assert is_stopped(renewed)


def test_a_jvm_that_does_not_start_again_leaves_the_other_job_its_own_error(
    fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lease(), lease()
    fake.is_dead = True

    def no_java(configuration: Configuration) -> Any:
        raise RuntimeError("Java gateway process exited before sending its port number")

    monkeypatch.setattr(session_lease, "new_session", no_java)
    with pytest.raises(RuntimeError, match="Java gateway"):
        first.renew()
    assert type(second.loss()) is JobExecutionError
    first.release()
    second.release()


def test_a_jvm_that_dies_between_two_jobs_is_noticed(fake: FakeSpark) -> None:
    lease().release()
    fake.is_dead = True
    assert lease().session is fake.made[1]


def test_spark_that_has_died_under_the_programs_session_is_the_programs_to_replace(fake: FakeSpark) -> None:
    fake.bring(FakeSession())
    taken = lease()
    fake.is_dead = True
    assert isinstance(taken.loss(), EngineLostError), "which ends the job"
    for _ in range(2):
        with pytest.raises(EngineLostError, match=r"that the program has created is lost.*Start the program again"):
            lease()
    assert fake.made == []


def test_an_application_that_its_cluster_has_ended_is_not_started_again_by_the_job(fake: FakeSpark) -> None:
    taken = lease()
    fake.session.sparkContext.stopped = True
    assert isinstance(taken.loss(), EngineLostError)
    assert lease().session is fake.made[1], "but by who executes it again"


def test_what_spark_submit_has_started_can_only_be_submitted_again(
    fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    taken = lease()
    fake.is_dead = True
    assert isinstance(taken.loss(), EngineLostError)
    with pytest.raises(EngineLostError, match="Submit the program again"):
        lease()
