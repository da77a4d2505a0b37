"""The list of benchmarks, in the order of the page of results."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BENCHMARKS", "Benchmark"]


class Benchmark(NamedTuple):
    """A module with its options, and the heading of its results."""

    words: str
    title: str


BENCHMARKS: Final = (
    Benchmark("due", "Due schedules per second, beside other schedulers"),
    Benchmark("speeds", "Runs per second, beside other queues"),
    Benchmark("lateness", "How late runs start, beside others"),
    Benchmark("rest", "At rest, beside others: queries, memory, start"),
    Benchmark("recovery", "Recovery after a restart of PostgreSQL and after a killed worker"),
    Benchmark("fire --store postgres", "Planning on PostgreSQL"),
    Benchmark("fire", "Planning on SQLite"),
    Benchmark("work", "Lateness and queries of a node"),
    Benchmark("forms", "Runs that cost more than a bare no-op"),
    Benchmark("commands", "Commands"),
    Benchmark("held", "While another session keeps a transaction open"),
    Benchmark("retention", "While old history is removed"),
    Benchmark("events", "Events"),
    Benchmark("flows", "Flows"),
    Benchmark("api", "REST requests"),
    Benchmark("pages", "Lists"),
    Benchmark("web", "The dashboard"),
    Benchmark("triggers", "Triggers"),
    Benchmark("simulate", "A simulated day"),
    Benchmark("ahead", "A simulated year"),
    Benchmark("sizes", "Bytes of each row"),
    Benchmark("costs", "Processor time and WAL of a due time"),
    Benchmark("scale", "Cost against size"),
)
