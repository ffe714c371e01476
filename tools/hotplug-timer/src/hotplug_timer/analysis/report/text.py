"""Numbers as the report writes them where there is little room."""

import math


def short_seconds(seconds: float) -> str:
    """Return seconds with three digits that count, without a unit; "0" for nothing."""
    return f"{seconds:.{max(2 - math.floor(math.log10(seconds)), 0)}f}" if seconds > 0 else "0"
