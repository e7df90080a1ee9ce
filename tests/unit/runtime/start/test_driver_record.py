"""Which driver runs a job, as another one that starts can tell: alive, dead, or elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import eventually
from tidemill.checkpoint.names import driver_record_name, parse_driver_record
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage
from tidemill.errors import CheckpointError, FencedError
from tidemill.runtime.start.driver_record import (
    DriverDescription,
    DriverHeartbeat,
    Life,
    Process,
    birth_of,
    check_no_other_driver,
    judge,
    this_process,
)

HERE = Process(7, "kernel/namespace", 100)
FOUND = DriverDescription("ab" * 8, "host", 42, since=0, beat=100_000, interval=5_000, machine=HERE.machine, birth=55)


def test_a_process_of_this_machine_that_is_gone_is_dead_at_once() -> None:
    assert judge(FOUND, HERE, lambda pid: None, 100_001) is Life.DEAD


def test_another_process_with_the_same_id_is_not_the_driver() -> None:
    assert judge(FOUND, HERE, lambda pid: 56, 100_001) is Life.DEAD


def test_a_process_of_this_machine_that_beats_is_alive_and_one_that_hangs_is_not() -> None:
    assert judge(FOUND, HERE, lambda pid: 55, 115_000) is Life.ALIVE
    assert judge(FOUND, HERE, lambda pid: 55, 115_001) is Life.DEAD


@pytest.mark.parametrize("machine", ["another/namespace", ""])
def test_of_a_driver_elsewhere_the_next_beat_decides_unless_its_record_is_old(machine: str) -> None:
    elsewhere = replace(FOUND, machine=machine)
    assert judge(elsewhere, HERE, lambda pid: 55, 100_001) is Life.UNKNOWN
    assert judge(elsewhere, HERE, lambda pid: 55, 40_000) is Life.UNKNOWN, "its clock is ahead"
    assert judge(elsewhere, HERE, lambda pid: 55, 175_000) is Life.UNKNOWN
    assert judge(elsewhere, HERE, lambda pid: 55, 175_001) is Life.DEAD


def test_a_process_is_known_by_its_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        born = birth_of(child.pid)
        assert born is not None
        assert born == birth_of(child.pid)
    finally:
        child.kill()
        eventually(lambda: birth_of(child.pid) is None, what="the end of the process, which is a zombie now")
        child.communicate()
    assert birth_of(child.pid) is None
    assert this_process().birth == birth_of(os.getpid())


def test_a_driver_that_is_alive_keeps_others_out_and_is_named(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    record = DriverHeartbeat(storage, 0.05)
    record.reachable_at("http://127.0.0.1:8081")
    eventually(lambda: _beats(storage) > [2], what="the next beats")
    with pytest.raises(FencedError) as caught:
        check_no_other_driver(storage, "shop", take_over=False)
    assert f"job 'shop' is run by another driver: process {os.getpid()} on {socket.gethostname()}, since 2" in str(
        caught.value
    )
    assert "(REST at http://127.0.0.1:8081)" in str(caught.value)
    assert "--take-over" in str(caught.value)
    check_no_other_driver(storage, "shop", take_over=True)
    record.close()
    assert not storage.list("drivers/")
    check_no_other_driver(storage, "shop", take_over=False)


def test_a_driver_that_was_killed_is_followed_at_once(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tidemill.checkpoint.storage.storages import LocalStorage\n"
        "from tidemill.runtime.start.driver_record import DriverHeartbeat\n"
        "DriverHeartbeat(LocalStorage(sys.argv[1]), 5.0)\n"
        "print(flush=True)\n"
        "input()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    storage = LocalStorage(tmp_path)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(FencedError, match=f"process {child.pid} "):
            check_no_other_driver(storage, "shop", take_over=False)
        child.send_signal(signal.SIGKILL)
        child.wait()
    finally:
        child.kill()
        child.communicate()
    began = time.monotonic()
    check_no_other_driver(storage, "shop", take_over=False)
    assert time.monotonic() - began < 5.0
    assert not storage.list("drivers/")


def test_a_driver_elsewhere_is_alive_if_it_beats_within_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.runtime.start.driver_record._LOOK_SECONDS", 0.01)
    storage = MemoryStorage()
    record = DriverHeartbeat(storage, 0.2)
    try:
        monkeypatch.setattr("tidemill.runtime.start.driver_record.this_process", lambda: Process(1, "elsewhere", 1))
        with pytest.raises(FencedError, match="is run by another driver"):
            check_no_other_driver(storage, "shop", take_over=False)
    finally:
        record.close()


def test_a_driver_elsewhere_that_does_not_beat_is_followed_after_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.runtime.start.driver_record._LOOK_SECONDS", 0.01)
    storage = MemoryStorage()
    record = DriverHeartbeat(storage, 0.1)
    record._ended.set()
    record._thread.join()  # as if its machine were gone
    monkeypatch.setattr("tidemill.runtime.start.driver_record.this_process", lambda: Process(1, "elsewhere", 1))
    check_no_other_driver(storage, "shop", take_over=False)
    assert not storage.list("drivers/")


def test_a_record_that_cannot_be_renewed_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(MemoryStorage):
        broken = threading.Event()
        tries = 0

        def write(self, name: str, data: bytes) -> None:
            if self.broken.is_set():
                self.tries += 1
                raise CheckpointError("the store does not respond")
            super().write(name, data)

    storage = Failing()
    record = DriverHeartbeat(storage, 0.01)
    storage.broken.set()
    eventually(lambda: storage.tries > 2, what="further tries")
    storage.broken.clear()
    record.close()
    assert caplog.text.count("cannot be renewed at the moment: the store does not respond") == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}"])
def test_a_damaged_record_does_not_keep_a_job_from_being_resumed(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    storage.write(driver_record_name("ab" * 8, 3), data)
    check_no_other_driver(storage, "shop", take_over=False)
    assert not storage.list("drivers/")
    assert "is damaged, and is deleted" in caplog.text


def test_names_of_records() -> None:
    name = driver_record_name("ab" * 8, 3)
    assert parse_driver_record(name) == ("ab" * 8, 3)
    assert parse_driver_record("drivers/other.json") is None


def _beats(storage: LocalStorage) -> list[int]:
    return [beat for _, beat in filter(None, map(parse_driver_record, storage.list("drivers/")))]
