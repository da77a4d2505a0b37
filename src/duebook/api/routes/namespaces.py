"""Namespaces: what each holds, and how much it may."""

from __future__ import annotations

from dataclasses import fields

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Everywhere
from duebook.api.bodies import read_as_it_is, read_fields
from duebook.api.operations import V1, Operations
from duebook.api.schemas.access import NamespaceList, NamespaceShape, QuotaShape
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.quota import Quota

__all__ = ["operations"]

operations = Operations(f"{V1}/namespaces", "namespaces")


@operations("GET", "", Role.VIEWER, NamespaceList)
def list_namespaces(ask: Everywhere) -> Response:
    """The namespaces with schedules or a quota, as far as the token sees them."""
    found = [use for use in ask.book.namespaces.list() if ask.caller.sees(use.quota.namespace)]
    return listed([encode(use) for use in found]).response()


@operations("PUT", "/{name}", Role.ADMIN, NamespaceShape, body=QuotaShape, everywhere=True)
def limit_namespace(ask: Everywhere, name: str) -> Response:
    """Limit what a namespace may hold; what is there already stays.

    The name `*` stands for every namespace that has no such limit of its own.
    """
    known = {field.name: read_as_it_is for field in fields(Quota)[1:]}
    given = read_fields(ask.body, known)
    return Answer(encode(ask.book.namespaces.limit(name, **given))).response()


@operations("DELETE", "/{name}", Role.ADMIN, None, status=204, errors=(404,), everywhere=True)
def free_namespace(ask: Everywhere, name: str) -> Response:
    """Lift the quota of a namespace."""
    ask.book.namespaces.free(name)
    return Answer().response()
