"""The command line ``tidemill``: Flink's verbs, on the durable files of a job and on the drivers of this machine."""
