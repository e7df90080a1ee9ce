import re

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, ProcessFunction, OutputTag

LINE = re.compile(r'(\S+) \S+ \S+ \[(.*?)\] "(\S+) (\S+) \S+" (\d{3}) (\d+)')
LOG = '''10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET /index.html HTTP/1.1" 200 2326
10.0.0.2 - - [10/Oct/2023:13:55:37 +0000] "GET /missing HTTP/1.1" 404 12
broken line
10.0.0.1 - - [10/Oct/2023:13:55:38 +0000] "POST /login HTTP/1.1" 500 0
10.0.0.3 - - [10/Oct/2023:13:55:39 +0000] "GET /index.html HTTP/1.1" 200 2326'''

malformed = OutputTag("malformed", Types.STRING())


class Parse(ProcessFunction):
    def process_element(self, value, ctx):
        match = LINE.match(value)
        if match is None:
            yield malformed, value
            return
        ip, _, method, path, status, size = match.groups()
        yield ip, method, path, int(status), int(size)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
entry = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.INT(), Types.LONG()])
entries = env.from_collection(LOG.split("\n"), Types.STRING()).process(Parse(), entry)
entries.map(lambda e: (e[3] // 100 * 100, 1, e[4]), Types.TUPLE([Types.INT(), Types.INT(), Types.LONG()])) \
    .key_by(lambda e: e[0], Types.INT()) \
    .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])) \
    .print()
entries.get_side_output(malformed).map(lambda line: "malformed: " + line, Types.STRING()).print()
env.execute("access log")
