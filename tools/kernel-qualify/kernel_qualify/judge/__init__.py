"""Verdicts on what guests and compilers reported: pure functions that return a list of problems."""
