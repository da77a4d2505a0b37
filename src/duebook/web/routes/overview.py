"""The overview: one glance says whether all is well; and the namespaces to choose from."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.model.access import Role
from duebook.web.charts import time_line
from duebook.web.visits import Visiting

__all__ = ["operations"]

operations = Operations("", "pages")

NEARLY_AN_HOUR: Final = timedelta(minutes=59)
"""Less of the next hour is said to be only a part of it."""


@operations("GET", "/", Role.VIEWER, None)
def get_overview(visit: Visiting) -> Response:
    """What runs, what is due, what went wrong."""
    seen = visit.shared(lambda book: book.insights.overview())
    clock = visit.clock(seen.now)
    line = time_line(seen.coming, seen.now, seen.coming_until, clock)
    well = not (seen.failed or seen.late or seen.problems or seen.stranded) and bool(seen.nodes)
    cut = seen.coming_until < seen.now + NEARLY_AN_HOUR
    return visit.render("overview.html", now=seen.now, seen=seen, line=line, well=well, cut=cut)


@operations("GET", "/namespaces", Role.VIEWER, None)
def get_namespaces(visit: Visiting) -> Response:
    """The namespaces that the viewer sees."""
    caller = visit.caller
    names = [name for name in visit.book.insights.namespaces() if caller.sees(name)]
    own = () if caller.everywhere else caller.namespaces
    return visit.render("namespaces.html", names=sorted({*names, *own, visit.ask.namespace}))
