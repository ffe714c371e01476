"""Predicting how long a switch takes on a machine of another size: docs/predict.md explains the model."""
