import pytest

from hocket.apps.report.diagnosis import diagnose, kl_coefficient
from hocket.apps.report.groups import group_episodes


def rows(steps=30, **changes):
    healthy = {
        "reward/mean": 0.4,
        "loss": 0.1,
        "entropy": 0.5,
        "kl/reference": 0.02,
        "kl/behaviour": 1e-4,
        "groups/total": 16,
        "groups/with_signal": 9,
        "ratio/saturated": 0.0,
        "truncated/share": 0.02,
        "gradient/norm": 0.3,
    }
    return [{"step": 0, "eval/accuracy": 0.3}] + [{"step": s, **healthy, **changes} for s in range(1, steps + 1)]


def episode(group, reward, *, advantage=0.0, finish="stop", text=None, **more):
    turn = {"text": text if text is not None else f"answer {group} {id(object())}", "finish": finish}
    turn["advantage"] = [advantage] * 3
    return {
        "group": group,
        "scenario": {"id": f"s{group}"},
        "turns": [turn],
        "scores": {"reward": reward},
        "reward": reward,
        "kept": True,
        "truncated": finish == "length",
        **more,
    }


def groups(*rewards, **more):
    return [episode(number, reward, **more) for number, group in enumerate(rewards) for reward in group]


MIXED = [
    episode(number, reward, advantage=reward - 0.5, text=f"{number} {sample}")
    for number in range(4)
    for sample, reward in enumerate([0.0, 1.0])
]


def only(found):
    assert len(found) == 1, found
    return found[0]


def test_a_healthy_run_has_no_diagnosis():
    assert diagnose(rows(), MIXED, penalty=0.04) == []
    assert diagnose(rows()) == []
    assert diagnose([]) == []


def test_nothing_trained():
    assert "No training step" in only(diagnose([{"step": 0}]))


def test_all_cut_off():
    cut = [e | {"truncated": True} for e in MIXED]
    assert "Every answer was cut off" in only(diagnose(rows(), cut))
    assert "Every answer was cut off" in only(diagnose(rows(**{"truncated/share": 1.0})))
    half = [e | {"truncated": i % 2 == 0} for i, e in enumerate(MIXED)]
    assert "50% of the answers were cut off" in only(diagnose(rows(), half))
    # A time limit of a controller, or of a world in words, is no fault.
    assert diagnose(rows(), [e | {"info": {"limit": "the environment cut the episode short"}} for e in cut]) == []
    control = [{**row, "eval/return": 3.0} for row in rows(**{"truncated/share": 1.0})]
    assert diagnose(control) == []


def test_never_rewarded_and_format_never_met():
    poor = {"reward/mean": 0.0, "groups/with_signal": 9}
    assert "No reward has been above 0 in 30 steps, so" in only(diagnose(rows(**poor)))
    never = rows(**poor)
    never[0]["eval/format"] = 0.0
    assert "no answer has matched the expected format" in only(diagnose(never))
    never[0]["eval/format"] = 0.1
    assert "easier scenarios" in only(diagnose(never))
    late = rows(**poor)
    late[3]["reward/mean"] = 0.1
    assert diagnose(late) == []


ZERO_SUM = [
    episode(number, 0.0, advantage=1.0, scores={"reward": [won, -won]}) for number in range(4) for won in (1.0, -1.0)
]


def test_what_is_0_or_less_by_nature_is_no_lack_of_rewards():
    # A game of zero sum, by its metrics per player or by its episodes alone.
    assert diagnose(rows(**{"reward/mean": 0.0, "reward/agent/attacker": 0.24, "reward/agent/guard": -0.24})) == []
    assert diagnose(rows(**{"reward/mean": 0.0}), ZERO_SUM, penalty=0.04) == []
    assert diagnose(rows(**{"reward/mean": 0.0, "a/reward": -0.1, "b/reward": 0.1})) == []
    # Costs and distances, whose best is 0 or less still.
    assert diagnose(rows(**{"reward/mean": -3.0})) == []
    late = rows(**{"reward/mean": -3.0})
    late[-1]["reward/mean"] = 0.0
    assert diagnose(late) == []
    assert diagnose(rows(**{"reward/mean": 0.0, "reward/cost": -2.0, "reward/right": 2.0})) == []
    # What shaping made of rewards, and what evaluation earned, are not what training was paid.
    still = rows(**{"reward/mean": 0.0, "reward/shaped": 0.7, "eval/reward/agent": 0.7})
    assert "No reward has been above 0" in only(diagnose(still))


def test_equal_costs_are_not_called_wrong_answers():
    sentence = only(diagnose(rows(**{"reward/mean": -2.0, "groups/with_signal": 0}), groups([-2, -2], [-1, -1])))
    assert "None is above 0, which by itself says nothing where costs are paid" in sentence
    assert "wrong" not in sentence


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ([[1, 1], [1, 1], [1, 1]], "Nearly all samples earned the maximum"),
        ([[0, 0], [0, 0], [0, 0]], "Nearly all are wrong"),
        ([[0, 0], [1, 1], [0, 0], [1, 1]], "always right and the others always wrong"),
    ],
)
def test_groups_alike(rewards, words):
    sentence = only(diagnose(rows(**{"groups/with_signal": 0}), groups(*rewards)))
    assert "No group had any signal in the last 20 steps: all rewards within a group are equal" in sentence
    assert words in sentence


def test_groups_alike_because_samples_are_identical():
    same = groups([0, 0], [1, 1], text="always this")
    assert "the samples themselves are identical" in only(diagnose(rows(**{"groups/with_signal": 1}), same))


def test_groups_without_signal_although_rewards_differ():
    mixed = groups([0, 1], [0, 1], kept=False)
    sentence = only(diagnose(rows(**{"groups/with_signal": 0}), mixed))
    assert "left out by a filter" in sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": None}, "loss was not a finite number in 20 of the last 20"),
        ({"update/skipped": 2.0}, "40 gradients of the last 20 steps were not finite"),
        ({"ratio/clipped": 0.8}, "80% of the tokens were clipped"),
        ({"ratio/saturated": 0.4}, "40% of the probability ratios"),
        ({"kl/behaviour": 0.3}, "Sampler and learner disagree by 0.3 nats"),
        ({"worker/kl/behaviour": 0.3}, "Sampler and learner disagree by 0.3 nats"),
        ({"gradient/norm": 0.0}, "gradient is exactly 0"),
    ],
)
def test_single_causes(changes, words):
    assert words in only(diagnose(rows(**changes), MIXED))


def test_no_loss_is_expected_without_signal():
    found = diagnose(rows(loss=None, **{"groups/with_signal": 0}))
    assert not any("finite" in sentence for sentence in found)


def test_the_penalty_outweighs_rewards():
    nearly = [e | {"reward": 0.5 + e["reward"] / 100} for e in MIXED]
    far = rows(**{"kl/reference": 2.0})
    assert "coefficient 0.1 times 2 nats" in only(diagnose(far, nearly, penalty=0.1))
    assert diagnose(far, nearly) == []
    assert diagnose(far, MIXED, penalty=0.1) == []


def test_entropy_collapse():
    falling = [
        {**row, "entropy": 0.8 * 0.8 ** row["step"], "groups/with_signal": 3} if row["step"] else row for row in rows()
    ]
    assert "sampling entropy fell from" in only(diagnose(falling))


def ruin(steps, **after):
    """A run whose first update ruined the weights: what was sampled before it is as in a healthy one."""
    ends = {"eval/low": 0.0, "eval/high": 0.01, "eval/accuracy": 0.0, "eval/loss": None}
    lost = {"reward/mean": 0.0, "loss": None, "groups/with_signal": 0, "truncated/share": 1.0, **after}
    told = rows(steps, **{"update/lr": 1e30, "tokens/generated": 100.0})
    told[0] |= {"eval/low": 0.25, "eval/high": 0.35}
    return [*told[:2], *({**row, **lost} for row in told[2:-1]), {**told[-1], **lost, **ends}]


def answers_cut_off():
    return groups([0.0, 0.0], [0.0, 0.0], finish="length", truncated=True)


@pytest.mark.parametrize("steps", [4, 40])
def test_ruin_is_blamed_on_the_learning_rate_alone(steps):
    for told in (ruin(steps, entropy=0.0), ruin(steps, **{"truncated/share": 0.6}), ruin(steps, entropy=5.0)):
        sentence = only(diagnose(told, answers_cut_off()))
        assert "accuracy 30.0% to 0.0%" in sentence
        assert "lower learning rate (update.lr, 1e+30 here)" in sentence


def test_probabilities_that_are_no_numbers_are_ruin_even_where_nothing_was_right_before():
    told = ruin(4, entropy=None, **{"kl/behaviour": None, "watch/sampling/nan/since": 2.0})
    told[0]["eval/accuracy"] = 0.0
    sentence = only(diagnose(told, answers_cut_off()))
    assert sentence.startswith("The probabilities of the policy are not numbers since step 2: ")
    assert "(update.lr, 1e+30 here)" in sentence


def test_an_unseen_loss_that_rises_without_end_is_ruin():
    told = [{"step": 0, "eval/loss": 0.7}, *rows(5)[1:]]
    told[-1] |= {"eval/loss": 1e4, "update/lr": 10.0}
    assert "unseen loss rose from 0.7 to 1e+04" in only(diagnose(told, MIXED))
    told[-1]["eval/loss"] = 6.0
    assert diagnose(told, MIXED) == []


def test_a_controller_that_is_stuck_and_worse_is_ruined():
    ends = {"eval/low": 22.0, "eval/high": 26.0}
    told = [{"step": 0, "eval/return": 24.0, **ends}, *rows(6, **{"reward/mean": 20.0, "entropy": 0.0})[1:]]
    told[1] |= {"reward/mean": 24.0, "entropy": 0.7}
    told[-1] |= {"eval/return": 9.4, "eval/low": 9.2, "eval/high": 9.6}
    assert "return 24.0 to 9.4" in only(diagnose(told, MIXED))
    for row in told[2:]:
        row["entropy"] = 0.6  # It still tries; returns fall for a while in honest runs.
    assert diagnose(told, MIXED) == []


def test_what_falls_while_rewards_or_likelihoods_rise_is_no_ruin():
    better = ruin(10, **{"reward/mean": 0.9, "groups/with_signal": 9, "truncated/share": 0.02, "loss": 0.1})
    assert diagnose(better, MIXED) == []
    taught = ruin(10, **{"groups/with_signal": 9, "truncated/share": 0.02, "loss": 0.1})
    taught[0]["eval/loss"], taught[-1]["eval/loss"] = 6.0, 3.0
    assert not any("update.lr" in sentence for sentence in diagnose(taught, MIXED))


def test_answers_that_no_longer_end_are_blamed_on_the_updates_where_nothing_was_gained():
    told = rows(10, **{"reward/mean": 0.0, "truncated/share": 0.9})
    told[1] |= {"truncated/share": 0.0}
    sentence = next(one for one in diagnose(told, answers_cut_off()) if "cut off" in one)
    assert "lower the learning rate (update.lr)" in sentence
    assert "max_tokens" not in sentence
    for row in told[2:]:
        row["reward/mean"] = 0.3  # Longer answers that earn more need room.
    assert any("max_tokens" in one for one in diagnose(told, answers_cut_off()))


def test_where_nothing_is_sampled_no_reward_is_missed():
    taught = rows(6, **{"reward/mean": 0.0, "tokens/generated": 0.0})
    assert diagnose(taught, groups([0.0], [0.0])) == []


def test_failures():
    failed = [e | {"failure": "the tool broke"} for e in MIXED]
    assert any("8 of 8 episodes failed, the first with: the tool broke" in s for s in diagnose(rows(), failed))


def test_the_coefficient_is_found_in_a_configuration():
    config = {
        "recipe": {
            "objective": {"type": "hocket.objectives.ClippedSurrogate", "coefficient": 9},
            "regularisers": [{"type": "hocket.objectives.KLToReference", "coefficient": 0.04}],
        }
    }
    assert kl_coefficient(config) == 0.04
    assert kl_coefficient({"recipe": {}}) is None


def test_what_became_of_groups():
    found = group_episodes(
        [
            *groups([0, 1]),
            *[episode(5, r, advantage=r - 0.5) for r in (0.0, 1.0)],
            *[episode(6, 1.0, kept=False, finish="length") for _ in range(2)],
            *[{**episode(7, 1.0), "discarded": True, "reward": None} for _ in range(2)],
            episode(8, None, failure="broke") | {"scores": {}},
            *[episode(9, r, advantage=0.3, kept=bool(r)) for r in (0.0, 1.0)],
        ]
    )
    assert [group.why for group in found] == [
        "no signal: all advantages are 0",
        "learnt from",
        "every sample was left out, all were cut off",
        "discarded by the rollout (all rewards equal)",
        "every attempt failed",
        "learnt from (1 of 2 left out)",
    ]
    assert [group.signal for group in found] == [False, True, False, False, False, True]
    assert (found[1].mean, found[1].std, found[1].advantages) == (0.5, pytest.approx(0.5**0.5), [-0.5, 0.5])
    assert found[3].rewards == [1.0, 1.0]
