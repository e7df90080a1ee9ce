"""Counts words that a server sends: PyFlink has no method of its own to read a socket, so that programs call Java's."""
import socket
import threading

from pyflink.common import Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment


def send(server):
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"to be or\nnot to be\n")
    server.close()


server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=send, args=(server,), daemon=True).start()

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
lines = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", server.getsockname()[1]))
words = lines.flat_map(lambda line: line.split(" ")) \
    .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda pair: pair[0])
words.reduce(lambda a, b: (a[0], a[1] + b[1])).print()
env.execute("words")
