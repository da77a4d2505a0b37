"""Verifies that the books balance: compares one view of them with the triggers; changes nothing."""

from __future__ import annotations

from duebook.balance.audit import Checked, check_books
from duebook.balance.due_times import Expected, expected_state, is_too_late

__all__ = ["Checked", "Expected", "check_books", "expected_state", "is_too_late"]
