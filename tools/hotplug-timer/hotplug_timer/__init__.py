"""Times, traces, compares and reports SMT switches."""
