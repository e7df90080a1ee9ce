"""The command line ``tidemill``: Flink's commands, for the durable files of jobs and the drivers on this machine."""
