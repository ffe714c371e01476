"""Text from elsewhere (host names, labels, command lines), made fit to be printed."""

from __future__ import annotations

import unicodedata

#: Control and format characters, surrogates, what is unassigned or private, and line or paragraph ends: a
#: terminal obeys some of them, others turn the reading direction or are invisible.
UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def printable(text: str) -> str:
    r"""Return the text with every character that is not to be seen as an escape ("\x1b", "\u202e")."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(one) if unicodedata.category(one) in UNPRINTABLE else one for one in text)


def _escaped(one: str) -> str:
    code = ord(one)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
