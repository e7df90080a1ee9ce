"""Reads Kafka with Spark: jars, frames, offsets, and requests to the broker.

Start with ``kafka_reader.py``. ``tidemill.connectors.kafka`` tracks the offsets while a query runs, and reports them to
the consumer group. The offsets that a job resumes from are not stored here: they are committed with each epoch in
``tidemill.spark.streams`` and restored in ``tidemill.spark.locations``. The public API of the connector is
``tidemill.connectors.kafka``, which also contains the sink.
"""
