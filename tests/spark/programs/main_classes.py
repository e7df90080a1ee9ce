"""Records, keys and state values of classes that are defined in the main script, which no worker can import.

Arguments: the checkpoint directory, and the engine if it is not Spark. The first run fails half-way, the second
resumes from what it committed.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    AZURE = BLUE


@dataclass(frozen=True)
class Account:
    number: int
    colour: Colour


@dataclass
class Payment:
    account: Account
    amount: int
    tags: list[str] = field(default_factory=list)


class Entry(NamedTuple):
    account: Account
    total: int


@dataclass
class Balance:
    total: int = 0
    last: Payment | None = None


class Settle(KeyedProcessFunction):
    def __init__(self, fail: bool) -> None:
        self.fail = fail

    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance"))
        self.history = runtime_context.get_list_state(ListStateDescriptor("history"))

    def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        assert isinstance(value, Payment)
        assert ctx.get_current_key() == value.account
        if self.fail and value.amount == 60:
            raise RuntimeError("half-way")
        balance = self.balance.value() or Balance()
        assert isinstance(balance, Balance)
        balance.total += value.amount
        balance.last = value
        self.balance.update(balance)
        self.history.add(Entry(value.account, balance.total))
        yield Entry(value.account, balance.total)


def main(checkpoints: str, target: str = "spark") -> None:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": checkpoints,
        "execution.job-id": "main",
        "execution.epoch.max-records": "20",
        "parallelism.default": "2",
        "execution.target": target,
        **({"spark.master": "local[2,4]"} if target == "spark" else {}),
        "restart-strategy.type": "none",
    }.items():
        configuration.set_string(key, value)
    marker = Path(checkpoints) / "failed-once"
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    payments = [Payment(Account(n % 5, Colour(n % 2 + 1)), n, [str(n)]) for n in range(100)]
    entries = (
        env.from_collection(payments)
        .key_by(lambda payment: payment.account)
        .process(Settle(fail=not marker.exists()))
        .uid("settle")
        .key_by(lambda entry: entry.account.colour)
        .map(lambda entry: entry if Colour["AZURE"] is Colour.BLUE else None)
    )
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    with entries.execute_and_collect() as results:
        last: dict[Account, int] = {}
        for entry in results:
            assert isinstance(entry, Entry)
            last[entry.account] = max(entry.total, last.get(entry.account, 0))
    expected: dict[Account, int] = {}
    for payment in payments:
        expected[payment.account] = expected.get(payment.account, 0) + payment.amount
    assert last == expected, (last, expected)
    print("EQUAL")


if __name__ == "__main__":
    main(*sys.argv[1:])
