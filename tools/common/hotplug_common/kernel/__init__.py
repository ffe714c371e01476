"""Kernel lines, sources, series, configurations and builds."""
