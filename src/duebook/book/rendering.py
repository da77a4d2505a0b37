"""Renders what a run of a schedule would execute now; nothing is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.ids import new_id
from duebook.model.run import Claim, Token
from duebook.model.secret import show_payload
from duebook.targets.event import new_run
from duebook.targets.hiding import hide_in, hiding_payload
from duebook.targets.templates import rendered, with_references

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot
    from duebook.store.base import Tx

__all__ = ["render_form"]


def render_form(tx: Tx, snapshot: Snapshot, payload: dict[str, Any] | None) -> dict[str, Any]:
    """Target and payload as JSON, without secrets; raises TemplateFailed."""
    run = new_run(snapshot, new_id(), tx.now, payload=payload)
    claim = Claim(run, Token(run.id, 0, ""), snapshot.spec, snapshot.owner.user)
    done = rendered(with_references(claim))
    form = {"target": done.spec.target.masked().to_json(), "payload": show_payload(done.payload)}
    shown: dict[str, Any] = hide_in(form, hiding_payload(done.payload))
    return shown
