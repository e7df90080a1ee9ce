from pyflink.common import Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.elasticsearch import (Elasticsearch7SinkBuilder, ElasticsearchEmitter,
                                                         FlushBackoffType)
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("tweets") \
    .set_starting_offsets(KafkaOffsetsInitializer.latest()) \
    .set_value_only_deserializer(SimpleStringSchema()).build()
tweets = env.from_source(source, WatermarkStrategy.no_watermarks(), "tweets")
documents = tweets.map(lambda t: {"id": str(hash(t)), "text": t}, Types.MAP(Types.STRING(), Types.STRING()))
documents.sink_to(
    Elasticsearch7SinkBuilder()
    .set_emitter(ElasticsearchEmitter.static_index("tweets", "id"))
    .set_hosts(["localhost:9200"])
    .set_bulk_flush_max_actions(100)
    .set_bulk_flush_interval(1000)
    .set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 5, 1000)
    .build())
env.execute("index tweets")
