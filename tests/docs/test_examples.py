"""Every program in examples/ prints what is written here, without Spark; on Spark see tests/spark/test_examples.

The demo runs too, a short one: it judges itself, kills a worker on the way, and leaves nothing behind.
"""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from examples import fraud_detection
from examples.support import page
from examples.support.demo import Recovery, judge
from examples.support.findings import Findings, true_findings, written_findings
from examples.support.page import keep_page, open_page
from examples.support.payments import PaymentSource
from tests.docs.child_process import run_python
from tests.thorough import WHEN_THOROUGH
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.notices import AUDIT
from tidemill.ops.rest.server import close_servers

ROOT = Path(__file__).parents[2]
SECONDS = 300

#: What each example prints. Which subtask a key goes to, the number before `>`, is the same on every machine.
EXPECTED = {
    "word_count": """
  4 to
  3 the
  2 be
  2 of
  2 or
  1 a
  1 against
  1 and
  1 arms
  1 arrows
  1 fortune
  1 in
  1 is
  1 mind
  1 nobler
  1 not
  1 outrageous
  1 question
  1 sea
  1 slings
  1 suffer
  1 take
  1 that
  1 tis
  1 troubles
  1 whether
""",
    "keyed_state": """
2> roof 3: change=0 history=[3] counts={3: 1} highest=3 mean=3.0
2> cellar 12: change=0 history=[12] counts={12: 1} highest=12 mean=12.0
2> roof 5: change=2 history=[3, 5] counts={3: 1, 5: 1} highest=5 mean=4.0
2> roof 3: change=-2 history=[3, 5, 3] counts={3: 2, 5: 1} highest=5 mean=3.6666666666666665
2> cellar 14: change=2 history=[12, 14] counts={12: 1, 14: 1} highest=14 mean=13.0
2> roof 9: change=6 history=[3, 5, 3, 9] counts={3: 2, 5: 1, 9: 1} highest=9 mean=5.0
""",
    "state_machine": """
A: shipped
B: late, still created
C: late, still paid
wrong step, B: shipped after created
""",
    "side_outputs": """
stock> (cups,12)
stock> (spoons,30)
stock> (forks,25)
low> (cups,12)
rejected> 'plates eight'
rejected> ''
rejected> 'knives -4'
""",
    "connected_streams": """
10 rice for 20
2 tea for 8
3 tea for 12
""",
    "async_io": """
order 1 of ann goes to Lisbon
order 2 of bob goes to Oslo
order 3 of cho goes to Seoul
order 4 of ann goes to Lisbon
order 5 of eve goes to unknown
order 6 of bob goes to Oslo
""",
    "from_dataframe": """
bike: 3.5 km, 3.5 km in all
bike: 1.5 km, 5.0 km in all
bike: 4.0 km, 9.0 km in all
car: 12.0 km, 12.0 km in all
car: 30.0 km, 42.0 km in all
""",
    "streaming_dataframe": """
ann has 3 points
ann has 7 points
ann has 9 points
bob has 5 points
bob has 6 points
""",
    "state/value_state": """
rice for 4: the lowest price so far
rice for 5: it was 4 before
tea for 21: the lowest price so far
tea for 18: the lowest price so far
tea for 19: it was 18 before
tea for 12: the lowest price so far
""",
    "state/list_state": """
north: bread, milk, eggs
""",
    "state/map_state": """
ann buys after 2 x /, 1 x /tea
bob buys after 1 x /
""",
    "state/reducing_state": """
ann is overdrawn: -20
bob is overdrawn: -15
""",
    "state/aggregating_state": """
cellar: 14 is more than 12.0
roof: 5 is more than 3.0
roof: 12 is more than 4.0
""",
    "state/timers": """
ann: 2 clicks, the last at 49000
ann: 2 clicks, the last at 6000
bob: 1 clicks, the last at 2000
bob: 1 clicks, the last at 30000
""",
    "state/operator_list_state": """
4: 2 3 4 5
5: 3 4 5 6 7
6: 4 5 3 9 9 2
""",
    "state/union_list_state": """
2 subtasks: subtask 0 has read partition 0 up to 3
2 subtasks: subtask 1 has read partition 1 up to 3
2 subtasks: subtask 0 has read partition 2 up to 3
2 subtasks: subtask 1 has read partition 3 up to 3
2 subtasks: subtask 0 has read partition 4 up to 3
3 subtasks: subtask 0 has read partition 0 up to 7
3 subtasks: subtask 1 has read partition 1 up to 7
3 subtasks: subtask 2 has read partition 2 up to 7
3 subtasks: subtask 0 has read partition 3 up to 7
3 subtasks: subtask 1 has read partition 4 up to 7
""",
    "queryable_state": """
roof was at 23.5 degrees last
cellar was at 12.0 degrees last
roof: 3 alerts
nothing is known of the attic
""",
    "state/broadcast_state": """
10 USD: 9.20 EUR
100 CHF: 105.00 EUR
2000 JPY: 12.40 EUR
30 NOK: no rate
70 USD: 64.40 EUR
""",
    "state/keyed_broadcast_state": """
bob has passed gold
ann has passed silver
bob has passed silver
""",
    "state/time_to_live": """
pump at 0 s
door at 30 s
pump at 66 s
door at 96 s
""",
    "state/rocksdb_backend": """
200 of 200 have read all pages
""",
    "state/read_state": """
count [('count', 'value', {'key': 'String', 'value': 'Long'})]
the: 3
{'key': 'the', 'value': 3}
{'key': 'and', 'value': 2}
{'key': 'in', 'value': 2}
""",
    "state/live_rescale": """
count runs in 4 subtasks
count runs in 3 subtasks
each number was counted once, for 7 keys: True
""",
    "sensors/average_per_window": """
cellar: 12.00 degrees on average, of 1
cellar: 12.00 degrees on average, of 2
cellar: 13.00 degrees on average, of 1
roof: 20.00 degrees on average, of 3
roof: 23.50 degrees on average, of 2
roof: 25.00 degrees on average, of 2
""",
    "sensors/min_max_per_window": """
until 5 s: cellar from 12.0 to 12.0
until 5 s: roof from 19.0 to 21.0
until 10 s: cellar from 11.5 to 12.5
until 10 s: roof from 24.0 to 26.0
until 25 s: cellar from 13.0 to 13.0
until 25 s: roof from 22.0 to 25.0
""",
    "sensors/sessions": """
cellar: 3 readings from 1.5 s to 7.5 s
cellar: 1 readings from 24 s to 24 s
roof: 5 readings from 1 s to 9 s
roof: 2 readings from 21 s to 23 s
""",
    "sensors/late_readings": """
too late: 30.0 degrees of second 3
warmest: 22.0 degrees of second 4
warmest: 23.0 degrees of second 9
warmest: 25.0 degrees of second 2
""",
    "sensors/interval_join": """
roof: alarm 1000 ms after 25.0 degrees
roof: alarm 1000 ms after 26.0 degrees
roof: alarm 2000 ms after 24.0 degrees
""",
    "sensors/switches": """
cellar at 7.5 s: 11.5
roof at 3 s: 19.0
roof at 4 s: 21.0
roof at 23 s: 22.0
""",
}
NEEDS_SPARK = ["from_dataframe", "streaming_dataframe"]
NEEDS_NO_SPARK = [name for name in EXPECTED if name not in NEEDS_SPARK]


def expected(name: str) -> str:
    return EXPECTED[name].removeprefix("\n")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the repository's root, on the sources as they are."""
    settings = {"PYTHONPATH": str(ROOT / "src"), **environment}
    return run_python(*arguments, folder=ROOT, environment=settings, seconds=SECONDS)


def test_no_example_is_forgotten() -> None:
    folders = [ROOT / "examples", ROOT / "examples" / "state", ROOT / "examples" / "sensors"]
    paths = [path for folder in folders for path in folder.glob("*.py")]
    names = {path.relative_to(ROOT / "examples").with_suffix("").as_posix() for path in paths}
    assert names == {*EXPECTED, "fraud_detection", "quick_start"}  # which have tests of their own


@pytest.mark.parametrize("name", NEEDS_NO_SPARK)
def test_without_spark(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--target", "local"])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == expected(name)


def test_the_demo_finds_every_fraud_without_spark_and_its_verdict_notices_failures(tmp_path: Path) -> None:
    configuration = Configuration().set_string("execution.target", "local")
    source = PaymentSource(seconds=3)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    fraud_detection.build(env, source, tmp_path)
    env.execute()

    found, truth = written_findings(tmp_path), true_findings(source.everything())
    assert {alert.rule for alert in truth.alerts} == {"card testing", "impossible travel"}
    assert found == truth

    repeated = Findings(sorted([*truth.alerts, truth.alerts[0]]), truth.statements)
    lost = Findings(truth.alerts, truth.statements[1:])
    console, recovery = Console(file=io.StringIO()), Recovery(killed_pid=1, seconds=0.5)
    assert judge(console, found, truth, recovery) == 0
    assert judge(console, repeated, truth, recovery) == 1
    assert judge(console, lost, truth, recovery) == 1
    assert judge(console, found, truth, None) == 1


def test_the_demo_has_a_page_for_who_has_its_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", AUDIT)  # and to what it was, when the demo has made it quiet
    configuration = Configuration().set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    console = Console(file=io.StringIO(), width=40)
    assert open_page(console, env, tmp_path)
    first_line = console.file.getvalue()  # type: ignore[attr-defined]
    address, token = first_line.removeprefix("The page of the job: ").strip().split("#token=")
    env.from_collection([1]).filter(lambda n: False).print()
    env.execute("demo")
    try:
        with urllib.request.urlopen(address, timeout=60) as shown:  # noqa: S310 - it is http
            assert shown.headers["content-type"].startswith("text/html")
        asked = urllib.request.Request(f"{address}jobs/overview", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            assert [job["name"] for job in json.load(answer)["jobs"]] == ["demo"]
    finally:
        close_servers()


def test_the_page_of_the_demo_stays_for_a_person_only(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(page, "time", SimpleNamespace(sleep=waited.append))
    monkeypatch.delenv("CI", raising=False)
    keep_page(Console(file=io.StringIO()), 60)
    assert waited == []
    keep_page(Console(file=io.StringIO(), force_terminal=True), 60)
    assert waited == [60]
    monkeypatch.setenv("CI", "true")
    keep_page(Console(file=io.StringIO(), force_terminal=True), 60)
    assert waited == [60]


@WHEN_THOROUGH  # otherwise without Spark, and with the page of the quick start's jobs: test_quick_start
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_demo(tmp_path: Path) -> None:
    folders = {"TMPDIR": str(tmp_path), "SPARK_LOCAL_DIRS": str(tmp_path)}
    result = run("-m", "examples.fraud_detection", "--seconds", "8", **folders)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("The page of the job: http://127.0.0.1:")
    assert "kill -9" in result.stdout
    assert "recovered in" in result.stdout
    assert result.stdout.endswith("Nothing lost, nothing repeated.\n")
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []
