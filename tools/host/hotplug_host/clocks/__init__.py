"""Measuring and auditing the clocks of a measured host."""
