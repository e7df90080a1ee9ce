"""A worker that comes back resumes from what it has on its local disk, if that is a committed version, and only then.

A backend that keeps nothing on disk has no version: it loads everything, and the same tests hold for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import CONFIGURATIONS, KINDS, OPERATOR, Backends, States, load, to_file
from tests.thorough import examples
from tidemill.state.files.state_file import decode_sections
from tidemill.state.keyed.backend import StateVersion
from tidemill.state.merging import merge_sections
from tidemill.state.rocksdb import RocksDBBackend

LINEAGE = "first"
KEYS = ("a", 1, ("t", 2))
NAMES = (None, (0, 5))


class Job:
    """One subtask, which moves between workers; ``files`` are those of its epochs, None if nothing changed."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self.lineage = LINEAGE
        self.files: list[bytes | None] = []
        self.loaded: list[int] = []

    @property
    def version(self) -> StateVersion:
        epoch = len(self.files)
        return StateVersion(self.lineage, epoch, epoch)

    def worker(self, host: str) -> States:
        """A worker on a host; it loads what it does not have. ``loaded`` are the epochs of the files it read."""
        backend = self._backends(job_id=host)
        found, first = backend.version(), 0
        if found is not None:
            if found.lineage == self.lineage and found.epoch <= len(self.files):
                first = found.epoch
            else:
                backend.reset()
        self.loaded = [number for number, file in enumerate(self.files) if number >= first and file is not None]
        load(backend, [file for file in self.files[first:] if file is not None])
        backend.loaded(self.version)
        return States(backend)  # as in a task: functions register their states when all is loaded

    def commit(self, states: States) -> None:
        """The epoch counts; then the next one begins."""
        delta = states.backend.export_delta()
        self.files.append(to_file(delta) if delta else None)
        states.backend.fold(self.version)
        states.backend.begin_epoch()


def keeps_versions(backends: Backends) -> bool:
    return backends.configuration in ("rocksdb-large-cache", "rocksdb-small-cache")  # timers on the heap are not kept


def everything(states: States) -> list[Any]:
    cells = [states.at(key, name).seen() for key in KEYS for name in NAMES]
    timers = [list(states.backend.event_timers.pending()), list(states.backend.processing_timers.pending())]
    keys = [list(states.backend.keys(kind, name)) for kind in KINDS for name in NAMES]
    return [cells, timers, keys]


def write(states: States, number: int) -> None:
    """Some changes of all kinds, other ones for each number."""
    key, name = KEYS[number % 3], NAMES[number // 3 % 2]
    states.at(key, name)
    if number % 5 == 4:
        states.clear()
        states.backend.event_timers.delete(number - 4, key, name)
    else:
        states.fill(number)
        states.backend.event_timers.register(number, key, name)
        states.backend.processing_timers.register(number % 4, key)
    if number % 7 == 6:
        states.backend.processing_timers.pop_due(2)


def begun(job: Job, epochs: int) -> States:
    """A worker that has committed so many epochs."""
    states = job.worker("here")
    for number in range(epochs):
        write(states, number)
        job.commit(states)
    return states


def killed(states: States) -> None:
    """The worker is gone: what it had on disk stays as it is there."""
    if isinstance(states.backend, RocksDBBackend):
        store = states.backend._store
        store._open_db().flush()
        store._close_db()
        store._directory.close(remove=False)
        states.backend.close(forget=True)  # of what is gone already, it removes nothing


def truth(job: Job) -> list[Any]:
    """What the files say."""
    with Backends("hashmap") as hashmap:
        return everything(States(load(hashmap(), [file for file in job.files if file is not None])))


def test_a_worker_that_comes_back_loads_only_what_it_missed(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = begun(job, 6)
    states.backend.close(forget=False)
    elsewhere = job.worker("there")
    write(elsewhere, 6)
    job.commit(elsewhere)
    back = job.worker("here")
    written = [number for number, file in enumerate(job.files) if file is not None]
    assert job.loaded == ([6] if keeps_versions(new_backend) else written)
    assert everything(back) == everything(elsewhere) == truth(job)


def test_what_was_not_committed_does_not_come_back(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = begun(job, 4)
    for number in range(20, 30):
        write(states, number)
    states.backend.export_delta()
    states.backend.close(forget=False)
    assert everything(job.worker("here")) == truth(job)


def test_a_version_of_another_lineage_is_not_used(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = begun(job, 6)
    states.backend.close(forget=False)
    job.lineage, job.files = "second", job.files[:3]  # restored from an older checkpoint
    back = job.worker("here")
    assert job.loaded == [0, 1, 2]
    assert everything(back) == truth(job)
    write(back, 7)
    job.commit(back)
    back.backend.close(forget=False)
    assert everything(job.worker("here")) == truth(job)


def test_a_worker_that_discards_its_chains_leaves_nothing(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = job.worker("here")
    write(states, 0)
    job.commit(states)
    states.backend.close()
    back = job.worker("here")
    assert job.loaded == [0]
    assert everything(back) == truth(job)


def test_a_fold_that_names_no_manifest_leaves_no_version(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = job.worker("here")
    write(states, 0)
    job.commit(states)
    write(states, 1)
    states.backend.fold()
    states.backend.close(forget=False)
    assert new_backend(job_id="here").version() is None


def test_a_worker_that_was_killed_before_its_first_fold_leaves_nothing_that_counts(new_backend: Backends) -> None:
    job = Job(new_backend)
    elsewhere = job.worker("there")
    elsewhere.at("a").fill(1)
    elsewhere.backend.event_timers.register(5, "a")
    job.commit(elsewhere)
    killed(job.worker("here"))
    elsewhere.at("a").clear()
    elsewhere.backend.event_timers.delete(5, "a")
    elsewhere.at("b").fill(2)
    job.commit(elsewhere)
    # As a merge with nothing below it does: of what was deleted, nothing is left.
    rows = merge_sections([s for file in job.files if file for s in decode_sections(file, "f")], {OPERATOR: 16}, False)
    job.files = [to_file(rows), None]
    assert everything(job.worker("here")) == truth(job) == everything(elsewhere)


def test_a_worker_that_was_killed_while_it_caught_up_leaves_nothing_that_counts(new_backend: Backends) -> None:
    job = Job(new_backend)
    states = begun(job, 5)
    states.backend.close(forget=False)
    elsewhere = job.worker("there")
    for number in range(5, 9):
        write(elsewhere, number)
        job.commit(elsewhere)
    files, job.files = job.files, job.files[:7]
    killed(job.worker("here"))
    job.files = files
    assert everything(job.worker("here")) == truth(job)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@settings(max_examples=examples(40), derandomize=True, deadline=None, database=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 40)),
            st.sampled_from([("commit", 0), ("commit", 0), ("fail", 0), ("restore", 0)]),
            st.tuples(st.sampled_from(["move", "lose", "kill"]), st.integers(0, 1)),
        ),
        min_size=5,
        max_size=25,
    )
)
def test_workers_that_come_and_go(configuration: str, steps: list[tuple[str, int]]) -> None:
    with Backends(configuration) as backends:
        job = Job(backends)
        states = job.worker("host-0")
        for what, number in steps:
            if what == "write":
                write(states, number)
            elif what == "commit":
                job.commit(states)
            elif what == "fail":
                states.backend.discard()
                states.backend.begin_epoch()
            else:
                if what == "restore":
                    job.lineage, job.files = f"{job.lineage}+", job.files[: len(job.files) // 2]
                if what == "kill":
                    killed(states)
                states.backend.close(forget=what == "lose")
                states = job.worker(f"host-{number}")
                assert everything(states) == truth(job)
        states.backend.discard()
        states.backend.begin_epoch()
        assert everything(states) == truth(job)
