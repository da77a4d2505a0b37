"""The JSON of what only the API shows: ledger entries, revisions, words about due times."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duebook.model.forms import definition_form
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.plan import DueException
    from duebook.model.schedule import Revision
    from duebook.store.values import LedgerEntry

__all__ = ["exception_form", "ledger_form", "revision_form"]


def ledger_form(entry: LedgerEntry) -> dict[str, Any]:
    return {field.name: _plain(getattr(entry, field.name)) for field in fields(entry)}


def revision_form(revision: Revision) -> dict[str, Any]:
    return {
        "version": revision.version,
        "valid_from": format_instant(revision.valid_from),
        "by": revision.by,
        "definition": None if revision.spec is None else definition_form(revision.spec),
    }


def exception_form(exception: DueException) -> dict[str, Any]:
    return {field.name: _plain(getattr(exception, field.name)) for field in fields(exception)}


def _plain(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value
