"""How far many runs have come: a bar on the terminal, as the command line has, or whatever the caller wants."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: ``None``: a bar, if stderr is a terminal; True or False: one or none in any case; or what is called with (done, total).
Progress = Callable[[int, int], object] | bool | None

WIDTH = 30


class _Bar:
    """One line of stderr: runs done, and about how long the others will take."""

    def __init__(self) -> None:
        self._begun = self._drawn = time.monotonic()
        self._line = ""

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total == 0 or (done < total and now - self._drawn < 0.1):
            return
        self._drawn = now
        done = min(done, total)  # a search tests its proposals after the last trial
        left = (now - self._begun) / done * (total - done) if done else None
        bar = "█" * (WIDTH * done // total)
        self._show(f"simulating {bar:░<{WIDTH}} {done}/{total} {_length(left)}")

    def _show(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(len(self._line)))
        sys.stderr.flush()
        self._line = line

    def close(self) -> None:
        if self._line:
            sys.stderr.write("\r" + " " * len(self._line) + "\r")
            sys.stderr.flush()


def _length(seconds: float | None) -> str:
    """``42s``, ``3m``, ``2h``: as the command line writes the time that is left."""
    if seconds is None:
        return "-"
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


@contextmanager
def watched(progress: Progress) -> Iterator[Callable[[int, int], object] | None]:
    """What is to be told of progress."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()
