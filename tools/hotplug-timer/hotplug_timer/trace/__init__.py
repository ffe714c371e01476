"""What traces of transitions say: calls and callers, time per state, off-CPU time, a function graph."""
