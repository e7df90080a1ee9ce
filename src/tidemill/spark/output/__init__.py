"""Output of jobs through Spark: writers, streams as DataFrames, state as DataFrames. One module for each."""
