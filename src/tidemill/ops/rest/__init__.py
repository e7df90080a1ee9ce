"""The REST server of a driver: its jobs can be watched and steered over HTTP, with Flink's paths. See docs/rest.md."""
