import math

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class ZScore(KeyedProcessFunction):
    """Welford's mean and variance, kept as one row of state."""

    def __init__(self, threshold):
        self.threshold = threshold

    def open(self, runtime_context):
        self.moments = runtime_context.get_state(ValueStateDescriptor(
            "moments", Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.DOUBLE()])))

    def process_element(self, value, ctx):
        n, mean, m2 = self.moments.value() or (0, 0.0, 0.0)
        if n >= 4:
            deviation = math.sqrt(m2 / (n - 1))
            z = (value[1] - mean) / deviation if deviation else 0.0
            if abs(z) > self.threshold:
                yield "%s: %.1f is off by %.2f" % (value[0], value[1], z)
                return
        n += 1
        delta = value[1] - mean
        mean += delta / n
        m2 += delta * (value[1] - mean)
        self.moments.update((n, mean, m2))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = [("cpu", v) for v in (10.0, 11.0, 9.0, 10.0, 10.5, 55.0, 9.5, 1.0)] + [("disk", v) for v in (5.0, 5.0, 5.0, 5.0, 6.0)]
env.from_collection(values, Types.TUPLE([Types.STRING(), Types.DOUBLE()])) \
    .key_by(lambda v: v[0], Types.STRING()) \
    .process(ZScore(3.0), Types.STRING()) \
    .print()
env.execute("anomalies")
