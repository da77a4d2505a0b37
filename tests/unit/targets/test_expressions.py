"""The language of templates: what it says, what it refuses, and that nothing in it can grow."""

from __future__ import annotations

import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duebook.targets.expressions import (
    TemplateFailed,
    check_template,
    evaluate,
    is_template,
    render,
)

KNOWN: dict[str, frozenset[str] | None] = {
    "payload": None,
    "schedule": frozenset({"name"}),
    "due_at": frozenset(),
}
CONTEXT: dict[str, Any] = {
    "payload": {
        "text": "a&b/c <d> 'e'",
        "number": 5,
        "half": 1.5,
        "yes": True,
        "nothing": None,
        "list": [1, 2, 3],
        "map": {"k": "v"},
        "tag": "{{ schedule.name }}",
        "shell": "$(id); `id` \"'\n-o",
    },
    "schedule": {"name": "digest"},
    "due_at": "2026-03-29T00:30:00Z",
}

MEANS = {
    "plain": "plain",
    "{{ payload.text }}": "a&b/c <d> 'e'",
    "{{ payload.shell }}": "$(id); `id` \"'\n-o",
    "{{ payload.tag }}": "{{ schedule.name }}",
    "{{ payload['text'] }}": "a&b/c <d> 'e'",
    "{{ payload.number }} {{ payload.half }} {{ payload.yes }}": "5 1.5 true",
    "{{ payload.list }} {{ payload.map }}": '[1, 2, 3] {"k": "v"}',
    "{{ payload.list[0] }}{{ payload.list | last }}": "13",
    "{{ payload.missing | default('none') }}": "none",
    "{{ payload.nothing | default('none') }}": "none",
    "{{ payload.text | urlencode }}": "a%26b%2Fc%20%3Cd%3E%20%27e%27",
    "{{ payload.map | tojson }}": '{"k": "v"}',
    "{{ payload.list | join(', ') }}": "1, 2, 3",
    "{{ payload.text | upper | replace('A', 'x') }}": "x&B/C <D> 'E'",
    "{{ payload.number + 1 }} {{ payload.number - 1 }}": "6 4",
    "{{ '12' | int }} {{ '1.25' | float | round(1) }} {{ payload.list | length }}": "12 1.2 3",
    "{{ payload.number if payload.yes else 'no' }}": "5",
    "{{ 'yes' if payload.missing is not defined else 'no' }}": "yes",
    "{% if payload.number > 3 and not (payload.number == 4) %}many{% else %}few{% endif %}": "many",
    "{% for n in payload.list %}{{ n }}{{ ',' if not loop.last else '' }}{% endfor %}": "1,2,3",
    "{% for k, v in payload.map | items %}{{ k }}={{ v }}{% endfor %}": "k=v",
    "{{ due_at | time }}": "2026-03-29",
    "{{ due_at | time('%d %b %Y %H:%M', tz='Europe/Brussels') }}": "29 Mar 2026 01:30",
    "{{ due_at | shift('-1d') | time('%Y/%m/%d') }}": "2026/03/28",
    "{{ due_at | shift('90m') }}": "2026-03-29T02:00:00Z",
    "a\n{{- ' b ' -}}\nc\n": "a b c\n",
    "{{ '{{' }} ${#name} {# no comment #}": "{{ ${#name} {# no comment #}",
}


@pytest.mark.parametrize(("template", "text"), MEANS.items())
def test_a_template_says(template: str, text: str) -> None:
    if is_template(template):
        check_template(template, KNOWN)
    assert render(template, CONTEXT) == text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ payload.number }}", 5),
        (" {{ payload.map }} ", {"k": "v"}),
        ("{{ payload.list }}", [1, 2, 3]),
        ("{{ payload.yes }}", True),
        ("{{ payload.nothing }}", None),
        ("{{ payload.number }}!", "5!"),
        ("{{ payload.number }}{{ payload.number }}", "55"),
        ("{{ '007' }}", "007"),
        ("plain", "plain"),
    ],
)
def test_one_expression_keeps_the_type_of_its_value(template: str, value: Any) -> None:
    assert evaluate(template, CONTEXT) == value


REFUSED = {
    "{{": "is not closed",
    "{{ payload.text": "is not closed",
    "{{ payload.text }": '"}" is not allowed in a tag',
    "{{ payload.text %}": "is not allowed in a tag",
    "{{.Names}}": 'to print braces, write {{ "{{" }}',
    "{%s}": "is not allowed in a tag",
    "{{ }}": "is empty",
    "{% if payload.yes %}": "unexpected end of input",
    "{% set x = 1 %}": 'statement "set" is unknown',
    "{% include 'x' %}": 'statement "include" is unknown',
    "{% macro f() %}{% endmacro %}": 'statement "macro" is unknown',
    "{% raw %}{{{% endraw %}": 'statement "raw" is unknown',
    "{%# comment #%}": "is not allowed in a tag",
    "{{ 'x' * 1000000000000 }}": '"*" is not allowed in a tag',
    "{{ payload.text ~ payload.text }}": '"~" is not allowed in a tag',
    "{{ payload.text + payload.text }}": '"+" adds numbers',
    "{{ 10 ** 10 }}": '"*" is not allowed in a tag',
    "{{ range(100000) }}": '"range(" is a call',
    "{{ not range(9) }}": '"range(" is a call',
    "{{ payload.items() }}": '"items(" is a call',
    "{{ (payload.items)() }}": '")(" is a call',
    "{{ loop.cycle(1) }}": '"cycle(" is a call',
    "{{ debug() }}": '"debug(" is a call',
    "{{ 'a\\u0041' }}": "is not allowed in a tag",
    "{{ {'a': 1} }}": '"{" is not allowed in a tag',
    "{{ payload.text | format('x') }}": 'filter "format" is unknown; use one of abs,',
    "{{ payload.text | attr('x') }}": 'filter "attr" is unknown',
    "{{ payload.text is filter }}": 'test "filter" is unknown',
    "{% for a in payload.list recursive %}{% endfor %}": '"recursive" loops are not supported',
    "{{ payloda.text }}": '"payloda" is unknown; use one of payload, schedule, due_at',
    "{{ schedule.nme }}": '"schedule.nme" is unknown; it has name',
    "{{ due_at.year }}": '"due_at.year" is unknown; it has no fields',
    "{{ '" + "x" * 500 + "' }}": "is longer than 500 characters",
    "{% for n in payload.list %}"
    + "x" * 2_000
    + "{% endfor %}": "a template with a loop can have at most 2,000",
}


@pytest.mark.parametrize(("template", "complaint"), REFUSED.items())
def test_what_no_run_could_render_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        check_template(template, KNOWN)
    assert complaint in str(caught.value)
    with pytest.raises(TemplateFailed):
        render(template, CONTEXT)


NO_VALUE = {
    "{{ payload.missing }}": '"payload.missing" is undefined; set a default with default(…)',
    "{{ payload.missing.deeper }}": '"payload.missing.deeper" is undefined',
    "{{ payload.missing[0].deeper }}": '"payload.missing',
    "{{ payload.missing | upper }}": "upper: the value is undefined or null",
    "{{ payload.missing == 1 }}": "is undefined",
    "{{ payload.nothing }}": '"payload.nothing" is null; set a default with default(…)',
    "{{ payload.number }}{{- payload.nothing -}}": '"payload.nothing" is null',
    "{{ payload.nothing or payload.nothing }}": "a value is null",
    "{{ payload.items }}": "a value is undefined",
    "{{ payload.text | int }}": "int cannot be applied to a&b/c <d> 'e'",
    "{{ payload.number | join }}": "join cannot be applied to 5",
    "{{ payload.text | time }}": "time: ",
    "{{ due_at | time('%99999d') }}": 'time: "%99999d" is not a form',
    "{{ due_at | time(tz='Mars/Base') }}": 'time: tz "Mars/Base" is not a time zone',
    "{{ due_at | shift('soon') }}": "shift: ",
    "{{ due_at | shift('9999999d') }}": "shift cannot be applied",
    "{{ payload.text | replace('', 'x') }}": "replace: the text to replace is empty",
    "{{ payload.number / 0 }}": "unable to calculate 5 / 0",
    "{{ payload.list | first(1, 2) }}": "first cannot be applied",
}


@pytest.mark.parametrize(("template", "complaint"), NO_VALUE.items())
def test_a_template_without_a_value_says_so(template: str, complaint: str) -> None:
    check_template(template, KNOWN)
    with pytest.raises(TemplateFailed) as caught:
        render(template, CONTEXT)
    assert complaint in str(caught.value)


BOMBS = [
    "{% for a in payload.many %}{{ payload.big }}{% endfor %}",
    "{% for a in payload.many %}{% for b in payload.many %}x{% endfor %}{% endfor %}",
    "{% for a in payload.many %}" + "x" * 1_900 + "{% endfor %}",
    "{% for a in payload.many %}{% if payload.big | upper == a %}x{% endif %}{% endfor %}",
    "{{ payload.big | replace('x', 'xxxxxxxxxx') }}",
    "{{ payload.many | join(payload.big) }}",
    "{{ 'é" + '"' * 40 + "' " + "| tojson " * 40 + "}}",
    "{{ [" + ",".join(["payload.big"] * 40) + "] }}",
    "{{ [" + ",".join(["payload.big"] * 40) + "] | join }}",
]


@pytest.mark.parametrize("template", BOMBS)
def test_a_bomb_is_refused_before_it_takes_much(template: str) -> None:
    context = {"payload": {"big": "x" * 900_000, "many": list(range(100_000))}}
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(TemplateFailed, match=r"1,000,000 characters|10,000 steps|500 characters"):
        render(template, context)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000_000
    assert time.process_time() - began < 5


WORDS = (
    "{{ }} {% %} {# #} { } payload . text | upper ( ) [ ] ' \" \\ * ~ + - 1 if else for in "
    "endfor endif is not set x = , range loop é 999999999999999999999999999999999999999999"
)
pieces = st.sampled_from([*WORDS.split(), " ", "\n", "\x00", "\ud800"])


@given(st.lists(pieces, max_size=25).map("".join))
@example("{{ payload.text if payload.text }}")
@example("{{+ '1' +}}")
def test_any_text_is_rendered_or_refused_and_checking_agrees(text: str) -> None:
    try:
        made = render(text, CONTEXT)
    except TemplateFailed:
        return
    assert isinstance(made, str)
    if is_template(text):
        check_template(text, {**KNOWN, "x": None, "range": None, "text": None, "upper": None})
    else:
        assert made == text


def test_threads_render_beside_each_other() -> None:
    def work(n: int) -> list[Any]:
        context = {"payload": {"n": n}}
        return [evaluate("{{ payload.n }}", context) for _ in range(200)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [[n] * 200 for n in range(16)]


@given(st.text(max_size=200))
def test_values_are_never_read_as_templates(value: str) -> None:
    assert render("<{{ payload.a }}>", {"payload": {"a": value}}) == f"<{value}>"
