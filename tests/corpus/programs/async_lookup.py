import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment

CUSTOMERS = {1: "Ann", 2: "Bob", 3: "Eve"}


class CustomerLookup(AsyncFunction):

    async def async_invoke(self, value):
        await asyncio.sleep(0.01 * (4 - value[0]))
        return [(value[0], CUSTOMERS.get(value[0], "unknown"), value[1])]

    def timeout(self, value):
        return [(value[0], "timed out", value[1])]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
orders = env.from_collection([(1, 10.0), (3, 30.0), (2, 20.0), (4, 40.0)],
                             type_info=Types.TUPLE([Types.INT(), Types.DOUBLE()]))
enriched = AsyncDataStream.unordered_wait(
    data_stream=orders,
    async_function=CustomerLookup(),
    timeout=Time.seconds(5),
    capacity=10,
    output_type=Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()]))
enriched.print()
env.execute("async lookup")
