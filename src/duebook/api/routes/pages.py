"""The pages of the API: the documentation, and the OpenAPI document behind it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duebook.api.docs_page import group_operations, list_shapes
from duebook.api.operations import Operations
from duebook.api.rendering import page, stylesheet
from duebook.model.access import Role

__all__ = ["operations"]

operations = Operations("", "pages")


@operations("GET", "/static/api.css", None)
def get_stylesheet() -> Response:
    """The style sheet of the pages."""
    return Response(stylesheet(), media_type="text/css")


@operations("GET", "/api/docs", Role.VIEWER)
def get_docs(request: Request) -> Response:
    """The documentation of the API."""
    document = request.app.openapi()
    groups, shapes = group_operations(document), list_shapes(document)
    return page("docs.html", document=document, groups=groups, shapes=shapes)


@operations("GET", "/api/openapi.json", Role.VIEWER)
def get_openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())
