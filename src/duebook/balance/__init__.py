"""Verifies that the books balance: asks one view of them, and the triggers; changes nothing."""

from __future__ import annotations

from duebook.balance.audit import Checked, check_books

__all__ = ["Checked", "check_books"]
