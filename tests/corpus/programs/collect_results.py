from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def primes(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(list(range(30)), type_info=Types.INT()).filter(primes)
with ds.execute_and_collect("primes") as results:
    found = [r for r in results]
print("primes:", found)
print("two of them:", ds.execute_and_collect(limit=2))
