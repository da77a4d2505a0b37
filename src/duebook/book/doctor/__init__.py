"""Examines a database and its nodes, and repairs what is safe to repair."""

from __future__ import annotations

from duebook.book.doctor.examination import Doctor, unreachable

__all__ = ["Doctor", "unreachable"]
