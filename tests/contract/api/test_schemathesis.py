"""Random requests from the OpenAPI document alone: no 5xx, and responses match the document."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from duebook.api.app import create_app
from duebook.api.server import Server, bind
from tests.support.api import FixedTokens
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import BaseSchema, Case, Response

    from duebook.api.app import App
    from duebook.store.base import Store

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
RIGHT = {"trigger": {"cron": "0 9 * * *"}, "target": {"command": ["true"]}}
SINK = {"kind": "webhook", "options": {"url": "https://example.com/hooks"}}
HARMLESS = ("description", "labels", "overlap", "catchup", "priority", "enabled", "payload")
HEADERS = {"Authorization": "Bearer admin"}
QUICK = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Running:
    """The app behind a real server, and its document."""

    def __init__(self, app: App) -> None:
        place = bind("127.0.0.1", 0)
        self.server = Server(app, place)
        self.server.start()
        self.url = place.address
        self.session = requests.Session()
        self.session.headers["Connection"] = "close"  # the server closes idle connections
        self.schema: BaseSchema = schemathesis.openapi.from_dict(app.openapi())
        self.schema.config.update(base_url=self.url)
        self.schema.config.generation.with_security_parameters = False

    def check(self, case: Case[Any]) -> None:
        checks = CHECKS[1:] if _name(case) == "readyz" else CHECKS  # 503 is a normal response there
        case.call_and_validate(
            self.url, session=self.session, headers=HEADERS, checks=checks, timeout=PATIENCE
        )

    def post(self, path: str, headers: dict[str, str], body: Any) -> Any:
        answer = self.session.post(f"{self.url}/api/v1/{path}", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def close(self) -> None:
        self.session.close()
        self.server.close()


@pytest.fixture
def running(store: Store) -> Iterator[Running]:
    opened = Running(create_app(store, FixedTokens()))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("database", "mode", "examples"),
    [
        ("sqlite", GenerationMode.POSITIVE, 2),
        ("postgres", GenerationMode.NEGATIVE, 1),
        *(
            pytest.param(database, mode, 20, marks=pytest.mark.long)
            for database in ("sqlite", "postgres")
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        ),
    ],
)
@pytest.mark.lengthy
def test_no_request_breaks_an_operation_or_its_promise(
    running: Running, mode: GenerationMode, examples: int
) -> None:
    for result in running.schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]

        @settings(QUICK, max_examples=examples)
        @given(case=operation.as_strategy(mode))
        def send(case: Case[Any]) -> None:
            running.check(case)

        with suppress(Unsatisfiable):  # some have nothing that could be invalid
            send()


class Story:
    """What a sequence of requests has created and uses later, in its own namespace."""

    def __init__(self, running: Running, number: int) -> None:
        self.headers = {"Authorization": f"Bearer admin@story-{number}"}
        self._numbers = itertools.count()
        first = running.post("schedules", self.headers, RIGHT | {"name": "first"})
        run = running.post("schedules/first/trigger", self.headers, {})
        event = running.post("events", self.headers, {"topic": "orders"})
        self.made = {"name": first["name"], "run_id": run["id"], "event_id": event["id"]}

    def shape(self, case: Any) -> None:
        """Let a random request refer to something that exists."""
        case.query.pop("namespace", None)
        if _name(case) == "create_schedule":
            given = case.body if isinstance(case.body, dict) else {}
            kept = {key: given[key] for key in given if key in HARMLESS}
            case.query, case.headers = {}, {}
            case.body = kept | RIGHT | {"name": f"job-{next(self._numbers)}"}
        for parameter in self.made.keys() & case.path_parameters.keys():
            if "consumers" in case.path:
                case.path_parameters["name"] = "hooks"
            elif "templates" not in case.path:
                case.path_parameters[parameter] = self.made[parameter]
        if _name(case) == "save_sink":
            case.body = SINK

    def learn(self, case: Case[Any], response: Response) -> None:
        if response.status_code == 201 and _name(case) == "create_schedule":
            self.made["name"] = response.json()["name"]
        if response.status_code == 201 and _name(case) == "trigger_schedule":
            self.made["run_id"] = response.json()["id"]


@pytest.mark.parametrize("stories", [10, pytest.param(24, marks=pytest.mark.long)])
def test_no_story_of_requests_breaks_anything(running: Running, stories: int) -> None:
    numbers = itertools.count()
    answered: set[str] = set()
    parts = running.schema.include(tag=["schedules", "runs", "templates", "events"])
    machine: Any = parts.as_state_machine()

    class Stories(machine):  # type: ignore[misc]
        def setup(self) -> None:
            self.story = Story(running, next(numbers))

        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:  # noqa: ARG002
            return {"headers": self.story.headers, "session": running.session, "timeout": PATIENCE}

        def before_call(self, case: Case[Any]) -> None:
            self.story.shape(case)

        def after_call(self, response: Response, case: Case[Any]) -> None:
            self.story.learn(case, response)
            if response.status_code < 300:
                answered.add(_name(case))

        def validate_response(self, response: Response, case: Case[Any], **_: Any) -> None:
            case.validate_response(response, checks=CHECKS, headers=self.story.headers)

    Stories.run(settings=settings(QUICK, max_examples=stories, stateful_step_count=14))
    assert len(answered) > 15, f"these stories are too short: {answered}"


def _name(case: Case[Any]) -> str:
    return str(case.operation.definition.raw["operationId"])
