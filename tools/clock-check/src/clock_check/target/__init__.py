"""What runs on the measured host: standard library only, Python 3.9 and later."""
