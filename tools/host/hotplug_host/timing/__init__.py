"""Timing SMT and CPU switches on a measured host."""
