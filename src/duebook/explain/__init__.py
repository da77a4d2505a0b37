"""Explains in a sentence what happened to a due time, from ledger, runs, revisions and sessions."""

from __future__ import annotations

from duebook.explain.explanation import Explanation
from duebook.explain.inquiry import explain_at, explain_between

__all__ = ["Explanation", "explain_at", "explain_between"]
