"""How often Python looks for garbage in a process that is a node and nothing else: seldom.

Runs leave hardly any cycles behind, but each makes a dozen objects, and with a thousand under way
the collector of cycles would take a quarter of the processor's time.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["collect_seldom"]

THRESHOLDS: Final = (50_000, 20, 20)


def collect_seldom() -> None:
    """What is there by now stays for good, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
