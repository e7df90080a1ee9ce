from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, BroadcastProcessFunction
from pyflink.datastream.state import MapStateDescriptor

COUNTRIES = MapStateDescriptor("countries", Types.STRING(), Types.STRING())


class Enrich(BroadcastProcessFunction):
    """Not deterministic which side comes first: the program only counts what came."""

    def process_element(self, value, ctx: BroadcastProcessFunction.ReadOnlyContext):
        names = ctx.get_broadcast_state(COUNTRIES)
        yield "order " + value["id"] + (" known" if names.contains("zz") else "")

    def process_broadcast_element(self, value, ctx: BroadcastProcessFunction.Context):
        ctx.get_broadcast_state(COUNTRIES).put(value[0], value[1])
        yield "country " + value[1]


if __name__ == '__main__':
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    orders = env.from_collection([{"id": "o1", "country": "de"}, {"id": "o2", "country": "at"}])
    countries = env.from_collection([("de", "Germany"), ("at", "Austria")],
                                    type_info=Types.TUPLE([Types.STRING(), Types.STRING()]))
    orders.connect(countries.broadcast(COUNTRIES)).process(Enrich(), output_type=Types.STRING()).print()
    env.execute()
