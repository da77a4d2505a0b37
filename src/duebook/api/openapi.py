"""The OpenAPI document: made from the operations and the shapes, and nothing else."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from duebook.api.operations import V1
from duebook.api.problems import MEDIA_TYPE
from duebook.api.schemas.base import ProblemShape
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from fastapi.dependencies.models import Dependant
    from pydantic import BaseModel

    from duebook.api.operations import Operation

__all__ = ["describe", "document", "query_parameters"]

_SCHEMAS: Final = "#/components/schemas/"

REFUSALS: Final = {
    400: "The request cannot be read.",
    401: "No token, or none that is known.",
    403: "The token may not do this.",
    404: "There is none, or none that the token sees.",
    409: "It is not in the state, or of the version, that the request assumes.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "Something in the request is wrong; `errors` names every field.",
    428: "The version that is replaced must be given.",
    429: "Other requests compute due times already; `Retry-After` says when to try again.",
    503: "The books do not answer; worth repeating.",
}

_LEADS_TO: Final = {
    "create_schedule": ("/schedules/{name}", "name", "name"),
    "get_schedule": ("/schedules/{name}", "name", "name"),
    "trigger_schedule": ("/runs/{run_id}", "run_id", "id"),
    "save_template": ("/templates/{name}", "name", "name"),
    "limit_queue": ("/queues/{name}", "name", "name"),
    "limit_namespace": ("/namespaces/{name}", "name", "name"),
    "create_token": ("/tokens/{name}", "name", "name"),
}
"""What can be done with an answer: the paths, their parameter, and where its value is."""

_INTRODUCTION: Final = (
    "Schedules, their runs and the account of every due time. Send a token as "
    "`Authorization: Bearer …`. Errors are problem details (RFC 9457) with a stable `code`."
)


def describe(operation: Operation) -> dict[str, Any]:
    """What FastAPI is told about an operation."""
    statuses = (operation.status, *operation.also)
    responses: dict[int | str, dict[str, Any]] = dict.fromkeys(statuses, _answer(operation))
    for status in sorted(_refusals(operation)):
        responses[status] = {
            "description": REFUSALS[status],
            "content": {MEDIA_TYPE: {"schema": _reference(ProblemShape)}},
        }
    extra: dict[str, Any] = (
        {"security": []} if operation.role is None else {"x-role": str(operation.role)}
    )
    if operation.everywhere:
        extra["x-all-namespaces"] = True
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        required = any(field.is_required() for field in operation.body.model_fields.values())
        extra["requestBody"] = {"required": required, "content": content}
    return {"responses": responses, "openapi_extra": extra}


def _refusals(operation: Operation) -> set[int]:
    if operation.role is None:
        return {400, 403, *operation.errors}
    needed = {400, 401, 403, 404, 422, 503, *operation.errors}
    return needed | ({413, 415} if operation.body is not None else {413})


def _answer(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content["application/json"] = {"schema": _reference(operation.answer)}
    content |= {media: {"schema": {"type": "string"}} for media in operation.media}
    if not content:
        return {"description": "Done."}
    return {"description": operation.summary, "content": content}


def _reference(shape: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{_public(shape.__name__)}"}


def _public(name: str) -> str:
    """What a shape is called outside: other names are those of the model's own values here."""
    return name.removesuffix("Shape")


def document(app: FastAPI, operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    shapes: set[type[BaseModel]] = {ProblemShape}
    for operation in operations:
        shapes |= {shape for shape in (operation.answer, operation.body) if shape is not None}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    _, schemas = models_json_schema(
        [(shape, "validation") for shape in ordered], ref_template=f"{_SCHEMAS}{{model}}"
    )
    renamed = re.sub(rf'("{_SCHEMAS}\w+?)Shape"', r'\1"', json.dumps(schemas["$defs"]))
    shown = {_public(name): schema for name, schema in json.loads(renamed).items()}
    made = get_openapi(
        title="Duebook",
        version=__version__,
        description=_INTRODUCTION,
        routes=app.routes,
    )
    scheme = {"type": "http", "scheme": "bearer", "description": "duebook token create"}
    made["components"] = {
        "schemas": dict(sorted(shown.items())),
        "securitySchemes": {"token": scheme},
    }
    made["security"] = [{"token": []}]
    for operation in operations:
        if operation.documented and not operation.description:
            del _described(made, operation)["description"]
        if operation.name in _LEADS_TO:
            answer = _described(made, operation)["responses"][str(operation.status)]
            answer["links"] = _links(app, *_LEADS_TO[operation.name])
    return made


def _links(app: FastAPI, path: str, parameter: str, field: str) -> dict[str, Any]:
    """The operations whose path begins so, with the value that the answer has for them."""
    links = {}
    for route in app.routes:
        if isinstance(route, APIRoute) and f"{route.path}/".startswith(f"{V1}{path}/"):
            values = {parameter: f"$response.body#/{field}"}
            if "namespace" in query_parameters(route.dependant):
                values["namespace"] = "$response.body#/namespace"
            links[route.name] = {"operationId": route.operation_id, "parameters": values}
    return links


def query_parameters(dependant: Dependant) -> frozenset[str]:
    """The names that a handler, or anything that it depends on, reads from the query."""
    own = frozenset(parameter.alias for parameter in dependant.query_params)
    return own.union(*map(query_parameters, dependant.dependencies))


def _described(made: dict[str, Any], operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = made["paths"][operation.path][operation.method.lower()]
    return found
