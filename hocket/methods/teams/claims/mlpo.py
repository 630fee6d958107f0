"""What mlpo claims."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Lookup, Prior, TalkBench
from hocket.lab.toys.answering_teams import SEEDS
from hocket.methods.teams.mlpo import MLPO, LeaderPeers
from hocket.types import Message, Scenario

claim = Claims("mlpo", "derived")


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


@claim("the trained leader beats the best peer and the vote, and alone itself untrained", "section 4", slow=True)
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


@claim("peer tokens have no gradient, and samples share one prompt")
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
