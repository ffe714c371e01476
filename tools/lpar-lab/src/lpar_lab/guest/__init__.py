"""Guests: QEMU, its console, its identity, and its life from up to down."""
