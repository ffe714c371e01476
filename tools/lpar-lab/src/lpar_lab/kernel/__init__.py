"""Kernels: source, series, configuration, build and the artefact that comes out."""
