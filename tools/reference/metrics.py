"""docs/reference/metrics.md: the metrics, as a scrape of an empty database shows them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.api.metrics import Metrics
from duebook.engine.measures import Measures
from duebook.store.opening import open_store
from tools.reference.writing import NOTE, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["metrics_page"]

_HELP: Final = re.compile(r"^# HELP (duebook\w*) (.*)\n# TYPE \1 (\w+)", re.MULTILINE)


def metrics_page() -> Iterator[str]:
    yield from ("# Metrics", "", NOTE, "")
    yield from (
        "`/metrics` shows these in the text format of Prometheus.",
        "[Metrics and readiness](../metrics.md) explains them and suggests alerts.",
        "",
    )
    rows = [(f"`{name}`", kind, f"{told}.") for name, told, kind in _HELP.findall(_scrape())]
    yield from table(("metric", "type", "meaning"), rows)


def _scrape() -> str:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "duebook.db"))
        try:
            return Metrics(store, Measures).text().decode()
        finally:
            store.close()
