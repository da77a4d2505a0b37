"""What files of Dagu 1 leave unsaid, and what they say about who may change params."""

from __future__ import annotations

import pytest

from duebook.errors import Invalid
from duebook.flows.param_values import check_params, check_start
from duebook.flows.reconcile import notes_about
from duebook.model.flow import FlowTarget
from tests.unit.flows.dagu_helpers import flow_of, problems_of


def test_a_run_with_params_calls_a_flow_and_says_so() -> None:
    flow = flow_of('steps:\n  - run: etl.yaml\n    params: "A=1 B=2"\n')
    assert flow.steps[0].target == FlowTarget("etl", (("A", "1"), ("B", "2")))
    (note,) = notes_about([flow], {"f"})
    assert note == (
        "line 2: `run: etl` with `params` calls a flow, as in Dagu 1; write `call: etl`"
    )


@pytest.mark.parametrize("more", ['params: "A=1"', "parallel: [a, b]"])
def test_the_flow_may_be_in_another_directory(more: str) -> None:
    flow = flow_of(f"steps:\n  - run: pipelines/etl.yaml\n    {more}\n")
    assert isinstance(flow.steps[0].target, FlowTarget)
    assert flow.steps[0].target.name == "etl"


@pytest.mark.parametrize("run", ["./etl", "etl.sh", "python etl.py", "../etl", "bin/etl.py"])
def test_what_is_no_name_of_a_flow_is_not_called(run: str) -> None:
    (told,) = problems_of(f"steps: [{{run: {run}, params: A=1}}]")
    assert "params has no effect without call" in told


def test_fixed_params_are_given_by_flows_only() -> None:
    flow = flow_of("runConfig: {disableParamEdit: true}\nparams: {A: 1}\nsteps: [ls]\n")
    assert check_start(flow, {}) == {}
    assert check_params(flow, {"A": 2}) == {"A": 2}
    with pytest.raises(Invalid) as caught:
        check_start(flow, {"A": 2})
    assert str(caught.value) == (
        'flow "f" has fixed params: its file says disable_param_edit in run_config'
    )


def test_params_are_free_without_that_key() -> None:
    for text in ("", "run_config: {disable_run_id_edit: true}\n"):
        flow = flow_of(f"{text}params: {{A: 1}}\nsteps: [ls]\n")
        assert check_start(flow, {"A": 2}) == {"A": 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{disable_param_edit: often}", "f.yaml:1:34: disable_param_edit "),
        ("{disable_all: true}", "f.yaml:1:14: unknown key `disable_all`"),
        ("yes", "f.yaml:1:13: run_config is not a mapping"),
    ],
)
def test_other_words_of_run_config_are_refused(text: str, told: str) -> None:
    (found,) = problems_of(f"run_config: {text}\nsteps: [ls]\n")
    assert found.startswith(told)
