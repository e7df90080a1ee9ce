import csv
import glob
import io
import json
import os
import tempfile

from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat

folder = tempfile.mkdtemp()
source_file, target = os.path.join(folder, "people.json"), os.path.join(folder, "csv")
with open(source_file, "w") as file:
    for person in ({"name": "Ann", "age": 31}, {"name": "Bob, jr.", "age": 7}, {"name": "Eve", "age": 55}):
        file.write(json.dumps(person) + "\n")


def to_csv(text):
    record = json.loads(text)
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([record["name"], record["age"]])
    return out.getvalue()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
env.from_source(
    FileSource.for_record_stream_format(StreamFormat.text_line_format(), source_file).process_static_file_set().build(),
    WatermarkStrategy.no_watermarks(), "people") \
    .filter(lambda line: json.loads(line)["age"] >= 18) \
    .map(to_csv, output_type=Types.STRING()) \
    .sink_to(FileSink.for_row_format(target, Encoder.simple_string_encoder()).build())
env.execute("json to csv")

for path in sorted(glob.glob(target + "/**/*", recursive=True)):
    if os.path.isfile(path):
        with open(path) as file:
            print(file.read(), end="")
