"""Predict how long a switch takes on a machine of another size.

docs/guides/kernel-developers/predict.md explains the model.
"""
