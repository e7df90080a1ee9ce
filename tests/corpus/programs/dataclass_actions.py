import datetime
from dataclasses import dataclass, field
from enum import Enum
from typing import Iterable, List, Optional

from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import Duration, TimestampAssigner, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream import window
from pyflink.datastream.functions import AggregateFunction, MapFunction, ProcessWindowFunction, RuntimeContext
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from pyflink.datastream.window import Time


class ActionType(Enum):
    LOGIN: str = "login"
    BUY: str = "buy"


@dataclass
class Action:
    user: str
    at: datetime.datetime
    kind: ActionType
    items: List[str] = field(default_factory=list)


class Numbered(MapFunction):
    count: Optional[ValueState]

    def __init__(self):
        self.count = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor(name="count", value_type_info=Types.INT())
        self.count = runtime_context.get_state(state_descriptor=descriptor)

    def map(self, value: Action):
        number = (self.count.value() or 0) + 1
        self.count.update(value=number)
        return f"{value.user} {value.kind.name} {number} {value.items}"


class Items(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Action, accumulator: int) -> int:
        return accumulator + len(value.items)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithWindow(ProcessWindowFunction):
    def process(self, key: str, context: "ProcessWindowFunction.Context", elements: Iterable[int]) -> Iterable[str]:
        start = datetime.datetime.fromtimestamp(context.window().start / 1000, datetime.timezone.utc)
        yield f"{key} {start:%H:%M:%S} {next(iter(elements))}"


class ByTime(TimestampAssigner):
    def extract_timestamp(self, value: Action, record_timestamp):
        return int(value.at.timestamp() * 1000)


def numbered(actions: DataStream, kind: Optional[ActionType] = None) -> DataStream:
    def wanted(action: Action) -> bool:
        return action.kind.value == kind.value

    chosen: DataStream = actions if kind is None else actions.filter(wanted)
    return chosen.key_by(lambda action: action.user).map(Numbered())


def items_bought(actions: DataStream, size: int, slide: int) -> DataStream:
    strategy: WatermarkStrategy = WatermarkStrategy \
        .for_bounded_out_of_orderness(max_out_of_orderness=Duration.of_seconds(1)) \
        .with_timestamp_assigner(ByTime())
    assigner = window.SlidingEventTimeWindows.of(size=Time.seconds(size), slide=Time.seconds(slide))
    return actions.assign_timestamps_and_watermarks(strategy) \
        .key_by(lambda action: action.user) \
        .window(assigner) \
        .aggregate(aggregate_function=Items(), window_function=WithWindow())


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc)
    actions = env.from_collection(collection=[
        Action("ann", noon, ActionType.LOGIN),
        Action("bob", noon + datetime.timedelta(seconds=3), ActionType.BUY, ["pen"]),
        Action("ann", noon + datetime.timedelta(seconds=7), ActionType.BUY, ["ink", "pad"]),
    ])
    numbered(actions).print()
    numbered(actions, ActionType.BUY).print()
    items_bought(actions, 10, 5).print()
    env.execute(job_name="actions")
