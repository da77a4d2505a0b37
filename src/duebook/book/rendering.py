"""What a run of a schedule would execute now, its templates rendered; nothing is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.ids import new_id
from duebook.model.run import Claim, Run, Token
from duebook.targets.templates import rendered

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot
    from duebook.store.base import Tx

__all__ = ["render_form"]


def render_form(tx: Tx, snapshot: Snapshot, payload: dict[str, Any] | None) -> dict[str, Any]:
    """Target and payload as JSON, without what must not be shown; raises TemplateFailed."""
    schedule = tx.get_schedule(snapshot.schedule_id)
    run = Run(
        id=new_id(),
        namespace=schedule.namespace,
        schedule_id=schedule.id,
        schedule=schedule.name,
        version=snapshot.version,
        due_at=None,
        origin="manual",
        trigger="manual",
        queue=snapshot.spec.queue,
        priority=snapshot.spec.priority,
        status="queued",
        attempt=0,
        failures=0,
        losses=0,
        payload=payload,
        created_at=tx.now,
        ready_at=tx.now,
    )
    claim = Claim(run, Token(run.id, 0, ""), snapshot.spec, schedule.created_by)
    spec = rendered(claim).spec
    return {
        "target": spec.target.masked().to_json(),
        "payload": spec.payload if payload is None else payload,
    }
