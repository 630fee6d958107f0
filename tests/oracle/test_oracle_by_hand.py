"""Small documents worked out by hand, mostly for recipes whose rewards or baselines need more than numbers."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from oracle import reference as by

from hocket.core.errors import HocketError
from hocket.lab.microscope import inspect
from hocket.recipes import find


def row(group: str, score: float | dict[str, float], logp: list[float], **more: Any) -> dict[str, Any]:
    return {"group": group, "scores": score if isinstance(score, dict) else {"reward": score}, "logp": logp, **more}


def document(*rows: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {"version": 1, "trajectories": list(rows), **top}


def said(name: str, *rows: dict[str, Any], **top: Any) -> dict[str, Any]:
    return inspect(find(name), document(*rows, **top))


def close(printed: Any, wanted: Any) -> None:
    assert by.gap(printed, wanted) < 1e-9, (printed, wanted)


def standard(r: list[float], epsilon: float = 1e-6) -> np.ndarray:
    return by.standardised(np.array(r), epsilon=epsilon)


def test_remax_subtracts_the_greedy_answers_reward_and_never_learns_from_it() -> None:
    got = said("remax", row("a", 1, [-1, -2]), row("a", 0.25, [-3], source="baseline"), row("a", 0, [-0.5]))
    close(got["advantages"], [[0.75, 0.75], [0], [-0.25]])
    assert got["loss"] == pytest.approx((0.75 * 3 - 0.25 * 0.5) / 2)
    close(got["gradient"], [[-0.375, -0.375], [0], [0.125]])
    assert got["kept"] == [True, False, True]


def test_remax_leaves_out_scenarios_without_a_baseline() -> None:
    got = said("remax", row("a", 1, [-1]), row("a", 0.25, [-3], source="baseline"), row("b", 1, [-0.5]))
    assert got["kept"] == [True, False, False]
    close(got["gradient"], [[-0.75], [0], [0]])


def test_aapo_pairs_the_i_th_sample_with_the_references_i_th() -> None:
    got = said(
        "aapo",
        row("a", 1, [-1, -2], id="0"),
        row("a", 1, [-2], id="1"),
        row("a", 0, [-1], id="2", source="baseline"),
        row("a", 1.1, [-1], id="3", source="baseline"),
    )
    close(got["advantages"][:2], [[0.28, 0.28], [-0.1]])
    assert got["loss"] == pytest.approx((0.28 * 3 - 0.1 * 2) / 3)
    close(got["gradient"], [[-0.28 / 3] * 2, [0.1 / 3], [0], [0]])
    assert got["kept"] == [True, True, False, False]


def test_pvpo_takes_the_mean_of_the_references_samples() -> None:
    got = said(
        "pvpo",
        row("a", 1, [-1, -1]),
        row("a", 0.25, [-1], source="baseline"),
        row("a", 0.75, [-1], source="baseline"),
        row("b", 1, [-1]),
    )
    close(got["advantages"][0], [0.5, 0.5])
    close(got["gradient"], [[-0.25, -0.25], [0], [0], [0]])
    assert got["kept"] == [True, False, False, False]


def test_aepo_adds_the_tempered_samples_reinforce_term() -> None:
    got = said(
        "aepo",
        row("a", 1, [-1, -2]),
        row("a", 0, [-1]),
        row("a", 1, [-1.5, -0.5], info={"tempered": True}),
        row("a", 0, [-1], info={"tempered": True}),
    )
    a = standard([1, 0])
    close(got["advantages"], [[a[0]] * 2, [a[1]], [1, 1], [0]])
    close(got["gradient"], [[-a[0] / 4] * 2, [-a[1] / 2], [-4 / 2 / 2] * 2, [0]])
    assert got["loss"] == pytest.approx(4 * (2.0 / 2) / 2)


@pytest.mark.parametrize("first", [[1, 0], [0, 1]])
def test_rank_grpo_credits_each_item_with_the_remaining_gain(first: list[int]) -> None:
    hits = [first, [0, 1]]
    rows = [
        row("a", 0, [-1, -1.2, -2], segment=[0, 0, 1], info={"hits": h}, logp_behaviour=[-1, -1.5, -1.9]) for h in hits
    ]
    rows = [{**one, "logp_ref": one["logp"]} for one in rows]  # Where KL has no gradient.
    got = inspect(find("rank-grpo").but({"credit.gain": "remaining"}), document(*rows))
    gain = [[h[0] + h[1] / math.log2(3), h[1] / math.log2(3)] for h in hits]
    a = np.array([standard([g[k] for g in gain], 1e-4) for k in (0, 1)]).T
    close(got["advantages"], [[x[0], x[0], x[1]] for x in a])

    def loss(logp: by.Flat) -> Any:
        total = 0.0
        for x, y in zip(logp, a, strict=True):
            d = x - np.array([-1, -1.5, -1.9])
            items = [np.exp((d[0] + d[1]) / 2), np.exp((d[0] + d[1]) / 2), np.exp(d[2])]
            total = total + sum(by.surrogate(q, v, 0.06, 0.08) for q, v in zip(items, [y[0], y[0], y[1]], strict=True))
        return total / 6

    value, gradient = by.value_and_gradient(loss, [np.array(r["logp"], dtype=complex) for r in rows])
    assert got["loss"] == pytest.approx(value, abs=1e-12)
    close(got["gradient"], gradient)


def test_spectral_scores_only_groups_without_a_right_answer() -> None:
    rows = [row("a", {"verdict": 0, "rts": x}, [-1]) for x in (0.1, 0.3, 0.45)]
    rows += [row("b", {"verdict": v, "rts": 0.3}, [-1]) for v in (1, 0)]
    got = said("spectral-po", *rows)
    scores = [1 / (1 + math.exp(-5 * (x - 0.5))) for x in (0.1, 0.3, 0.45)]
    close(got["advantages"], [[x] for x in [*standard(scores), *standard([1, 0])]])


def test_s_grpo_halves_the_reward_of_every_later_right_answer() -> None:
    rows = [row("a", r, [-1, -2], id=f"m{k}") for k, r in enumerate([0, 1, 1, 0, 1])]
    got = said("s-grpo", *rows)
    r = np.array([0, 1, 0.5, 0, 0.25])
    close(got["advantages"], [[x, x] for x in r - r.mean()])


def test_open_rs_has_the_cosine_rewards_ends_and_the_tags() -> None:
    tagged = "<think>a</think><answer>b</answer>"
    sizes, right, texts = [1, 200, 64], [1, 0, 1], [tagged, "b", "c"]
    got = inspect(
        find("open-rs").but({"credit.scale": None}),
        document(*[row("a", v, [-0.01] * n, text=t) for v, n, t in zip(right, sizes, texts, strict=True)]),
    )
    r = []
    for v, n, t in zip(right, sizes, texts, strict=True):
        short, long = (1, 0.5) if v else (-1, -0.5)
        r.append(2 * (long + (short - long) * (1 + math.cos(math.pi * min(n, 128) / 128)) / 2) + (t is tagged))
    close([x[0] for x in got["advantages"]], [np.array(r) - np.mean(r)])


def test_lc_r1_has_the_length_term_where_the_group_has_a_right_answer() -> None:
    sizes, right = [2, 4, 3], [1, 1, 0]
    rows = [row("a", v, [-1] * n, text="x") for v, n in zip(right, sizes, strict=True)]
    got = said("lc-r1", *rows, row("b", 0, [-1], text="x"), row("b", 0, [-1] * 5, text="x"))
    r = np.array([v + 1 - n / 4 for v, n in zip(right, sizes, strict=True)])
    close([x[0] for x in got["advantages"]], [*(r - r.mean()), 0, 0])
    close(got["gradient"][0], [-(r - r.mean())[0] / 2 / 5] * 2)


def test_quark_scales_by_the_first_batch_and_halves_what_says_the_same() -> None:
    x, y = np.array([0, 1, 1, 0.5]), np.array([0.2, 0.9, 0.1, 0.4])
    rows = [row("a", {"x": p, "y": q}, [-1]) for p, q in zip(x, y, strict=True)]
    got = inspect(find("quark-medical-alignment").but({"credit.scale": None}), document(*rows))
    z = np.array([(v - v.mean()) / v.std(ddof=1) for v in (x, y)])
    w = np.exp(-z.mean(1)) / np.maximum(0, np.corrcoef(z)).sum(1)
    r = (w / w.sum()) @ z
    close([a[0] for a in got["advantages"]], r - r.mean())


def test_hybrid_lets_the_rule_override_the_model() -> None:
    rows = [row("a", {"correct": 0, "model": 0.7, "z": 0.5}, [-1]), row("a", {"model": 0.9, "z": 0}, [-0.1] * 96)]
    got = inspect(find("hybrid-multi-aspect-reward").but({"credit.scale": None}), document(*rows))
    r = np.array([0.5, 0.9 - 0.5 * 0.5])
    close([a[0] for a in got["advantages"]], r - r.mean())


def test_dr_genre_charges_the_kl_in_the_reward() -> None:
    rows = [
        row("a", {"x": 0, "y": 0.2}, [-1.0], logp_ref=[-2.0]),
        row("a", {"x": 1, "y": 0.9}, [-1.0, -2.0], logp_ref=[-1.0, -1.5], logp_behaviour=[-1.1, -2.2]),
    ]
    got = said("dr-genre", *rows)
    r = np.array([0.2 - 0.05 * 1.0, 1.9 - 0.05 * (-0.1 - 0.7)])
    close([a[0] for a in got["advantages"]], r - r.mean())


def test_process_rewards_are_summed_over_the_steps_that_end_at_or_after() -> None:
    got = said(
        "grpo-process",
        row("a", 1, [-1] * 3, turn=[0, 0, 1], turn_scores=[{"reward": 0.5}, {"reward": 0}]),
        row("a", 0, [-1] * 2, turn=[0, 1], turn_scores=[{"reward": 0.25}, {"reward": 1}]),
    )
    z = standard([0.5, 1, 0.25, 1])
    close(got["advantages"], [[z[0] + z[1], z[0] + z[1], z[1]], [z[2] + z[3], z[3]]])


def test_process_form_with_one_final_step_is_the_outcome_form() -> None:
    rows = [row("a", r, [-1, -2]) for r in (1, 0, 0.5)] + [row("b", 1, [-1])]
    one, other = said("grpo", *rows), said("grpo-process", *rows)
    close(one["advantages"], other["advantages"])
    close(one["gradient"], other["gradient"])


def test_rec_drop_drops_surplus_negatives_before_the_mean() -> None:
    got = said("rec-drop", *[row("a", r, [-1], id=f"m{k}") for k, r in enumerate([0, 1, 0, 0, 1])])
    assert got["kept"] == [True, True, True, False, True]
    close(got["advantages"], [[-0.5], [0.5], [-0.5], [0], [0.5]])
    close(got["gradient"], [[0.125], [-0.125], [0.125], [0], [-0.125]])


def test_cppo_keeps_the_largest_advantages_of_each_group() -> None:
    rewards = [0, 1, 0, 0, 0, 0, 0, 1]
    got = said("cppo", *[row("a", r, [-1], id=f"m{k}") for k, r in enumerate(rewards)])
    a = standard(rewards)
    assert got["kept"] == [k in (1, 7) for k in range(8)]
    close([g[0] for g in got["gradient"]], [-x / 2 if k in (1, 7) else 0 for k, x in enumerate(a)])
    whole = inspect(find("cppo").but({"credit.normaliser": "all"}), document(*[row("a", r, [-1]) for r in rewards]))
    assert sorted(g[0] for g in whole["gradient"])[:2] == pytest.approx([-a[1] / 8] * 2)
    none = inspect(find("cppo").but({"credit.rate": 0.0}), document(*[row("a", r, [-1]) for r in rewards]))
    close(none["gradient"], said("grpo", *[row("a", r, [-1]) for r in rewards])["gradient"])


def test_d3s_keeps_the_subset_of_largest_variance() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        rewards = rng.normal(size=6).tolist()
        got = said("d3s", *[row("a", r, [-1], entropy=[1.0]) for r in rewards])
        kept = [a[0] for a, k in zip(got["advantages"], got["kept"], strict=True) if k]
        a = standard(rewards)
        # Half of the samples, and of their decisions half: look at samples alone.
        whole = inspect(
            find("d3s").but({"credit.decisions": 1.0}),
            document(*[row("a", r, [-1], entropy=[1.0]) for r in rewards]),
        )
        chosen = [x for x, k in zip(a, whole["kept"], strict=True) if k]
        assert np.var(chosen) == pytest.approx(max(np.var(c) for c in combinations(a, 3)))
        assert len(chosen) == 3
        assert sorted(np.abs(kept)) == pytest.approx(sorted(np.abs(chosen))[1:])


def test_pta_adds_the_mean_verdict_of_the_plan_to_the_solutions_own() -> None:
    got = said(
        "pta-grpo",
        row("a", 1, [-1, -2], id="p", turn=[0, 1]),
        row("a", 0, [-1, -3], id="q", turn=[0, 1], parent={"id": "p", "length": 1}),
        row("a", 0, [-1, -3], id="r", turn=[0, 1]),
    )
    close(got["advantages"], [[a, a] for a in standard([1 + 0.5, 0 + 0.5, 0])])


def test_pm4grpo_clips_whole_trajectories() -> None:
    rows = [
        row("a", 1, [-1, -2], logp_behaviour=[-1.002, -2.001], text="a"),
        row("a", 0, [-1], logp_behaviour=[-1.0001], text="a"),
        row("a", 0, [-1], logp_behaviour=[-0.9], text="a"),
    ]
    got = said("pm4grpo", *rows)
    a = standard([1, 0, 0])

    def loss(logp: by.Flat) -> Any:
        s = [np.exp((x - np.array(r["logp_behaviour"])).mean()) for x, r in zip(logp, rows, strict=True)]
        return sum(by.surrogate(x, y, 3e-4, 4e-4) for x, y in zip(s, a, strict=True)) / 3

    value, gradient = by.value_and_gradient(loss, [np.array(r["logp"], dtype=complex) for r in rows])
    assert got["loss"] == pytest.approx(value)
    close(got["gradient"], gradient)


def test_adacot_silences_the_first_decision_and_the_one_after_the_tag() -> None:
    got = said(
        "adacot",
        row(
            "a", 1, [-1, -2, -1], text="<think>x", value=[0, 0, 0], info={"pieces": ["<think>", "x", "y"], "needed": 1}
        ),
        row("a", 0, [-1], text="y", value=[0], info={"pieces": ["y"], "needed": 0}),
    )
    assert got["weight"][0] == [0, 0, 1]
    assert got["gradient"][0][:2] == [0, 0]
    assert got["gradient"][0][2] != 0


def test_text2grad_gives_each_token_of_a_span_its_score() -> None:
    pieces = ["good", " or", " bad"]
    recipe = find("text2grad").but({"credit.lam": 0.0, "credit.gamma": 0.0, "credit.whiten": False})
    got = inspect(
        recipe,
        document(
            row(
                "a",
                0,
                [-1, -2, -1],
                text="good or bad",
                value=[0, 0, 0],
                logp_ref=[-1, -2, -1],
                info={"pieces": pieces, "critique": [["good", 1], ["bad", -1]]},
            )
        ),
    )
    close(got["advantages"], [[1, 0, -1]])
    assert got["gradient"][0][1] == 0


def test_otc_ppo_always_uses_the_cosine() -> None:
    recipe = find("otc-ppo").but({"credit.whiten": False})
    got = inspect(
        recipe,
        document(
            row("a", 1, [-1], value=[0], info={"tool_calls": 3}), row("b", 0, [-1], value=[0], info={"tool_calls": 0})
        ),
    )
    close(got["advantages"], [[math.cos(math.pi * 3 / 10)], [0]])


def test_truncated_trajectories_bootstrap_the_final_value() -> None:
    recipe = find("ppo").but({"credit.whiten": False, "credit.lam": 1.0})
    got = inspect(recipe, document(row("a", 1, [-1, -1], value=[0.5, 0.25], truncated=True, final_value=2.0)))
    close(got["advantages"], [[2.5, 2.75]])
    ended = inspect(recipe, document(row("a", 1, [-1, -1], value=[0.5, 0.25], final_value=2.0)))
    close(ended["advantages"], [[0.5, 0.75]])


def test_gradient_of_the_value_is_that_of_the_critics_loss() -> None:
    got = said("ppo", row("a", 1, [-1, -1], value=[0.5, 0.25]), row("a", 0, [-1], value=[0.1]))
    bare = [[0.25 - 0.5 + 0.95 * 0.75, 0.75], [-0.1]]
    close(got["gradient_value"], [[-x / 3 for x in z] for z in bare])


def test_ngrpo_of_an_all_wrong_group() -> None:
    for size in (1, 2, 5):
        got = said("ngrpo", *[row("a", 0, [-1]) for _ in range(size)])
        assert [a[0] for a in got["advantages"]] == pytest.approx([-1 / math.sqrt(size + 1)] * size, rel=1e-5)


def test_mapo_table() -> None:
    recipe = find("mapo").but({"credit.weigh.0.ddof": 0, "credit.weigh.0.epsilon": 0.0})
    one_right = inspect(recipe, document(*[row("a", float(k == 0), [-1]) for k in range(8)]))
    one_wrong = inspect(recipe, document(*[row("a", float(k > 0), [-1]) for k in range(8)]))
    assert one_right["advantages"][0][0] == pytest.approx(5.095, abs=5e-4)
    assert one_wrong["advantages"][0][0] == pytest.approx(-1.720, abs=5e-4)


def test_kimi_length_reward_table() -> None:
    rows = [row("a", 1, [-0.1] * n) for n in (10, 20, 30)] + [row("b", 0, [-0.1] * n) for n in (10, 20, 30)]
    got = said("kimi-k1-5", *rows, state={"progress": 0.5})
    close([a[0] for a in got["advantages"]], [0.25, 0, -0.25, 0.25 / 3, 0.25 / 3, -0.5 / 3])


def test_trpa_sees_only_the_order_of_rewards() -> None:
    rows = [
        [row("a", f(r), [-1 - r, -2], logp_ref=[-1.5, -1.8]) for r in (0, 0.25, 1, 1)]
        for f in (float, lambda r: 10 * r**3 - 4)
    ]
    one, other = (said("trpa", *r) for r in rows)
    assert one["loss"] == other["loss"]
    assert one["gradient"] == other["gradient"]


def test_gtpo_conflict_tokens_are_runs_from_either_end() -> None:
    got = said(
        "gtpo-trajectory",
        row("a", 1, [-1] * 4, tokens=[7, 1, 2, 9], entropy=[0.4] * 4),
        row("a", 0, [-1] * 3, tokens=[7, 3, 9], entropy=[0.2] * 3),
        row("a", 0, [-1] * 2, tokens=[5, 6], entropy=[0.9] * 2),
    )
    up, down = (2 / 3 - 0.04) / 2, (-1 / 3 - 0.02) / 2
    close(got["advantages"], [[2 * up, up, up, 2 * up], [0, down, 0], [0, 0]])


def test_two_scores_without_a_named_reward_are_added_and_with_one_it_decides() -> None:
    added = said("dr-grpo", row("a", {"x": 1, "y": 0.5}, [-1]), row("a", {"x": 0, "y": 0}, [-1]))
    close(added["advantages"], [[0.75], [-0.75]])
    decided = said("dr-grpo", row("a", {"x": 1, "reward": 0}, [-1]), row("a", {"x": 0, "reward": 1}, [-1]))
    close(decided["advantages"], [[-0.5], [0.5]])


def test_proximal_log_probs_come_before_the_samplers() -> None:
    got = said("grpo", row("a", 1, [-1], logp_behaviour=[-2], logp_proximal=[-1.1]), row("a", 0, [-1]))
    a = standard([1, 0])
    close(got["gradient"], [[-a[0] * math.exp(0.1) / 2], [-a[1] / 2]])


def test_what_cannot_be_shown_is_said() -> None:
    with pytest.raises(HocketError, match="distributions"):
        said("tw-grpo", row("a", 1, [-1]), row("a", 0, [-1]))


def test_a_shared_prefix_longer_than_the_parent_is_refused() -> None:
    with pytest.raises(HocketError):
        said("grpo", row("a", 1, [-1], id="p"), row("a", 0, [-1, -2], id="q", parent={"id": "p", "length": 9}))


def test_token_scores_of_another_length_are_refused() -> None:
    with pytest.raises(HocketError):
        said(
            "reinforce",
            row("a", 0, [-1, -1], token_scores={"r": [10]}),
            row("b", 0, [-1], token_scores={"r": [20, 30]}),
        )


@pytest.mark.parametrize("scores", [[{"r": 5}, {"r": 7}, {"r": 9}], [{"r": 5}]])
def test_turn_scores_of_another_length_are_refused(scores: list[dict[str, float]]) -> None:
    with pytest.raises(HocketError):
        said("dr-grpo", row("a", 0, [-1, -1], turn=[0, 1], turn_scores=scores), row("a", 0, [-1]))


@pytest.mark.parametrize("turn", [[1, 0], [1, 1]])
def test_turns_that_fall_or_start_late_are_refused(turn: list[int]) -> None:
    with pytest.raises(HocketError):
        said("dr-grpo", row("a", 0, [-1, -1], turn=turn), row("a", 0, [-1]))


@pytest.mark.parametrize("field", ["bogus", "progress"])
def test_unknown_fields_of_the_document_are_refused(field: str) -> None:
    with pytest.raises(HocketError):
        said("grpo", row("a", 1, [-1]), row("a", 0, [-1]), **{field: 0.5})


def test_d3s_keeps_the_earlier_of_equals() -> None:
    recipe = find("d3s").but({"credit.decisions": 1.0})
    got = inspect(recipe, document(*[row("a", r, [-1], entropy=[1.0], id=f"m{k}") for k, r in enumerate([1, 0, 1, 1])]))
    assert got["kept"] == [True, True, False, False]


def test_discos_trust_region_saturates_at_the_stated_bound() -> None:
    got = said("disco", row("a", 1, [-1], logp_behaviour=[-41]), row("a", 0, [-1]))
    assert got["metrics"]["kl/trust"] == pytest.approx((math.exp(40) - 1 - 40) / 2)


def test_s_grpo_without_ids_takes_the_order_of_the_document() -> None:
    got = said("s-grpo", *[row("a", 1, [-1]) for _ in range(12)])
    r = 0.5 ** np.arange(12)
    close([a[0] for a in got["advantages"]], r - r.mean())


SERIAL = [0, 1, 1, 0, 1]
DECAYED = np.array([0, 1, 0.5, 0, 0.25])


def test_s_grpo_counts_front_to_back_whatever_the_log_probs() -> None:
    got = said("s-grpo", *[row("a", r, [-9.0 + k], id=f"m{k}") for k, r in enumerate(SERIAL)])
    close([a[0] for a in got["advantages"]], DECAYED - DECAYED.mean())


def test_aapo_pairs_by_place_whatever_the_log_probs() -> None:
    got = said(
        "aapo",
        row("a", 1, [-9], id="0"),
        row("a", 1, [-8], id="1"),
        row("a", 0, [-1], id="2", source="baseline"),
        row("a", 1.1, [-3], id="3", source="baseline"),
    )
    close(got["advantages"][:2], [[0.28], [-0.1]])


def test_rec_drop_drops_the_last_whatever_the_log_probs() -> None:
    got = said("rec-drop", *[row("a", float(k == 0), [-9.0 + k], id=str(k)) for k in range(3)])
    assert got["kept"] == [True, True, False]


def test_cppo_keeps_the_earlier_of_equals_whatever_the_log_probs() -> None:
    got = said("cppo", *[row("a", 0, [-9.0 + k], id=str(k)) for k in range(4)])
    assert got["kept"] == [True, False, False, False]


@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "gvpo", "kimi-k1-5", "gpg", "gmpo"])
def test_a_shared_decision_has_the_gradient_of_all_its_occurrences(name: str) -> None:
    def given(moved: float) -> dict[str, Any]:
        more = {"logp_ref": [-1.3, -1.3]}
        return document(
            row("a", 1, [-1 + moved, -2], logp_behaviour=[-1, -2.2], id="p", **more),
            row("a", 0, [-1, -3], logp_behaviour=[-1, -3], id="q", parent={"id": "p", "length": 1}, **more),
            row("a", 0, [-2, -3], logp_behaviour=[-2, -3], id="r", **more),
        )

    recipe, step = find(name), 1e-6
    got = inspect(recipe, given(0))
    slope = (inspect(recipe, given(step))["loss"] - inspect(recipe, given(-step))["loss"]) / (2 * step)
    assert got["gradient"][0][0] == pytest.approx(slope, rel=1e-6)
    assert got["gradient"][1][0] == got["gradient"][0][0]


def test_e_grpo_ranks_near_misses() -> None:
    texts, scores = ["x and", "x and y", "z"], [0, 0, 1]
    rows = [
        row("a", r, [-1], text=t, label="k", info={"entities": ["x", "y"]}) for r, t in zip(scores, texts, strict=True)
    ]
    got = inspect(find("e-grpo").but({"credit.scale": None}), document(*rows))
    r = np.array([0.15, 0.3, 1])
    close([a[0] for a in got["advantages"]], r - r.mean())


def test_train_long_think_short_has_the_triangular_length_reward() -> None:
    sizes = [1, 3, 9]
    rows = [row("a", float(n == 1), [-1] * n, text="x", info={"metadata": {"budget": 2}}) for n in sizes]
    got = inspect(find("train-long-think-short").but({"credit.scale": None}), document(*rows))
    r = np.array([1.5, 0.5, 0])
    close([a[0] for a in got["advantages"]], r - r.mean())


def test_noise_rates_of_an_answer_come_before_the_recipes() -> None:
    rates = [{"false_positive": 0.3, "false_negative": 0.2}, {"false_positive": 0.1, "false_negative": 0.2}]
    got = said("noisy-verifier-correction", *[row("a", r, [-1], info=i) for r, i in zip([1, 0], rates, strict=True)])
    r = np.array([0.7 / 0.5, -0.1 / 0.7])
    close([a[0] for a in got["advantages"]], r - r.mean())
