"""Frequencies of other schedulers: a unit, a number and a start, converted to a trigger."""

from __future__ import annotations

from typing import Any, Final

from duebook.errors import InvalidTime, InvalidTrigger, quoted
from duebook.timetext import parse_instant

__all__ = ["FREQUENCY", "frequency_fields"]

FREQUENCY: Final = ("frequency_unit", "frequency_time", "start_ts")
_LENGTHS: Final = {"SECONDS": "s", "MINUTES": "m", "HOURS": "h", "DAYS": "d", "WEEKS": "w"}
_RULES: Final = {"MONTHS": "MONTHLY", "YEARS": "YEARLY"}
MOST: Final = 1_000_000


def frequency_fields(unit: object, number: object, start: object) -> dict[str, Any]:
    """The fields `trigger` and `start_at` for a frequency; raises InvalidTrigger.

    The first due time is `start`; later ones are counted from it, so that none drifts.
    """
    units = (*_LENGTHS, *_RULES)
    name = unit.upper() if isinstance(unit, str) else ""
    name = name if name in units else f"{name}S"
    if name not in units:
        raise InvalidTrigger(
            f"frequency_unit {quoted(unit)} is not one of {', '.join(units)}", "frequency_unit"
        )
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:
        raise InvalidTrigger(
            f"frequency_time {quoted(number)} is not a whole number from 1 to {MOST:,}",
            "frequency_time",
        )
    if start is not None:
        _check_start(start)
    begin = {} if start is None else {"start_at": start}
    if name in _LENGTHS:
        anchor = {} if start is None else {"anchor": start}
        return {"trigger": {"every": f"{number}{_LENGTHS[name]}", **anchor}, **begin}
    dtstart = {} if start is None else {"dtstart": start}
    rule = f"FREQ={_RULES[name]};INTERVAL={number}"
    return {"trigger": {"rrule": rule, **dtstart}, **begin}


def _check_start(start: object) -> None:
    try:
        parse_instant(start)  # type: ignore[arg-type]
    except InvalidTime as error:
        raise InvalidTrigger(f"start_ts: {error}", "start_ts") from None
