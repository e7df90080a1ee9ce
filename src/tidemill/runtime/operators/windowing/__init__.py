"""Windows at work: the operators that put records into windows, and evaluate these when their trigger says so."""
