from enum import Enum

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor


class Step(Enum):
    VIEW = 0
    CART = 1
    PAY = 2


class Funnel(KeyedProcessFunction):
    def open(self, runtime_context):
        self.step = runtime_context.get_state(ValueStateDescriptor("step", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, event, ctx):
        user, step = event
        reached = self.step.value()
        expected = Step.VIEW if reached is None else Step(reached.value + 1) if reached is not Step.PAY else None
        if step is expected:
            self.step.update(step)
            if step is Step.PAY:
                yield "%s bought" % user
                self.step.clear()
        elif step is Step.VIEW:
            self.step.update(Step.VIEW)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
events = [("ann", Step.VIEW), ("bob", Step.VIEW), ("ann", Step.CART), ("bob", Step.PAY), ("ann", Step.PAY),
          ("bob", Step.CART), ("bob", Step.PAY), ("ann", Step.PAY)]
env.from_collection(events).key_by(lambda e: e[0]).process(Funnel(), Types.STRING()).print()
env.execute("funnel")
