"""What is tried: grids one by one, TPE seeded by slot, pruning from the curves of earlier trials."""

from __future__ import annotations

import json

import optuna
import pytest
from optuna.trial import TrialState, create_trial

import search_spaces
from hopular.methods import MethodError
from hopular.trials.space import PRUNE_AFTER, PRUNE_TRIALS, STARTUP, Proposer, load_space


@pytest.fixture
def space(tmp_path, monkeypatch):
    """Write a search space; its method has the name that is returned."""
    monkeypatch.setattr(search_spaces, "__path__", [*search_spaces.__path__, str(tmp_path)])

    def write(source, name="space_of_lists"):
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def finish(proposal, value, state=TrialState.COMPLETE, curve=()):
    return create_trial(
        params=proposal.params,
        distributions=proposal.distributions,
        value=value if state == TrialState.COMPLETE else None,
        state=state,
        intermediate_values=dict(curve),
    )


def run(proposer, count, finished=None, state=TrialState.COMPLETE):
    """Let slots finish in order; the finer `value` is nearer to 3."""
    finished = dict(finished or {})
    proposals = []
    for slot in range(len(finished), count):
        proposer.learn(finished)
        proposal = proposer.propose(slot)
        proposals.append(proposal)
        finished[slot] = finish(proposal, -((proposal.params["value"] - 3) ** 2), state)
        proposer.forget(proposal)
    return proposals, finished


def test_grid_goes_one_by_one_and_is_whole():
    proposer = Proposer("hopular", "medium", seed=0)
    settings = [proposer.propose(slot).settings for slot in range(len(proposer.grid))]
    assert settings == load_space("hopular").grid("medium")
    assert len(settings) == 26


def test_grid_trials_can_be_stored_by_optuna():
    proposer = Proposer("hopular", "medium", seed=0)
    for slot in range(len(proposer.grid)):
        trial = finish(proposer.propose(slot), 0.5)
        assert trial.params == proposer.grid[slot]


def test_lists_in_a_grid_reach_the_method_and_are_text_for_optuna(space, recwarn):
    name = space("def grid(size): return [{'widths': (8, 8)}, {'widths': (4,)}, {'widths': None}]")
    proposer = Proposer(name, "small", seed=0)
    proposals = [proposer.propose(slot) for slot in range(3)]
    assert [proposal.settings["widths"] for proposal in proposals] == [[8, 8], [4], None]
    assert [proposal.params["widths"] for proposal in proposals] == ["[8, 8]", "[4]", None]
    assert all(finish(proposal, 1.0).params for proposal in proposals)
    assert not recwarn.list


def test_same_seed_same_proposals_and_another_seed_others():
    one, _ = run(Proposer("constant", "small", 0), STARTUP + 5)
    same, _ = run(Proposer("constant", "small", 0), STARTUP + 5)
    other, _ = run(Proposer("constant", "small", 1), STARTUP + 5)
    assert [p.settings for p in one] == [p.settings for p in same]
    assert not any(a.settings == b.settings for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("known", [3, STARTUP, STARTUP + 3])
def test_proposals_after_a_restart_are_those_of_an_undisturbed_search(known):
    whole, finished = run(Proposer("constant", "small", 0), STARTUP + 6)
    restarted, _ = run(Proposer("constant", "small", 0), STARTUP + 6, {slot: finished[slot] for slot in range(known)})
    assert [p.settings for p in restarted] == [p.settings for p in whole[known:]]


def test_tpe_learns_from_what_was_tried():
    proposals, _ = run(Proposer("constant", "small", 0), STARTUP + 30)
    late = [abs(p.params["value"] - 3) for p in proposals[-10:]]
    assert sorted(late)[5] < 2.5  # at random it would be about 5


def test_failed_trials_are_no_guide_but_do_no_harm():
    proposals, _ = run(Proposer("constant", "small", 0), STARTUP + 5, state=TrialState.FAIL)
    assert len({p.params["value"] for p in proposals}) == STARTUP + 5


def test_conditional_parameters_are_there_only_when_asked_for():
    proposals, _ = run(Proposer("constant", "small", 0), STARTUP + 10)
    assert {p.settings["kind"] for p in proposals} == {"a", "b"}
    assert all(("deep" in p.settings) == (p.settings["kind"] == "b") for p in proposals)


def learned(curves, **options):
    proposer = Proposer("constant", "small", 0, **options)
    proposals = [proposer.propose(slot) for slot in range(len(curves))]
    proposer.learn({i: finish(p, curves[i][-1][1], curve=curves[i]) for i, p in enumerate(proposals)})
    return proposer.propose(len(curves)).trial


def test_a_hopeless_trial_is_pruned_and_not_too_early():
    trial = learned([[(p, 0.8 + 0.01 * i) for p in range(10, 101, 10)] for i in range(PRUNE_TRIALS)])
    pruned_at = []
    for percent in range(10, 101, 10):
        trial.report(0.1, percent)
        if trial.should_prune():
            pruned_at.append(percent)
    assert pruned_at == list(range(PRUNE_AFTER, 101, 10))


def is_pruned(trial, score):
    trial.report(score, PRUNE_AFTER)
    return trial.should_prune()


def test_the_lowest_quarter_is_pruned_and_a_middling_trial_goes_on():
    curves = [[(PRUNE_AFTER, score), (100, score)] for score in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)]
    fate = {score: is_pruned(learned(curves), score) for score in (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.75, 0.95)}
    assert [score for score, pruned in fate.items() if pruned] == [0.05, 0.15, 0.25]


def test_a_search_that_does_not_prune_lets_the_worst_go_on():
    curves = [[(PRUNE_AFTER, 0.8), (100, 0.8)]] * 8
    assert is_pruned(learned(curves), 0.0)
    assert not is_pruned(learned(curves, prunes=False), 0.0)


def test_a_good_trial_is_not_pruned_nor_one_with_too_few_to_compare():
    curves = [[(p, 0.8) for p in range(10, 101, 10)] for i in range(PRUNE_TRIALS)]
    for trial, score in ((learned(curves), 0.9), (learned(curves), 0.8), (learned(curves[1:]), 0.1)):
        for percent in range(10, 101, 10):
            trial.report(score, percent)
            assert not trial.should_prune()


def test_a_missing_or_empty_space_says_what_to_do(space):
    with pytest.raises(MethodError, match=r"add search_spaces/nobody\.py"):
        load_space("nobody")
    with pytest.raises(MethodError, match="neither"):
        load_space(space("x = 1", "space_empty"))
    with pytest.raises(MethodError, match="no setting"):
        Proposer(space("def grid(size): return []", "space_none"), "small", 0)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_space(space("import no_such_library", "space_broken"))
    with pytest.raises(MethodError, match="plain Python values"):
        Proposer(space("def grid(size): return [{'a': object()}]", "space_odd"), "small", 0)


@pytest.mark.parametrize("method", ["catboost", "hopular", "lightgbm", "xgboost"])
@pytest.mark.parametrize("size", ["small", "medium"])
def test_spaces_of_the_project_can_be_stored(method, size):
    proposal = Proposer(method, size, 0).propose(0)
    assert json.loads(json.dumps(proposal.settings)) == proposal.settings
    assert isinstance(finish(proposal, 0.0), optuna.trial.FrozenTrial)
