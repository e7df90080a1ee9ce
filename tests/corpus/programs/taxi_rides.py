from typing import NamedTuple

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import MapStateDescriptor


class Ride(NamedTuple):
    ride_id: int
    is_start: bool
    minute: int
    driver: str


class Duration(KeyedProcessFunction):
    """Pairs the start and the end of rides; they may come in any order."""

    def open(self, runtime_context):
        self.open_rides = runtime_context.get_map_state(
            MapStateDescriptor("open", Types.INT(), Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, ride, ctx):
        if self.open_rides.contains(ride.ride_id):
            other = self.open_rides.get(ride.ride_id)
            self.open_rides.remove(ride.ride_id)
            yield "%s: ride %d took %d minutes, %d open" % (
                ctx.get_current_key(), ride.ride_id, abs(ride.minute - other.minute),
                len(list(self.open_rides.keys())))
        else:
            self.open_rides.put(ride.ride_id, ride)


def run():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rides = [Ride(1, True, 0, "ann"), Ride(2, True, 3, "bob"), Ride(3, True, 5, "ann"), Ride(1, False, 12, "ann"),
             Ride(4, False, 20, "bob"), Ride(2, False, 30, "bob"), Ride(4, True, 9, "bob"), Ride(3, False, 31, "ann")]
    env.from_collection(rides).key_by(lambda r: r.driver).process(Duration(), Types.STRING()).print()
    env.execute("rides")


if __name__ == "__main__":
    run()
