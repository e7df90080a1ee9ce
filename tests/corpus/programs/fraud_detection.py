import logging
from dataclasses import dataclass

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s - %(message)s")
logger = logging.getLogger(__name__)

SMALL_AMOUNT = 1.00
LARGE_AMOUNT = 500.00
ONE_MINUTE = 60 * 1000


@dataclass
class Transaction:
    account: int
    timestamp: int
    amount: float


class TransactionTime(TimestampAssigner):
    def extract_timestamp(self, transaction, record_timestamp):
        return transaction.timestamp


class FraudDetector(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.flag_state = runtime_context.get_state(ValueStateDescriptor("flag", Types.BOOLEAN()))
        self.timer_state = runtime_context.get_state(ValueStateDescriptor("timer-state", Types.LONG()))

    def process_element(self, transaction: Transaction, ctx: KeyedProcessFunction.Context):
        if self.flag_state.value() is not None:
            if transaction.amount > LARGE_AMOUNT:
                yield f"ALERT account={transaction.account} amount={transaction.amount}"
            self._clean_up(ctx)
        if transaction.amount < SMALL_AMOUNT:
            self.flag_state.update(True)
            timer = transaction.timestamp + ONE_MINUTE
            ctx.timer_service().register_event_time_timer(timer)
            self.timer_state.update(timer)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext):
        self.timer_state.clear()
        self.flag_state.clear()

    def _clean_up(self, ctx):
        timer = self.timer_state.value()
        if timer is not None:
            ctx.timer_service().delete_event_time_timer(timer)
        self.timer_state.clear()
        self.flag_state.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    history = [Transaction(1, 0, 188.23), Transaction(1, 1000, 0.5), Transaction(2, 2000, 0.2),
               Transaction(1, 3000, 900.0), Transaction(2, 4000, 12.0), Transaction(2, 5000, 800.0),
               Transaction(3, 6000, 0.9), Transaction(3, 7000, 501.0)]
    env.from_collection(history) \
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TransactionTime())) \
        .key_by(lambda t: t.account, key_type=Types.INT()) \
        .process(FraudDetector(), output_type=Types.STRING()) \
        .name("fraud-detector").uid("fraud-detector") \
        .print()
    logger.info("starting")
    env.execute("Fraud Detection")


if __name__ == "__main__":
    main()
