"""Checks clocks: what a call costs, whether they drift, and whether they ever go backwards."""
