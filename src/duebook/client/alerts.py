"""The use cases of alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol

from duebook.client.arguments import JUDGED, Cursor, Given, Limit, named
from duebook.client.use_cases import operation
from duebook.model.access import Role
from duebook.model.alert import Alert, AlertRule, AlertTest
from duebook.model.fields import read_labels
from duebook.model.listing import Listing

__all__ = ["AlertsClient"]

AlertList = Listing[Alert]
RuleList = list[AlertRule]  # inside the class below `list` is a method


def _as_given(_: str, value: Any) -> Any:
    """Pass the value on: the use case validates it."""
    return value


_Rule = Annotated[str, named("rule", 1)]


class AlertsClient(Protocol):
    @operation("list_alert_rules", "GET", "/alerts/rules", Role.VIEWER, "alert ls")
    def list(self) -> RuleList:
        """List the alert rules of a namespace by name, each with the state of its channels."""

    @operation("get_alert_rule", "GET", "/alerts/rules/{name}", Role.VIEWER, "alert show")
    def get(self, name: _Rule) -> AlertRule:
        """Get an alert rule, without the secrets of its channels."""

    @operation(
        *("save_alert_rule", "PUT", "/alerts/rules/{name}", Role.OPERATOR, "alert add"),
        errors=(409,),
    )
    def save(
        self,
        name: _Rule,
        on: Annotated[
            str | Sequence[str],
            Given(
                "Conditions: `failure`, `failures:3`, `recovered`, `missed`, `late:10m`, "
                "`running:1h`, `slow`, `no_success:26h`, `unattended`.",
                json=list[str],
                read=_as_given,
            ),
        ] = ("failure", "recovered"),
        to: Annotated[
            Sequence[Any] | str | None,
            Given(
                "Channels: URLs, or objects with a `kind`; `***` keeps a secret. Without them, an "
                "existing rule keeps its channels.",
                json=list[Any],
                read=_as_given,
            ),
        ] = None,
        schedule: Annotated[str | None, Given("Only this schedule.", read=_as_given)] = None,
        labels: Annotated[
            Mapping[str, str] | None,
            Given(
                "Only schedules with all of these labels.",
                json=dict[str, str],
                read=lambda key, value: dict(read_labels(key, value or {})),
            ),
        ] = None,
        group: Annotated[
            str, Given("Problems within this time become one message.", read=_as_given)
        ] = "1m",
        repeat: Annotated[
            str | None,
            Given("A problem that persists is sent again after this time.", read=_as_given),
        ] = "1d",
        limit: Annotated[
            int, Given("The most messages about problems in an hour.", read=_as_given)
        ] = 20,
        enabled: Annotated[bool, JUDGED] = True,
        with_schedule: Annotated[
            bool, Given("Delete the rule together with its schedule.")
        ] = False,
    ) -> AlertRule:
        """Create an alert rule, or replace one.

        Without a schedule and labels it concerns everything in the namespace. Only an admin can
        add channels, because they send data elsewhere.
        """

    @operation(
        *("remove_alert_rule", "DELETE", "/alerts/rules/{name}", Role.OPERATOR, "alert rm"),
        status=204,
    )
    def remove(self, name: _Rule) -> None:
        """Delete an alert rule; its open alerts are closed without a message."""

    @operation(
        *("silence_alert_rule", "POST", "/alerts/rules/{name}/silence", Role.OPERATOR),
        "alert silence",
    )
    def silence(self, name: _Rule, until: str | datetime | None = None) -> AlertRule:
        """Send no alerts of a rule until a time; null ends the silence."""

    @operation(
        *("test_alert_rule", "POST", "/alerts/rules/{name}/test", Role.OPERATOR, "alert test"),
        keyless=True,
    )
    def test(self, name: _Rule) -> AlertTest:
        """Send a test message to all channels of a rule."""

    @operation(
        *("get_alert_delivery", "GET", "/alerts/deliveries/{event_id}", Role.VIEWER, "alert test")
    )
    def delivery(self, event_id: Annotated[str, named("event")]) -> AlertTest:
        """Get which channels have accepted a message, by the id of its event."""

    @operation("list_alerts", "GET", "/alerts", Role.VIEWER, "alert history")
    def history(
        self,
        limit: Limit = 100,
        *,
        rule: Annotated[str | None, Given("Only of this rule.")] = None,
        only_open: Annotated[bool, Given("Only problems that are not over.", alias="open")] = False,
        cursor: Cursor = None,
    ) -> AlertList:
        """List problems, newest first, including those that are over."""
