"""Qualifies kernels: proves in guests and by compiling that the series is right, and how fast it is."""
