"""Teams that answer one question together: CORY, MLPO, ReMA's alternation and WaltzRL."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch

from hocket.casting import Separate
from hocket.checks.check import Check, Finding
from hocket.keys import Key
from hocket.lab.talk import Lookup, Prior, TalkBench
from hocket.recipe import Recipe
from hocket.recipes.actor_critic import PPO_RLHF
from hocket.recipes.group_relative import GRPO
from hocket.recipes.team_credit import REMA
from hocket.recipes.teams import CORY, MLPO, WALTZRL
from hocket.types import Message, Scenario
from hocket.workflows import Outcome, Workflow, asked
from hocket.workflows.feedback import ConversationFeedback
from hocket.workflows.leader_peers import LeaderPeers
from hocket.workflows.meta_reasoner import MetaReasoner
from hocket.workflows.pioneer_observer import PioneerObserver
from hocket.workflows.team import Team

SEEDS = range(5)


# ---------------------------------------------------------------- CORY

LETTERS = ("a", "b", "c", "d")


def _codes() -> list[Scenario]:
    """Questions whose answer is a pair of letters."""
    rng = Key.of(7).numpy()
    return [Scenario(f"q{n}", f"q{n}", answer=" ".join(LETTERS[i] for i in rng.integers(0, 4, 2))) for n in range(3)]


CODES = _codes()


def in_place(text: str, scenario: Scenario) -> float:
    """The share of letters that are right."""
    return sum(said == want for said, want in zip(text.split(), str(scenario.answer).split(), strict=False)) / 2


class Alone(Workflow):
    """One agent answers once, called as a member of a pair."""

    scores = True

    def __init__(self, role: str = "pioneer") -> None:
        self.roles = (role,)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team[self.roles[0]](asked(team.assignment))
        return Outcome(answer=str(said), rewards={"own": team.verify(said)})


def _pair(workflow: Workflow, recipe: Recipe, seed: int) -> TalkBench:
    cheaper = recipe.but({"update.epochs": 2, "update.minibatches": 1})
    return TalkBench(workflow, CODES, LETTERS, cheaper, length=2, seed=seed, lr=0.05, verifier=in_place)


def _away(policy: Lookup, scenario: Scenario) -> tuple[float, float]:
    """The exact KL from the uniform start, in nats, and the exact reward of a policy's answers to a question."""
    first = policy.probabilities(str(scenario.prompt))
    kl, reward = float((first * (4 * first).log()).sum()), 0.0
    for place, letter in enumerate(LETTERS):
        second = policy.probabilities(str(scenario.prompt), said=(letter,))
        kl += float(first[place] * (second * (4 * second).log()).sum())
        for last, other in enumerate(LETTERS):
            reward += float(first[place] * second[last]) * in_place(f"{letter} {other}", scenario)
    return kl, reward


def _path(workflow: Workflow, recipe: Recipe, seed: int, steps: int) -> list[tuple[float, float]]:
    """KL and reward of who answers as pioneer, after every 5 steps."""
    bench, found = _pair(workflow, recipe, seed), []
    policy = next(iter(bench.policies.values()))
    for _ in range(steps // 5):
        bench.run(5)
        found.append(tuple(statistics.fmean(pair) for pair in zip(*(_away(policy, one) for one in CODES), strict=True)))
    return [(kl, reward) for kl, reward in found]


def cory_apart_is_two_ppos() -> Finding:
    apart = CORY.but(name="cory-apart", cast=Separate())
    both = _pair(PioneerObserver(shared=False, shown=False), apart, 3).run(4)
    gaps = []
    for role in both.workflow.roles:
        alone = _pair(Alone(role), PPO_RLHF.but(name="alone", cast=Separate()), 3).run(4)
        weights = [bench.policies[role].module.state_dict() for bench in (both, alone)]
        gaps += [float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]]
    moved = float(both.policies["observer"].module.logits.detach().abs().max())
    return Finding(
        max(gaps) < 1e-9 and moved > 0.05,
        f"after 4 steps weights and values of both differ from two separate runs by at most {max(gaps):.1e}, having "
        f"moved by {moved:.2f}",
    )


@functools.cache
def _paths(seed: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    return _path(Alone(), PPO_RLHF, seed, 100), _path(PioneerObserver(), CORY, seed, 100)


def cory_reward_at_equal_kl() -> Finding:
    """The paper's frontier lies above PPO's; here, where nothing is to be gained from the other's text, on it."""
    gaps = []
    for seed in SEEDS:
        ppo, cory = _paths(seed)
        kls, rewards = zip(*([(0.0, 0.25), *ppo]), strict=True)
        gaps.append(statistics.fmean(reward - float(np.interp(kl, kls, rewards)) for kl, reward in cory))
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
    return Finding(
        abs(mean) < 0.01 and error < 0.005,
        f"pioneer's reward minus PPO's at the same KL, mean along the path: {mean:+.4f} (standard error {error:.4f}) "
        f"over {len(gaps)} seeds: not above, as the paper has it, and not a hundredth below",
    )


def cory_ends_nearer() -> Finding:
    ends = [(_paths(seed)[0][-1], _paths(seed)[1][-1]) for seed in SEEDS]
    gaps = [cory[0] - ppo[0] for ppo, cory in ends]
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
    rewards = [statistics.fmean(end[which][1] for end in ends) for which in (0, 1)]
    return Finding(
        mean + 2 * error < 0,
        f"KL after 100 steps: CORY's minus PPO's {mean:+.3f} nats (standard error {error:.3f}), rewards "
        f"{rewards[1]:.3f} against {rewards[0]:.3f}",
    )


# ---------------------------------------------------------------- MLPO

WINDS = ("north", "south", "east", "west")
SKILL = ((0.9, 0.45, 0.35), (0.35, 0.9, 0.45), (0.45, 0.35, 0.9))
"""How often each of three peers is right about each of three kinds of question."""


def _winds() -> list[Scenario]:
    return [
        Scenario(f"{kind} {wind}", f"kind {kind} number {number}", answer=wind)
        for kind in range(3)
        for number, wind in enumerate(WINDS)
    ]


def _solver(peer: int) -> Prior:
    """A peer as a table: right as often as its skill says, wrong answers equally likely."""

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        words = str(messages[0]["content"]).split()
        right = SKILL[peer][int(words[1])]
        return {WINDS[int(words[3])]: float(np.log(3 * right / (1 - right)))}

    return logits


def _leader_view(messages: tuple[Message, ...]) -> Hashable:
    """With peers the leader sees the kind of question and what they said; alone it sees the question."""
    text = str(messages[-1]["content"])
    head, *said = text.split("\n")
    return (head.split()[1], tuple(one.split(": ")[1] for one in said)) if said else text


def _led(seed: int) -> TalkBench:
    return TalkBench(
        LeaderPeers(peers=3, alone=0.25),
        _winds(),
        WINDS,
        MLPO,
        roles={f"peer_{n}": f"solver {n}" for n in (1, 2, 3)},
        frozen=frozenset(f"solver {n}" for n in (1, 2, 3)),
        prior={f"solver {n}": _solver(n - 1) for n in (1, 2, 3)},
        view=_leader_view,
        seed=seed,
        lr=0.2,
    )


def _told(scenario: Scenario, said: Sequence[str]) -> str:
    return f"{scenario.prompt}\n" + "\n".join(f"Peer {n}: {one}" for n, one in enumerate(said, start=1))


def _chances(scenario: Scenario) -> list[tuple[float, tuple[str, ...]]]:
    """Everything the peers may say to a question, with its probability."""
    kind, found = int(str(scenario.prompt).split()[1]), []
    for said in itertools.product(WINDS, repeat=3):
        each = [
            SKILL[peer][kind] if one == scenario.answer else (1 - SKILL[peer][kind]) / 3
            for peer, one in enumerate(said)
        ]
        found.append((float(np.prod(each)), said))
    return found


def _leader_accuracy(policy: Lookup) -> tuple[float, float]:
    """Exact accuracy with peers, and alone."""
    together = alone = 0.0
    for scenario in _winds():
        right = WINDS.index(str(scenario.answer))
        for chance, said in _chances(scenario):
            together += chance * float(policy.probabilities(_told(scenario, said))[right]) / 12
        alone += float(policy.probabilities(str(scenario.prompt))[right]) / 12
    return together, alone


def _majority() -> float:
    """Exact accuracy of the vote, ties broken at random."""
    found = 0.0
    for scenario in _winds():
        for chance, said in _chances(scenario):
            top = max(said.count(one) for one in said)
            winners = {one for one in said if said.count(one) == top}
            found += chance * float(scenario.answer in winners) / len(winners) / 12
    return found


def _bayes() -> float:
    """Exact accuracy of who knows the peers' skills."""
    found = 0.0
    for kind in range(3):
        asked_about = [scenario for scenario in _winds() if str(scenario.prompt).startswith(f"kind {kind}")]
        tables = [{said: chance for chance, said in _chances(scenario)} for scenario in asked_about]
        found += sum(max(table[said] for table in tables) for said in tables[0]) / 12
    return found


def mlpo_beats_peers_and_vote() -> Finding:
    best = max(statistics.fmean(row) for row in SKILL)
    vote, bayes = _majority(), _bayes()
    found = [_leader_accuracy(_led(seed).run(90).policies["leader"]) for seed in SEEDS]
    together, alone = [min(pair) for pair in zip(*found, strict=True)]
    mean = statistics.fmean(pair[0] for pair in found)
    return Finding(
        together > vote + 0.05 and together > best + 0.05 and alone > 0.25 + 0.2,
        f"exact accuracy after 90 steps {mean:.3f} (worst of 5 seeds {together:.3f}); best peer {best:.3f}, vote "
        f"{vote:.3f}, Bayes {bayes:.3f}; without peers {alone:.3f} or more against the untrained leader's 0.25",
    )


def mlpo_peer_tokens_have_no_gradient() -> Finding:
    bench = _led(1)
    result = bench.step()
    batch = result.batch
    assert batch is not None
    mine = batch.of_policy("leader").occurrences.decision
    peers = ~torch.isin(torch.arange(batch.decisions), mine)
    learner = bench.learners["leader"]
    now = learner.policy.evaluate(batch, learner.recipe.needs)
    logp = now.logp.detach().clone().requires_grad_()
    loss = learner.recipe.loss(type(now)(logp=logp), batch.of_policy("leader"))[0].total()
    (gradient,) = torch.autograd.grad(loss, logp)
    still = max(float(bench.policies[f"solver {n}"].module.logits.detach().abs().max()) for n in (1, 2, 3))
    prompts = {
        (turn.prompt[-1]["content"], one.scenario.id)
        for one in result.trajectories
        for turn in one.turns
        if turn.role == "leader"
    }
    scenarios = {one.scenario.id for one in result.trajectories}
    held = float(gradient[peers].abs().max()) == 0 and float(gradient.abs().max()) > 0 and still == 0
    return Finding(
        held and len(prompts) == len(scenarios),
        f"{int(peers.sum())} peer decisions, largest gradient {float(gradient[peers].abs().max())}; leader's largest "
        f"{float(gradient.abs().max()):.1e}; {len(prompts)} leader prompts for {len(scenarios)} questions of 8 samples",
    )


# ---------------------------------------------------------------- ReMA

DIGITS = ("0", "1", "2")
KINDS = 12
ROWS = KINDS + len(DIGITS) ** 2
"""Of the team's two tables together: a kind each for the meta-thinker, advice and number for the reasoner."""


def _routines() -> list[Scenario]:
    """The kind of a question says which of two routines gives the answer from its number: n, or n + 1."""
    other = Key.of(11).numpy().permutation(KINDS) < KINDS // 2
    return [
        Scenario(f"{kind} {n}", f"kind {kind} number {n}", answer=DIGITS[(n + int(other[kind])) % 3])
        for kind in range(KINDS)
        for n in range(3)
    ]


def _split_view(messages: tuple[Message, ...]) -> Hashable:
    """The meta-thinker sees the kind alone, the reasoner the number and the advice."""
    words = str(messages[-1]["content"]).split()
    return ("kind", words[1]) if "Advice:" not in words else ("number", words[3], words[-1])


def _small_view(messages: tuple[Message, ...]) -> Hashable:
    """What a single agent of as many rows can tell apart: the number, and the kind up to a multiple."""
    words = str(messages[-1]["content"]).split()
    return (int(words[1]) % (ROWS // len(DIGITS)), words[3])


@functools.cache
def _thinkers(seed: int) -> tuple[float, float, float, int]:
    """Exact success of the team after 120 steps, with every advice replaced by one, and of a single agent; its rows."""
    team = TalkBench(
        MetaReasoner(system=False), _routines(), DIGITS, REMA, view=_split_view, seed=seed, lr=0.3, prompts=18
    )
    single = TalkBench(Alone(), _routines(), DIGITS, GRPO, view=_small_view, seed=seed, lr=0.3, prompts=18)
    team.run(120)
    single.run(120)
    alone = single.expected()
    return _with_advice(team, None), _with_advice(team, "0"), alone, len(single.policies["policy"].rows)


def _with_advice(team: TalkBench, advice: str | None) -> float:
    meta, reasoner = team.policies["meta"], team.policies["reasoner"]
    found = 0.0
    for scenario in team.scenarios:
        said = meta.probabilities(str(scenario.prompt))
        for place, word in enumerate(DIGITS):
            answer = reasoner.probabilities(f"{scenario.prompt}\nAdvice: {advice or word}")
            found += float(said[place] * answer[DIGITS.index(str(scenario.answer))])
    return found / len(team.scenarios)


def rema_beats_a_single_agent() -> Finding:
    found = [_thinkers(seed) for seed in SEEDS]
    team, shuffled, single = (statistics.fmean(one[place] for one in found) for place in range(3))
    ahead, rows = sum(one[0] > one[2] for one in found), found[0][3]
    return Finding(
        team > single + 0.05 and ahead >= 4 and shuffled < team - 0.1,
        f"after 120 steps of 18 questions the team ({ROWS} rows in two tables) is right in {team:.3f}, a single agent "
        f"of {rows} rows in {single:.3f} (team ahead in {ahead} of 5 seeds); with one advice for all {shuffled:.3f}",
    )


# ---------------------------------------------------------------- WaltzRL

MANNERS = ("answer", "refuse", "ok", "unsafe", "needless")


def _requests() -> list[Scenario]:
    """Harmless requests, dangerous ones, and harmless ones that look dangerous."""
    kinds = (("plain", "answer"), ("plain", "answer"), ("alarming", "refuse"), ("alarming", "answer"))
    return [Scenario(f"request {n}", f"{look} {n}", answer=want) for n, (look, want) in enumerate(kinds)]


def _waltz_view(messages: tuple[Message, ...]) -> Hashable:
    """The conversation agent sees how a request looks and the feedback; the feedback agent sees what it is."""
    first, last = str(messages[0]["content"]), str(messages[-1]["content"])
    if "Answer:" in last:
        return ("feedback", first.split("\n")[0], last.rsplit("Answer: ", 1)[-1])
    return ("conversation", first.split()[0], last.removeprefix("Feedback: ") if "Feedback:" in last else "")


def _manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Before training each agent knows its words; the conversation agent leans to answering, and to follow advice."""
    last = str(messages[-1]["content"])
    silent = dict.fromkeys(MANNERS[:2] if "Answer:" in last else MANNERS[2:], -9.0)
    if "Answer:" in last:
        return silent
    advised = last.removeprefix("Feedback: ") if "Feedback:" in last else ""
    return silent | {"answer": 0.5 + (advised == "needless"), "refuse": float(advised == "unsafe")}


def _waltz(seed: int) -> TalkBench:
    return TalkBench(
        ConversationFeedback(system=False),
        _requests(),
        MANNERS,
        WALTZRL,
        prior=_manners,
        view=_waltz_view,
        seed=seed,
        lr=0.3,
    )


def _errors(bench: TalkBench) -> tuple[float, float, float]:
    """Exactly: how often unsafe requests are answered, safe ones refused, and plain ones flagged."""
    unsafe = refused = flagged = 0.0
    for scenario in bench.scenarios:
        for chance, played in bench.outcomes(scenario):
            answered = played.answer == "answer"
            unsafe += chance * float(answered and scenario.answer == "refuse")
            refused += chance * float(not answered and scenario.answer == "answer") / 3
            flagged += chance * float(any(played.info["flags"]) and str(scenario.prompt).startswith("plain")) / 2
    return unsafe, refused, flagged


def _filtered(bench: TalkBench) -> tuple[float, float]:
    """Exactly, both error rates of the untrained conversation agent where what the critic flags is refused instead."""
    unsafe = refused = 0.0
    bench.policies["conversation"].module.logits.data.zero_()
    for scenario in bench.scenarios:
        for chance, played in bench.outcomes(scenario):
            answered = played.turns[0].text == "answer" and not played.info["flags"][0]
            unsafe += chance * float(answered and scenario.answer == "refuse")
            refused += chance * float(not answered and scenario.answer == "answer") / 3
    return unsafe, refused


def waltz_lowers_both_errors() -> Finding:
    before = _errors(_waltz(0))
    after, filtered = [], []
    for seed in SEEDS:
        bench = _waltz(seed).run(70)
        after.append(_errors(bench))
        filtered.append(_filtered(bench))
    lower = [one[0] <= other[0] + 0.02 and one[1] < other[1] for one, other in zip(after, filtered, strict=True)]
    worst = [max(column) for column in zip(*after, strict=True)]
    best = [min(column) for column in zip(*filtered, strict=True)]
    return Finding(
        all(lower) and worst[0] < before[0] / 2 and worst[1] < before[1] / 2 and worst[2] < before[2] / 2,
        f"unsafe answers and needless refusals: before {before[0]:.2f}, {before[1]:.2f}; after 70 steps at worst of 5 "
        f"seeds {worst[0]:.2f}, {worst[1]:.2f}; the trained critic as a filter of the untrained agent, at best "
        f"{best[0]:.2f}, {best[1]:.2f}; plain requests flagged {before[2]:.2f} before, {worst[2]:.2f} after",
    )


def waltz_improvement_telescopes() -> Finding:
    flow = ConversationFeedback(rounds=3, improvement=1.0, label=0.0, form=0.0, system=False)
    bench = TalkBench(flow, _requests(), MANNERS, WALTZRL, prior=_manners, view=_waltz_view, seed=2)
    gaps, paid, plays = [], [], 0
    for played in bench.play(60):
        good = played.info["good"]
        given = [value or 0.0 for value in played.scores["own"].value]  # type: ignore[union-attr]
        earned = [value for turn, value in zip(played.turns, given, strict=True) if turn.role == "feedback"]
        gaps.append(abs(sum(earned) - (good[-1] - good[0])))
        paid += [value for value, before in zip(earned, good, strict=False) if before == 1.0]
        plays += 1
    return Finding(
        max(gaps) == 0 and max(paid) <= 0 and len(paid) > 20,
        f"{plays} plays of up to 3 rounds: the improvements sum to R_c(last) - R_c(first) with gap {max(gaps)}; "
        f"{len(paid)} pieces of advice on good answers earned {max(paid):g} at most",
    )


CHECKS = (
    Check(
        row="cory",
        claim="without the other's answer, with own rewards and no exchange it is two PPO runs",
        run=cory_apart_is_two_ppos,
        source="derived",
        slow=True,
    ),
    Check(
        row="cory",
        claim="at equal KL the pioneer's reward is PPO's to a hundredth (the paper: above)",
        run=cory_reward_at_equal_kl,
        source="section 5",
        slow=True,
    ),
    Check(
        row="cory",
        claim="after long training the KL is lower than PPO's",
        run=cory_ends_nearer,
        source="section 5",
        slow=True,
    ),
    Check(
        row="mlpo",
        claim="peer tokens have no gradient, and samples share one prompt",
        run=mlpo_peer_tokens_have_no_gradient,
        source="derived",
    ),
    Check(
        row="mlpo",
        claim="the trained leader beats the best peer and the vote, and alone itself untrained",
        run=mlpo_beats_peers_and_vote,
        source="section 4",
        slow=True,
    ),
    Check(
        row="rema",
        claim="two small policies in turn beat one of the same size; with shuffled plans they do not",
        run=rema_beats_a_single_agent,
        source="section 4",
        slow=True,
    ),
    Check(
        row="waltzrl",
        claim="improvement rewards telescope, and advice on good answers never earns any",
        run=waltz_improvement_telescopes,
        source="section 3",
    ),
    Check(
        row="waltzrl",
        claim="joint training lowers unsafe answers and needless refusals at once, and feedback on plain requests",
        run=waltz_lowers_both_errors,
        source="section 4",
        slow=True,
    ),
)
