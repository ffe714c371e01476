"""Telling a web hook what a run came to."""

from __future__ import annotations

import urllib.request

from hotplug_host.errors import ExitCode, ToolError

SECONDS = 10.0
SCHEMES = ("https://", "http://")


def check(url: str) -> None:
    """Refuse what is no web address (ToolError, USAGE)."""
    if url and not url.startswith(SCHEMES):
        raise ToolError(
            f"'{url}' is no address of a web hook", "give one that begins with https://", ExitCode.USAGE
        )


def post(url: str, text: str) -> str | None:
    """Send a JSON text; returns what went wrong, None if nothing did.

    No error: a run has ended as it has, whatever becomes of its notice.
    """
    request = urllib.request.Request(  # noqa: S310 - its scheme was checked
        url, text.encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
            return None
    except (OSError, ValueError) as error:
        return f"{url} did not take the summary: {getattr(error, 'reason', error)}"
