"""What the patched kernel's switches take on a machine, from what their parts cost on its stock kernel.

docs/guides/operators/predict.md explains the formulas.
"""
