"""The REST server of a driver: monitor and control its jobs over HTTP, with Flink's paths. See docs/rest.md."""
