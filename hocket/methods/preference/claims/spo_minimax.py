"""SPO's claims."""

import torch

from hocket.lab.bandit import minimised
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, inspect_rows, say
from hocket.lab.toys.games import CYCLE, UNEVEN, GameBandit, exploitability, rule_of
from hocket.methods.preference.spo_minimax import SPO_MINIMAX

claim = Claims("spo-minimax", "arXiv:2401.04056")
FLAT = torch.full((3,), 1 / 3, dtype=torch.float64).log()


def on(matrix: torch.Tensor) -> object:
    return SPO_MINIMAX.but({"shaping.0.wins.rule": rule_of(matrix)})


@claim("An answer's reward is the share of its group's others that it beats.")
def an_answers_reward_is_the_share_of_its_groups_others_that_it() -> Finding:
    copies = (3, 1, 2)
    bandit = GameBandit((0, 0, 0), FLAT, FLAT, copies)
    batch = bandit.batch(on(UNEVEN))  # type: ignore[arg-type]
    answers = bandit.answers().tolist()
    wanted = [sum(float(UNEVEN[i, j]) for n, j in enumerate(answers) if n != k) / 5 for k, i in enumerate(answers)]
    others = [(sum(wanted) - one) / 5 for one in wanted]
    advantage = [one - rest for one, rest in zip(wanted, others, strict=True)]
    return below(1e-12, off=gap(batch.occurrences.advantage.tolist(), advantage))


@claim("Without a judge or a rule the greater return wins: rewards that are transformed change nothing.", "derived")
def without_a_judge_or_a_rule_the_greater_return_wins_rewards_that() -> Finding:
    def gradient(rewards: tuple[float, ...]) -> object:
        rows = [
            {"group": "q", "scores": {"reward": r}, "logp": [-1.0], "logp_behaviour": [-1.0], "info": {"prompt": "?"}}
            for r in rewards
        ]
        return inspect_rows(SPO_MINIMAX, rows)["gradient"]

    plain, bent = gradient((0.0, 1.0, 1.0, 3.0)), gradient((-5.0, 2.0, 2.0, 2.5))
    return below(1e-12, off=gap(plain, bent))


def multiplicative(matrix: torch.Tensor, steps: int = 8000, rate: float = 0.02) -> tuple[torch.Tensor, torch.Tensor]:
    """The last and the average policy of multiplicative weights on the expected win share against oneself."""
    weights = torch.linspace(1, 2, len(matrix), dtype=torch.float64)
    policy = weights / weights.sum()
    total = torch.zeros_like(policy)
    for _ in range(steps):
        policy = torch.softmax(policy.log() + rate * (matrix @ policy), 0)
        total += policy
    return policy, total / steps


@claim("Self-play's average is unexploitable where preferences cycle, and a dominated answer vanishes.")
def self_plays_average_is_unexploitable_where_preferences_cycle_and() -> Finding:
    dominated = torch.full((4, 4), 0.5, dtype=torch.float64)
    dominated[:3, :3] = CYCLE
    dominated[:3, 3], dominated[3, :3] = 0.8, 0.2
    last, average = multiplicative(dominated)
    return Finding(
        exploitability(dominated, average) < 0.01 and float(last[3]) < 1e-3,
        say(exploitability=exploitability(dominated, average), dominated=float(last[3])),
    )


@claim("Where the cycle is uneven Bradley-Terry's best answer is pure and exploitable, and self-play's average is not.")
def where_the_cycle_is_uneven_bradley_terrys_best_answer_is_pure() -> Finding:
    def likelihood(reward: torch.Tensor) -> torch.Tensor:
        # The policy's logits stand for rewards: all comparisons, as often as they come out so.
        return -(UNEVEN * torch.nn.functional.logsigmoid(reward[:, None] - reward)).sum()

    fitted = minimised(likelihood, torch.zeros(3, dtype=torch.float64)).log()
    pure = torch.zeros(3, dtype=torch.float64)
    pure[int(fitted.argmax())] = 1
    _, average = multiplicative(UNEVEN)
    found = exploitability(UNEVEN, pure), exploitability(UNEVEN, average)
    return Finding(found[0] > 0.1 - 1e-9 and found[1] < 0.01, say(bradley_terry=found[0], self_play=found[1]))


@claim("Its policy gradient on samples is multiplicative weights' direction: centred win rates.", "derived")
def its_policy_gradient_on_samples_is_multiplicative_weights() -> Finding:
    """All 27 triples of answers of a uniform policy, each as a batch of its own."""
    recipe, total = on(UNEVEN), torch.zeros(3, dtype=torch.float64)
    for number in range(27):
        triple = [number // 9, number // 3 % 3, number % 3]
        bandit = GameBandit((0, 0, 0), FLAT, FLAT, [triple.count(answer) for answer in range(3)])
        logits = FLAT.clone().requires_grad_()
        bandit.loss(recipe, logits, bandit.batch(recipe)).backward()  # type: ignore[arg-type, no-untyped-call]
        assert logits.grad is not None
        total -= logits.grad / 27
    # With the two others as baseline the leave-one-out reward has expectation u_i - mean u, u the win rates, times 3/2:
    # the baseline holds each answer's own share against its rivals.
    rates = UNEVEN.mean(1)
    wanted = (rates - rates.mean()) / 3
    factor = float(total @ wanted / (wanted @ wanted))
    return below(1e-9, factor > 0, off=gap(total, factor * wanted))


claim.shipped(SPO_MINIMAX, "shaping", settings={"judge": "nano", "curriculum.prompts": 2})
