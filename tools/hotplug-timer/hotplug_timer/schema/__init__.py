"""The result file's JSON Schema, as package data."""
