import os
import tempfile

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat


def main():
    folder = tempfile.mkdtemp()
    for number, text in enumerate(["one two\nthree", "two three\nthree\n"]):
        with open(os.path.join(folder, "part-%d.txt" % number), "w") as f:
            f.write(text)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    text = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    counts = text.flat_map(lambda x: [(w, 1) for w in x.split()], Types.TUPLE([Types.STRING(), Types.LONG()])) \
        .key_by(lambda x: x[0]) \
        .sum(1)
    counts.print()
    env.execute("count words of files")


if __name__ == "__main__":
    main()
