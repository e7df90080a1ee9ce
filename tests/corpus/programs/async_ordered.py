import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Square(AsyncFunction):
    async def async_invoke(self, value: int):
        await asyncio.sleep((value % 3) / 100)
        return [value, value ** 2]


if __name__ == '__main__':
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4, 5], type_info=Types.INT())
    result = AsyncDataStream.ordered_wait(numbers, Square(), Time.seconds(10), 2, Types.INT())
    print(list(result.execute_and_collect()))
