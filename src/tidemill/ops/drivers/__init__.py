"""Driver processes of this machine: their records, the programs they run, how one is started and asked."""
