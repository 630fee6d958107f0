"""What locks an interpreter in before it runs a program it does not trust.

This package runs inside a fresh interpreter, by itself: it imports the standard library only and nothing of hocket.
`hocket.agents.tools.sandbox` starts it. Linux on x86-64 and arm64.
"""

READY = b"\x06"
"""The first byte of the output of a process that is locked in."""
OVER_CPU = 152
"""Exit code of a program that used up its processor time."""
BROKEN = 97
"""Exit code of a process that could not be locked in."""
