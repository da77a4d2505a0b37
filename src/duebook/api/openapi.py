"""Builds the OpenAPI document from the operations and the shapes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from duebook.api.problems import MEDIA_TYPE
from duebook.api.schemas.base import Problem
from duebook.api.schemas.definitions import SPREAD
from duebook.api.shapes import Schemas, requires
from duebook.client.use_cases import V1
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.api.operations import Operation
    from duebook.api.parameters import Parameter

__all__ = ["document"]

REFUSALS: Final = {
    400: "The request cannot be read.",
    401: "The token is missing or unknown.",
    403: "The token does not allow this.",
    404: "The object does not exist, or the token cannot see it.",
    409: "The object has another state or version than the request expects.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is invalid; `errors` names every wrong field.",
    428: "The request must name the version that it replaces.",
    429: "Too many requests are computing due times; `Retry-After` says when to try again.",
    503: "The database cannot be reached; try again.",
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
"""Links of a response: the paths, their parameter, and the source of its value."""

_INTRODUCTION: Final = (
    "Schedules, their runs and a ledger of every due time. Send a token as "
    "`Authorization: Bearer …`. Errors are problem details (RFC 9457) with a stable `code`."
)


def _describe(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """An operation in the document."""
    made: dict[str, Any] = {"tags": [operation.tag], "summary": operation.summary}
    if operation.description:
        made["description"] = operation.description
    made["operationId"] = operation.name
    if parameters := [_parameter(found) for found in _parameters(operation)]:
        made["parameters"] = parameters
    answer = _answer(operation, schemas)
    made["responses"] = {str(status): dict(answer) for status in _statuses(operation)}
    for status in sorted(_refusals(operation)):
        made["responses"][str(status)] = {
            "description": REFUSALS[status],
            "content": {MEDIA_TYPE: {"schema": schemas.reference(Problem)}},
        }
    if operation.role is None:
        made["security"] = []
    else:
        made["x-role"] = str(operation.role)
    if operation.everywhere:
        made["x-all-namespaces"] = True
    if operation.body is not None:
        content = {"application/json": {"schema": schemas.reference(operation.body)}}
        made["requestBody"] = {"required": requires(operation.body), "content": content}
    return made


def _statuses(operation: Operation) -> tuple[int, ...]:
    return (operation.status, *operation.also)


def _parameters(operation: Operation) -> list[Parameter]:
    """Each once, those of the path first."""
    found = {(one.place, one.name): one for one in operation.signature.parameters()}
    order = ("path", "query", "header")
    return sorted(found.values(), key=lambda one: order.index(one.place))


def _parameter(parameter: Parameter) -> dict[str, Any]:
    asked = parameter.asked
    schema = _schema(parameter)
    if parameter.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    if parameter.default is not None and not parameter.required:
        schema["default"] = parameter.default
    if asked.description:
        schema["description"] = asked.description
    made = {"name": parameter.name, "in": parameter.place, "required": parameter.required}
    made["schema"] = schema | {"title": parameter.name.replace("_", " ").title()}
    return made | ({"description": asked.description} if asked.description else {})


def _schema(parameter: Parameter) -> dict[str, Any]:
    asked, kind = parameter.asked, parameter.kind
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if kind == list[str]:
        schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        bounds = {"maxItems": asked.max_length}
    else:
        schema = {"type": {str: "string", int: "integer", bool: "boolean"}[kind]}
        bounds = {"minimum": asked.ge, "maximum": asked.le, "maxLength": asked.max_length}
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    return schema | ({"pattern": asked.pattern} if asked.pattern else {})


def _refusals(operation: Operation) -> set[int]:
    if operation.role is None:
        return {400, 403, *operation.errors}
    needed = {400, 401, 403, 404, 422, 503, *operation.errors}
    return needed | ({413, 415} if operation.body is not None else {413})


def _answer(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content["application/json"] = {"schema": schemas.reference(operation.answer)}
    content |= {media: {"schema": {"type": "string"}} for media in operation.media}
    if not content:
        return {"description": "Done."}
    return {"description": operation.summary, "content": content}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    schemas = Schemas(SPREAD)
    for operation in operations:
        described = _describe(operation, schemas)
        if operation.name in _LEADS_TO:
            answer = described["responses"][str(operation.status)]
            answer["links"] = _links(operations, *_LEADS_TO[operation.name])
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    shapes = dict(sorted(schemas.named.items()))
    scheme = {"type": "http", "scheme": "bearer", "description": "duebook token create"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Duebook", "description": _INTRODUCTION, "version": __version__},
        "paths": paths,
        "components": {"schemas": shapes, "securitySchemes": {"token": scheme}},
        "security": [{"token": []}],
    }


def _links(
    operations: Sequence[Operation], path: str, parameter: str, field: str
) -> dict[str, Any]:
    """Links to the operations under this path, with the source of their parameter's value."""
    links = {}
    for operation in operations:
        if f"{operation.path}/".startswith(f"{V1}{path}/"):
            values = {parameter: f"$response.body#/{field}"}
            if any((p.place, p.name) == ("query", "namespace") for p in _parameters(operation)):
                values["namespace"] = "$response.body#/namespace"
            links[operation.name] = {"operationId": operation.name, "parameters": values}
    return links
