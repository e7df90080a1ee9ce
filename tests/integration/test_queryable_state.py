"""Queryable state as processes: beside a job, over its failures and its end, and by hand for a job that has ended."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import eventually
from tidemill.common import Configuration, JobClient, Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import ConfigurationError
from tidemill.ops.queryable import QueryableStateClient, UnknownJobError, address_of, stop_queryable_state
from tidemill.ops.queryable.__main__ import main

COUNT = ValueStateDescriptor("count", Types.LONG())
COUNT.set_queryable("counts")
KEYS = 7
#: Numbers that no other comes after, until it may: there are epochs before each.
HALTS = (50, 200, 300)


class Count(KeyedProcessFunction):
    """Counts; waits for a file here and there, and raises once, in the middle."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        folder = Path(self.folder)
        for halt in HALTS:
            while value > halt and not (folder / f"past-{halt}").exists():
                time.sleep(0.01)
        if value == 100 and not (folder / "has-failed").exists():
            (folder / "has-failed").touch()
            raise RuntimeError("once")
        self.count.update((self.count.value() or 0) + 1)


def start(tmp_path: Path, job: str, **more: str) -> JobClient:
    options = {
        "execution.target": "local",
        "execution.job-id": job,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.epoch.max-records": "20",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "50 ms",
        "queryable-state.enable": "true",
        "queryable-state.proxy.ports": "0",
        **more,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    numbers = env.from_sequence(1, 400).uid("numbers")
    numbers.key_by(lambda n: n % KEYS, Types.LONG()).process(Count(tmp_path)).uid("count")
    return env.execute_async(job)


@contextmanager
def stopped(job: str) -> Iterator[None]:
    try:
        yield
    finally:
        stop_queryable_state(job)


def test_a_server_beside_a_job_answers_over_its_restart_and_its_end(tmp_path: Path) -> None:
    with stopped("beside"):
        client = start(tmp_path, "beside", **{"execution.epoch.min-interval": "100 ms"})
        with QueryableStateClient(*address_of("beside", 60), timeout=60) as queries:
            epochs: list[int] = []
            counts: list[int] = []

            def look() -> int:
                found: Any = queries.get_kv_state("beside", "counts", 3, Types.LONG(), COUNT).result(90)
                epochs.append(found.epoch)
                counts.append(found.value())
                return counts[-1]

            assert look() <= len(range(3, 51, KEYS))
            for halt, further in zip(HALTS, (*HALTS[1:], 400), strict=True):
                (tmp_path / f"past-{halt}").touch()
                eventually(lambda: look() > len(range(3, halt + 1, KEYS)), what=f"an epoch beyond {halt}")  # noqa: B023
                assert counts[-1] <= len(range(3, further + 1, KEYS))
            client.get_job_execution_result().result(90)
            assert (epochs, counts) == (sorted(epochs), sorted(counts))
            while counts[-1] < len(range(3, 401, KEYS)):  # until the server has seen the last epoch
                counts.append(queries.get_plain("beside", "counts", 3).result(90).value)
            assert counts[-1] == len(range(3, 401, KEYS))
            with pytest.raises(UnknownJobError):
                queries.get_plain("other", "counts", 3).result(90)
        assert (tmp_path / "has-failed").exists()
        by_hand = serve_by_hand(tmp_path / "checkpoints", "beside")
        with by_hand as address, QueryableStateClient(*address, timeout=60) as queries:
            counts = [queries.get_plain("beside", "counts", key).result(90).value for key in range(KEYS)]
            assert sum(counts) == 400
    with pytest.raises(ConfigurationError, match=r"queryable-state\.enable"):
        address_of("beside")


@contextmanager
def serve_by_hand(directory: Path, job: str) -> Iterator[tuple[str, int]]:
    """Two state servers behind a proxy; when it ends, all of them do."""
    options = ("queryable-state.proxy.ports=0", "queryable-state.server.ports=0", "queryable-state.servers=2")
    command = [sys.executable, "-m", "tidemill.ops.queryable", "--directory", str(directory), "--job", job]
    command += [part for option in options for part in ("-D", option)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield told["host"], told["port"]
        finally:
            children = psutil.Process(process.pid).children()
            process.terminate()
            process.wait(60)
    assert len(children) == 2
    assert process.returncode == 0
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("stays", [False, True], ids=["ends", "stays"])
def test_a_server_ends_with_its_driver_however_that_ends_unless_it_is_to_stay(tmp_path: Path, stays: bool) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.integration.test_queryable_state import start\n"
        "from tests.waiting import eventually\n"
        "from tidemill.ops.queryable import address_of\n"
        f"job = start(Path({str(tmp_path)!r}), 'killed', **{{'queryable-state.keep-running': {str(stays)!r}}})\n"
        "eventually(lambda: job.get_checkpoint_history().completed, what='an epoch to ask for')\n"
        "print(address_of('killed', 60)[1], flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as driver:
        assert driver.stdout is not None
        port = int(driver.stdout.readline())
        children = psutil.Process(driver.pid).children()
        driver.kill()
    assert children
    if stays:
        try:
            with QueryableStateClient("127.0.0.1", port, timeout=60) as queries:
                assert queries.get_plain("killed", "counts", 3).result(90).value > 0
        finally:
            children[0].terminate()
    gone, left = psutil.wait_procs(children, timeout=60)
    assert gone
    assert not left


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--directory is required"),
        (["--directory", "x", "-D", "no-value"], 2, "-D requires KEY=VALUE"),
        (["--directory", "/nonexistent/directory"], 1, "is not the directory of a job"),
        (["--directory", "/nonexistent/directory", "--job", "j"], 1, "is not the directory of a job"),
        (["--directory", ".", "--job", "j", "-D", "queryable-state.bind-address=0.0.0.0"], 1, "queryable-state.token"),
        (["--directory", ".", "--job", "j", "-D", "queryable-state.proxy.ports=x"], 1, "queryable-state.proxy.ports"),
    ],
    ids=["nothing", "option", "directory", "job", "address", "ports"],
)
def test_wrong_uses_say_what_is_wrong(
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **options: None)
    try:
        ended = main(arguments)
    except SystemExit as error:
        ended = int(error.code or 0)
    assert (ended, message in capsys.readouterr().err) == (code, True)
