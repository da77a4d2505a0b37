"""Shows the OpenAPI document as a page for people; adds nothing to it."""

from __future__ import annotations

from typing import Any

from duebook.lazy_dataclasses import dataclass

__all__ = ["Group", "ShapeRow", "group_operations", "list_shapes"]

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    place: str
    type: str
    about: str
    required: bool


@dataclass(frozen=True, slots=True)
class AnswerRow:
    status: str
    about: str
    shape: str


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    method: str
    path: str
    summary: str
    description: str
    needs: str
    parameters: list[Field]
    body: str
    answers: list[AnswerRow]


@dataclass(frozen=True, slots=True)
class Group:
    tag: str
    items: list[Item]


@dataclass(frozen=True, slots=True)
class ShapeRow:
    name: str
    about: str
    fields: list[Field]


def group_operations(document: dict[str, Any]) -> list[Group]:
    """The operations by tag, in the document's order."""
    groups: dict[str, Group] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                tag = methods[method]["tags"][0]
                group = groups.setdefault(tag, Group(tag, []))
                group.items.append(_item(path, method, methods[method]))
    return list(groups.values())


def list_shapes(document: dict[str, Any]) -> list[ShapeRow]:
    return [
        ShapeRow(name, schema.get("description", ""), _fields(schema))
        for name, schema in document["components"]["schemas"].items()
    ]


def _item(path: str, method: str, operation: dict[str, Any]) -> Item:
    return Item(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        needs=_needs(operation),
        parameters=[
            Field(
                parameter["name"],
                parameter["in"],
                _type(parameter["schema"]),
                parameter.get("description", ""),
                parameter.get("required", False),
            )
            for parameter in operation.get("parameters", [])
        ],
        body=_shape(operation.get("requestBody", {})),
        answers=[
            AnswerRow(status, answer["description"], _shape(answer))
            for status, answer in operation["responses"].items()
        ],
    )


def _needs(operation: dict[str, Any]) -> str:
    if "x-role" not in operation:
        return "No token needed."
    where = ", for all namespaces" if operation.get("x-all-namespaces") else ""
    return f"Needs {operation['x-role']}{where}."


def _shape(part: dict[str, Any]) -> str:
    for content in part.get("content", {}).values():
        if "$ref" in content.get("schema", {}):
            return _name(content["schema"]["$ref"])
    return ""


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _fields(schema: dict[str, Any]) -> list[Field]:
    required = schema.get("required", [])
    return [
        Field(name, "", _type(part), part.get("description", ""), name in required)
        for name, part in schema.get("properties", {}).items()
    ]


def _type(schema: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(part) for part in schema[key]))
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format", kind))
