"""Reads schedules of other schedulers into files for `duebook diff` and `duebook apply`.

Each source has a reader; all of them return an `Import`, and execute nothing. Only `celery_app`
imports a program of the user, and only `pickles` reads pickles.
"""

from __future__ import annotations

__all__: list[str] = []
