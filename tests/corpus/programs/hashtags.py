# -*- coding: utf-8 -*-
import json

from pyflink.common.typeinfo import Types
from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment


class Hashtags(FlatMapFunction):
    def flat_map(self, value):
        tweet = json.loads(value)
        for tag in tweet.get("entities", {}).get("hashtags", []):
            yield tag["text"].lower(), tweet["lang"], 1


tweets = [
    {"lang": "en", "entities": {"hashtags": [{"text": "Flink"}, {"text": "python"}]}},
    {"lang": "de", "entities": {"hashtags": [{"text": "flink"}, {"text": "Größe"}]}},
    {"lang": "en", "entities": {}},
    {"lang": "en", "entities": {"hashtags": [{"text": "FLINK"}]}},
]
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
tags = env.from_collection([json.dumps(t) for t in tweets], type_info=Types.STRING()).flat_map(
    Hashtags(), output_type=Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))
tags.key_by(lambda t: (t[0], t[1]), key_type=Types.TUPLE([Types.STRING(), Types.STRING()])) \
    .reduce(lambda a, b: (a[0], a[1], a[2] + b[2])) \
    .print()
env.execute("hashtags")
