from pyflink.common import Time, Types
from pyflink.datastream import StreamExecutionEnvironment, RuntimeContext, MapFunction
from pyflink.datastream.state import ValueStateDescriptor, StateTtlConfig


class CountPerUser(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        ttl_config = StateTtlConfig \
            .new_builder(Time.hours(1)) \
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite) \
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired) \
            .cleanup_full_snapshot() \
            .build()
        descriptor = ValueStateDescriptor("count", Types.INT())
        descriptor.enable_time_to_live(ttl_config)
        self.count = runtime_context.get_state(descriptor)

    def map(self, value):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return "%s:%d" % (value, count)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(["ann", "bob", "ann", "ann"], Types.STRING()) \
    .key_by(lambda user: user) \
    .map(CountPerUser(), output_type=Types.STRING()) \
    .print()
env.execute()
