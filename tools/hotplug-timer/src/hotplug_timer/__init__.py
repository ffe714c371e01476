"""Times, traces, compares and reports SMT switches."""

__version__ = "0.1.0"
