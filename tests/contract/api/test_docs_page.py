"""The documentation of the API, and what it must not contain."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.api.app import App
    from tests.support.api import Api


def test_the_page_uses_no_script_and_no_outside_resource(api: Api) -> None:
    text = api("GET", "/api/docs").text
    assert not re.search(r"<script|<style|style=|\son\w+=|javascript:", text)
    used = set(re.findall(r'(?:src|href|action)="([^#"]*)"', text))
    assert used <= {"", "/static/api.css", "/api/openapi.json"}
    assert "url(" not in api("GET", "/static/api.css").text


def test_the_documentation_tells_of_every_operation_and_shape(api: Api, app: App) -> None:
    text = api("GET", "/api/docs").text
    document = api.ok("GET", "/api/openapi.json")
    for path, methods in document["paths"].items():
        assert path in text
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in text
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in text
    assert document == json.loads(json.dumps(app.openapi()))


def test_every_operation_of_the_document_is_complete(app: App) -> None:
    document = app.openapi()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert "x-role" in operation or operation["security"] == []
    known = set(document["components"]["schemas"])
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert used <= known
