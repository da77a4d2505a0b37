"""A web service that accepts orders and lets a task send the receipts.

    DUEBOOK_DATABASE_URL=postgresql://… uvicorn examples.fastapi_app:app

The service runs a node while it is up. With many instances, or long tasks, start separate workers
instead (`duebook worker examples.fastapi_app:book`) and remove the lifespan.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from pydantic import BaseModel

from duebook import Context, Duebook, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

book = Duebook(app="shop")


class Order(BaseModel):
    number: int
    email: str


@book.task(retry=Retry(attempts=3, delay="10s"), timeout="1m")
async def send_receipt(ctx: Context, number: int, email: str) -> dict[str, str]:
    ctx.log.info("receipt of order %d to %s", number, email)
    return {"sent_to": email}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    with book, book.running(slots=20):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
def accept(order: Order) -> dict[str, str]:  # def, as enqueueing waits for the database
    run = book.enqueue(send_receipt, order.model_dump(), key=f"receipt-{order.number}")
    return {"receipt": run.id}


@app.get("/receipts/{run_id}")
def receipt(run_id: str) -> dict[str, Any]:
    run = book.runs.get(run_id)
    return {"status": run.status, "output": run.output}
