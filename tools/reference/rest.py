"""docs/reference/rest.md: every operation of the API, from its OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools.reference.writing import NOTE, api_document, paragraphs, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rest_page"]

_TITLES: Final = {"health": "Health and metrics", "tokens": "Tokens"}


def rest_page() -> Iterator[str]:
    document = api_document()
    shapes = document["components"]["schemas"]
    yield from ("# REST operations", "", NOTE, "")
    yield from (
        "A running server has this page at `/api/docs`, and the OpenAPI document at",
        "`/api/openapi.json`. [The API](../api.md) explains tokens, lists, errors and limits.",
        "",
    )
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in by_tag.items():
        yield from (f"## {_TITLES.get(tag, tag.capitalize())}", "")
        for method, path, operation in operations:
            yield from _operation(method, path, operation, shapes)


def _operation(
    method: str, path: str, operation: dict[str, Any], shapes: dict[str, Any]
) -> Iterator[str]:
    yield from (f"### {method} {path}", "", operation["summary"], "")
    yield from paragraphs(operation["description"]) if operation.get("description") else ()
    role = operation.get("x-role", "none: no token is needed")
    everywhere = ", with a token for all namespaces" if operation.get("x-all-namespaces") else ""
    yield from (f"Role: {role}{everywhere}.", "")
    rows = [
        (f"`{one['name']}`", one["in"], _type(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    rows += list(_body(operation, shapes))
    if rows:
        yield from table(("name", "in", "type", "meaning"), rows)
    yield from (_statuses(operation), "")


def _body(operation: dict[str, Any], shapes: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    body = operation.get("requestBody")
    if body is None:
        return
    shape = _resolve(body["content"]["application/json"]["schema"], shapes)
    for name, schema in shape.get("properties", {}).items():
        yield f"`{name}`", "body", _type(schema), schema.get("description", "")


def _resolve(schema: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    found: dict[str, Any] = shapes[reference.rpartition("/")[2]] if reference else schema
    return found


def _type(schema: dict[str, Any]) -> str:
    """The type of a value in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[several])))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("format") or schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _statuses(operation: dict[str, Any]) -> str:
    answers = operation["responses"]
    good = [status for status in answers if status < "400"]
    bad = [status for status in answers if status >= "400"]
    return (
        f"Returns {', '.join(good)}. Errors: {', '.join(bad)}."
        if bad
        else f"Returns {', '.join(good)}."
    )
