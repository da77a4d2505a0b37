"""Schedule templates: named defaults that a schedule copies when it is made."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Here
from duebook.api.bodies import read_definition
from duebook.api.operations import V1, Operations
from duebook.api.schemas.definitions import TemplateDefaults
from duebook.api.schemas.others import TemplateList, TemplateShape
from duebook.model.access import Role
from duebook.model.codec import encode

__all__ = ["operations"]

operations = Operations(f"{V1}/templates", "templates")


@operations("GET", "", Role.VIEWER, TemplateList)
def list_templates(ask: Here) -> Response:
    """The templates of a namespace, by name."""
    return listed([encode(template) for template in ask.book.templates.list()]).response()


@operations("GET", "/{name}", Role.VIEWER, TemplateShape, errors=(404,))
def get_template(ask: Here, name: str) -> Response:
    """One template."""
    return Answer(encode(ask.book.templates.get(name))).response()


@operations("PUT", "/{name}", Role.OPERATOR, TemplateShape, body=TemplateDefaults)
def save_template(ask: Here, name: str) -> Response:
    """Keep some fields of a definition under a name; they replace all that it had."""
    defaults = read_definition(ask.body)
    saved = ask.book.templates.save(name, **defaults)
    return Answer(encode(saved)).response()


@operations("DELETE", "/{name}", Role.OPERATOR, None, status=204, errors=(404,))
def remove_template(ask: Here, name: str) -> Response:
    """Forget a template; the schedules that started from it stay."""
    ask.book.templates.remove(name)
    return Answer().response()
