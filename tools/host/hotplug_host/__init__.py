"""What runs on a measured host: standard library, Python 3.9 or later, nothing else of this project."""

__version__ = "0.1.0"
