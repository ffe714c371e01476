"""Comparing kernel variants."""
