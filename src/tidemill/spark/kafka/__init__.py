"""Kafka as Spark reads it: jars, frames, offsets, and requests to the broker.

Start in ``kafka_reader.py``; ``kafka_tracker.py`` follows the offsets while a query runs. The connector as programs see
it is ``tidemill.connectors.kafka``.
"""
