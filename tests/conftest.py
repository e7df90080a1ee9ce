"""For all suites: how they share a machine, and that a test module leaves no thread and no process behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.ids import changes
from tests.java import QUICK_JAVA, QUICK_SPARK, keep_classes
from tests.kafka_broker import KafkaBroker, shared_broker
from tests.memory import use_memory
from tests.shared_processes import shared_pids
from tests.thorough import THOROUGH, examples
from tests.waiting import eventually

# Of tests that run side by side, those of one group run one after the other, in one process. The tests of a process
# share one Spark session, one Kafka broker and one cluster. Those that need Spark are two groups of about the same
# length, so that no process ends late; all that need the broker, also without Spark, are in one of them.
SESSION = "spark session"
INPUT = "input of spark, and kafka"
PROGRAMS = "programs"
SERVERS = "servers"
PAGES = "pages"
BROWSER = "browser"  # one Chromium at a time
# By folder, apart from exceptions.
FOLDERS = {
    "tests/spark/": SESSION,
    "tests/integration/": SERVERS,
    "tests/docs/": PAGES,
    "tests/browser/": BROWSER,
}
EXCEPTIONS = {
    "tests/integration/test_flink_kafka_producer.py": INPUT,
    "tests/integration/test_kafka_broker.py": INPUT,
    "tests/integration/test_kafka_security.py": INPUT,
    "tests/integration/test_kafka_sessions.py": INPUT,
    "tests/integration/test_kafka_sink.py": INPUT,
    "tests/docs/test_docstrings.py": SESSION,  # examples use the session they find
    "tests/spark/test_dataframes.py": INPUT,
    "tests/spark/test_engine_moves.py": INPUT,
    "tests/spark/test_file_sources.py": INPUT,
    "tests/spark/test_flink_kafka_consumer.py": INPUT,
    "tests/spark/test_kafka_jobs.py": INPUT,
    "tests/spark/test_kafka_security.py": INPUT,
    "tests/spark/test_kafka_sink.py": INPUT,
    "tests/spark/test_kafka_source.py": INPUT,
    "tests/spark/test_local_formats.py": INPUT,
    "tests/spark/test_object_store_input.py": INPUT,
    "tests/spark/test_power_failure.py": INPUT,
    "tests/spark/test_spark_logs.py": INPUT,
    "tests/spark/test_streams_in_object_stores.py": INPUT,
    "tests/spark/test_windows_sources.py": INPUT,
    "tests/spark/test_cluster.py": PROGRAMS,
    "tests/spark/test_command_line.py": PROGRAMS,
    "tests/spark/test_dependencies.py": PROGRAMS,
    "tests/spark/test_driver_kills.py": PROGRAMS,
    "tests/spark/test_high_availability.py": PROGRAMS,
    "tests/spark/test_kubernetes.py": PROGRAMS,
    "tests/spark/test_main_script.py": PROGRAMS,
    "tests/spark/test_standalone_cluster.py": PROGRAMS,
    "tests/spark/test_streaming_locations.py": PROGRAMS,
    "tests/spark/test_task_attempts.py": PROGRAMS,
    "tests/spark/test_worker_kills.py": PROGRAMS,
}
# Inherited by every process started from here, also by one whose parent was killed, so that it is no child of ours now.
RUN_MARK = "TIDEMILL_TEST_RUN"
# An orphaned JVM notices within about a second that its driver is gone; threads that were told to stop need less. On a
# loaded machine it may take as long as anything else.
GRACE_SECONDS = 60.0


def group_of(nodeid: str) -> str:
    """The tests that a test must not run beside; those of its module, so that a module is prepared for only once."""
    module = nodeid.partition("::")[0]
    of_folder = (group for folder, group in FOLDERS.items() if module.startswith(folder))
    return EXCEPTIONS.get(module) or next(of_folder, module)


def rank_of(nodeid: str) -> int:
    """The place of a test in a run side by side: those that share much come first, those of short modules last."""
    groups = [SESSION, INPUT, PROGRAMS, SERVERS, PAGES, BROWSER]
    order = [*groups, "tests/simulation/", "tests/contract/", "tests/semantics/"]
    group = group_of(nodeid)
    return next((rank for rank, start in enumerate(order) if group.startswith(start)), len(order))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Deals out tests by group, in the order of their groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


# An example, or what it takes to come by one, may take as long as it takes: a loaded machine is no failure. The same
# code gets the same examples, and so the same verdict; thorough runs draw new ones.
hypothesis_settings.register_profile(
    "patient",
    max_examples=examples(100),
    deadline=None,
    derandomize=not THOROUGH,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("patient")


def pytest_configure() -> None:
    use_memory()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where tests run side by side, the long groups come first, and the fast modules fill up what is left."""
    for item in items:
        if changes(item.name):
            raise pytest.UsageError(f"{item.nodeid} has a set or an address in its name: name it by tests.ids.id_of")
        if "spark" in getattr(item, "fixturenames", ()) and group_of(item.nodeid) not in (SESSION, INPUT):
            raise pytest.UsageError(f"{item.nodeid} uses the shared Spark session: put its module into SESSION")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank_of(item.nodeid))


def live_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.daemon}


def live_processes(mark: str) -> set[psutil.Process]:
    """Every process that descends from this one, except shared ones, and a shared Spark session's JVM with its own."""
    mine = psutil.Process()
    marked = {process for process in psutil.process_iter() if has_mark(process, mark)}
    found = marked.union(mine.children(recursive=True)) - {mine} - processes_of_spark()
    shared = shared_pids()
    return {each for each in found if each.pid not in shared and each.is_running() and not is_zombie(each)}


def has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(RUN_MARK) == mark
    except (psutil.Error, OSError):
        return False  # gone in the meantime, or of another user


def is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_of_spark() -> set[psutil.Process]:
    """The JVM that pyspark started from this process, with its Python workers: it outlives the sessions in it."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    if gateway is None:
        return set()
    try:
        jvm = psutil.Process(gateway.proc.pid)
        return {jvm, *jvm.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def describe(process: psutil.Process) -> str:
    try:
        return f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return f"process {process.pid}"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in what a script runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def cheap_programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that tests start spend their time on what is tested, not on compiling.

    A test run starts dozens of them. Python ones share compiled modules also where the environment says not to write
    any: each would compile all of Spark's Python code for a second or two.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LAUNCHER_OPTS", QUICK_JAVA)
        for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
            patch.setenv(variable, QUICK_SPARK)
        if os.environ.get("PYTHONDONTWRITEBYTECODE"):
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("compiled")))
        if any(group_of(item.nodeid) in (SESSION, INPUT, PROGRAMS) for item in request.session.items):
            keep_classes(tmp_path_factory.mktemp("classes"))
        yield


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka broker for all tests of this process: they use topics of their own, and leave it running."""
    with shared_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def run_mark() -> Iterator[str]:
    mark = uuid.uuid4().hex
    os.environ[RUN_MARK] = mark
    yield mark
    del os.environ[RUN_MARK]


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind(run_mark: str) -> Iterator[None]:
    threads, processes = live_threads(), live_processes(run_mark)
    yield

    def left() -> list[str]:
        return [
            *(f"thread {thread.name}" for thread in live_threads() - threads),
            *(describe(process) for process in live_processes(run_mark) - processes),
        ]

    eventually(lambda: not left(), GRACE_SECONDS, what="the end of what the tests of this module started", shown=left)
