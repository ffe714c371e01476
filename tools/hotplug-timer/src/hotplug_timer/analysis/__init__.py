"""The controller's part: reading results, comparing variants, reporting."""
