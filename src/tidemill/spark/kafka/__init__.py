"""Reads Kafka with Spark: jars, frames, offsets, and requests to the broker.

Start in ``kafka_reader.py``; ``kafka_tracker.py`` tracks the offsets while a query runs. The public API of the
connector is ``tidemill.connectors.kafka``.
"""
