import logging
import sys

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

logging.basicConfig(stream=sys.stdout, level=logging.ERROR, format="%(message)s")


class Pipeline(object):

    def __init__(self, name, data):
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(1)
        self.name = name
        self.data = data

    def build(self):
        raise NotImplementedError

    def run(self):
        self.build()
        result = self.env.execute(self.name)
        print(self.name, "done:", result.get_job_id() is not None)


class Doubling(Pipeline):
    def build(self):
        self.env.from_collection(self.data, Types.INT()).map(lambda x: x * 2, Types.INT()).print()


class Lengths(Pipeline):
    def build(self):
        self.env.from_collection(self.data, Types.STRING()).map(len, Types.INT()).print()


if __name__ == '__main__':
    for pipeline in (Doubling("doubling", [1, 2]), Lengths("lengths", ["a", "bcd"])):
        pipeline.run()
