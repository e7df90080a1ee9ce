"""What the REST server answers, as it is in OpenAPI. Names are Flink's, with all their spellings.

Times are milliseconds since 1970, lengths of time milliseconds, sizes bytes.
"""
