"""How many files and sockets this process may have open, and asking the machine for more."""

from __future__ import annotations

import resource
from typing import Final

__all__ = ["allow_descriptors"]

_ENDLESS: Final = 2**31


def allow_descriptors(wanted: int) -> int:
    """Raise the soft limit to `wanted` if it is lower, as far as the hard limit allows; returns the
    soft limit in force.

    No higher than that: commands inherit the limit, and some programs walk through every
    descriptor that they might have.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENDLESS
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if raised > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return max(soft, raised)
