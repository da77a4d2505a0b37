"""Moves money between accounts, each transfer exactly once, even if workers are killed.

    python examples/bank_transfer.py [DATABASE]

The accounts are in Duebook's database. A transfer changes two of them and settles its own run in
one transaction, so both happen or neither: a worker that dies in between leaves nothing behind, and
another worker takes over the run.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from sqlalchemy import Engine, create_engine, text

from duebook import Context, Duebook, Retry

book = Duebook(app="bank")

TABLES = (
    "CREATE TABLE accounts (name TEXT PRIMARY KEY, balance BIGINT NOT NULL)",
    # no unique key: only Duebook prevents a transfer from being here twice
    "CREATE TABLE transfers (number BIGINT NOT NULL, amount BIGINT NOT NULL)",
)
OPEN = text("INSERT INTO accounts VALUES (:name, :balance)")
CHANGE = text("UPDATE accounts SET balance = balance + :by WHERE name = :name")
NOTE = text("INSERT INTO transfers VALUES (:number, :amount)")


@cache
def bank(database: str) -> Engine:
    """An SQLAlchemy engine for Duebook's database; plain psycopg or sqlite3 would also work."""
    if database.startswith("postgresql://"):
        return create_engine(database.replace("postgresql", "postgresql+psycopg", 1))
    path = database.removeprefix("sqlite:///")
    return create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})


@book.task(retry=Retry(attempts=5, delay="1s"), max_takeovers=100)
def transfer(ctx: Context, number: int, source: str, target: str, amount: int) -> None:
    changes = sorted([(source, -amount), (target, amount)])  # one order for all: no deadlocks
    with bank(book.database_url).begin() as connection:
        for name, by in changes:
            connection.execute(CHANGE, {"name": name, "by": by})
        connection.execute(NOTE, {"number": number, "amount": amount})
        ctx.settle_in(connection)  # raises if the run is no longer ours: all is rolled back


def open_accounts(database: str, names: list[str], balance: int) -> None:
    with bank(database).begin() as connection:
        for table in TABLES:
            connection.execute(text(table))
        for name in names:
            connection.execute(OPEN, {"name": name, "balance": balance})


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    book.move(sys.argv[1] if len(sys.argv) > 1 else str(Path(mkdtemp()) / "bank.db"))
    names = ["ann", "ben", "eve"]
    book.schedules.list()  # creates the database
    open_accounts(book.database_url, names, 1_000)
    for number in range(100):
        source, target = random.sample(names, 2)
        order = {"number": number, "source": source, "target": target, "amount": number % 50}
        book.enqueue(
            transfer, order, key=f"transfer-{number}"
        )  # a repeated call returns the same run
    node = threading.Thread(target=book.run)
    node.start()
    while any(run.status != "succeeded" for run in book.runs.list(limit=100)):
        node.join(0.2)
    book.stop()
    node.join()
    with bank(book.database_url).connect() as connection:
        for name, balance in connection.execute(text("SELECT name, balance FROM accounts")):
            print(f"{name} {balance:>6}")
        money = connection.scalar(text("SELECT sum(balance) FROM accounts"))
        transfers = connection.scalar(text("SELECT count(*) FROM transfers"))
    print(f"{transfers} transfers; the total is still {money}")


if __name__ == "__main__":
    main()
