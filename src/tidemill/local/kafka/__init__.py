"""Kafka topics that the local engine reads itself, with librdkafka.

Start with ``streams.py``. ``stored_topics.py`` reads bounded sources. Positions in manifests have the form of Spark's
offset log (``entries.py``), so that a job can move between the engines. Requests to brokers and the reading of
partitions are in ``tidemill.connectors.kafka``.
"""
