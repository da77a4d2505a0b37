"""How many files and sockets this process may open, and raising that limit."""

from __future__ import annotations

import resource
from typing import Final

__all__ = ["allow_descriptors"]

_ENDLESS: Final = 2**31


def allow_descriptors(wanted: int) -> int:
    """Raise the soft limit to `wanted` if it is lower, as far as the hard limit allows; returns the
    soft limit in force.

    Not higher: commands inherit the limit, and some programs loop over every descriptor number
    up to it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENDLESS
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if raised > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return max(soft, raised)
