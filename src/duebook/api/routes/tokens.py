"""Tokens of the books: make, look at, revoke."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Everywhere
from duebook.api.bodies import read_fields
from duebook.api.operations import V1, Operations
from duebook.api.schemas.access import TokenCreation, TokenList, TokenMade, TokenShape
from duebook.ids import check_name
from duebook.model.access import Role, read_namespaces, read_role
from duebook.model.codec import encode
from duebook.model.fields import read_instant

__all__ = ["operations"]

operations = Operations(f"{V1}/tokens", "tokens")


@operations("GET", "", Role.ADMIN, TokenList, everywhere=True)
def list_tokens(ask: Everywhere) -> Response:
    """Every token by name, also those that were revoked or expired; their secrets are gone."""
    return listed([encode(token) for token in ask.book.tokens.list()]).response()


@operations(
    "POST",
    "",
    Role.ADMIN,
    TokenMade,
    body=TokenCreation,
    status=201,
    errors=(409,),
    everywhere=True,
)
def create_token(ask: Everywhere) -> Response:
    """A new token with its secret text, which nobody can show again."""
    ask.refuse_key()
    readers = {
        "name": lambda _, value: check_name(value, "token"),
        "role": lambda _, value: read_role(value),
        "namespaces": lambda _, value: read_namespaces(value),
        "expires_at": read_instant,
    }
    given = read_fields(ask.body, readers, required=("name", "role", "namespaces"))
    token, secret = ask.book.tokens.create(**given)
    return Answer(encode(TokenMade(token, secret)), 201).response()


@operations("DELETE", "/{name}", Role.ADMIN, TokenShape, errors=(404, 409), everywhere=True)
def revoke_token(ask: Everywhere, name: str) -> Response:
    """Revoke a token, by its name or id: from now on it opens nothing."""
    return Answer(encode(ask.book.tokens.revoke(name))).response()
