"""The scheduler class for `celery beat`: `celery -A proj beat -S duebook.celery:Scheduler`."""

from __future__ import annotations

try:
    import celery  # noqa: F401 - to say what is missing
except ImportError as error:
    raise ImportError(
        "duebook.celery needs Celery; run pip install '.[celery]' in a copy of the repository"
    ) from error

from duebook.integrations.celery.beat import Scheduler

__all__ = ["Scheduler"]
