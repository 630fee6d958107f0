"""MASPRM's claims, on a team of three that does not know the answer to be always the same word."""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import correlation, fmean, stdev
from typing import Any

import torch

from hocket.agents.search.beam import beam_search, best_of
from hocket.agents.search.mcts import tree_search
from hocket.agents.search.value_search import Beam
from hocket.agents.workflows.pipeline import Pipeline
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import begin
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.talks import stepped
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.masprm.method import MASPRM, MessageSearch
from hocket.methods.teams.masprm.values import HeadValue, verdict
from hocket.rollout.message_search import UCT
from hocket.rollout.message_tree import MessageNode, grafted
from hocket.stages import Play
from hocket.train.aio import run_async
from hocket.train.loop import Playing
from hocket.train.search_evaluation import sought
from hocket.types import Assignment, Evaluation, Message, Scenario, Trajectory

claim = Claims("masprm", "arXiv:2510.24803 and its released code")
WORDS = ("red", "blue", "green", "grey")
QUESTIONS = [Scenario(f"q{number}", f"question {number}", answer="red") for number in range(3)]


def team(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Each agent's table: one word, then the end; how likely each word is, a number drawn for all that was told."""
    closed = dict.fromkeys(("", *WORDS), -math.inf)
    if said:
        return closed | {"": 0.0}
    drawn = Key.of(3).derive(str(messages[-1]["content"])).numpy().normal(scale=1.5, size=len(WORDS))
    return closed | dict(zip(WORDS, drawn.tolist(), strict=True))


def pipeline(seed: int) -> TalkBench:
    recipe = MASPRM.but({"rollout.searches": 16})
    return TalkBench(Pipeline(), QUESTIONS, WORDS, recipe, length=2, ends=True, prior=team, seed=seed, lr=0.2)


@functools.cache
def exact() -> Mapping[tuple[str, ...], float]:
    """`2 p - 1` after each transcript (a question and the words said), by enumeration."""
    policy, value = pipeline(0).policies["policy"], {}
    for length, question in itertools.product((3, 2, 1, 0), QUESTIONS):
        for words in itertools.product(WORDS, repeat=length):
            if length == 3:
                value[question.id, *words] = 1.0 if words[-1] == question.answer else -1.0
                continue
            notes = [f"Note {number}: {note}" for number, note in enumerate(words, start=1)]
            chance = policy.probabilities("\n".join([str(question.prompt), *notes])).tolist()
            after = (chance[place] * value[question.id, *words, word] for place, word in enumerate(WORDS))
            value[question.id, *words] = sum(after)
    return value


def asked(bench: TalkBench, number: int, question: Scenario) -> tuple[Play, Assignment]:
    """Who plays a search, and what it is asked."""
    play = Playing(bench.player, Key.of(bench.seed).derive("search", number))
    return play, Assignment(question, decoding=bench.parts.decoding)


@claim("node means of messages that the agents choose converge to the enumerated 2p - 1", "catalogue", slow=True)
def node_means_of_messages_that_the_agents_choose_converge_to_the() -> Finding:
    gaps, unequal, largest, roots = [], 0, 0.0, {question.id: MessageNode() for question in QUESTIONS}
    for one in pipeline(1).play(800):
        grafted(roots[one.scenario.id], one).back_up(2 * total(one) - 1)
    for name, node in ((name, node) for name, root in roots.items() for node in root.below()):
        wanted = exact()[(name, *(turn.text for turn in node.path))]
        error, off = math.sqrt(max(1 - wanted**2, 0.0) / node.visits), abs(node.mean - wanted)
        gaps.append(off / error if error else float(node.mean != wanted))
        unequal += bool(node.children) and node.visits != sum(child.visits for child in node.children)
        largest = max(largest, off) if node.visits >= 100 else largest
    saw = say(plays_of_each_of_3_questions=800, nodes=len(gaps), most_standard_errors_from_2p_minus_1=max(gaps))
    holds = max(gaps) < 4.5 and unequal == 0 and largest < 0.2
    return Finding(holds, f"{saw}, {say(most_after_100_visits=largest, visits_that_do_not_add_up=unequal)}")


def searched(c: float | None, searches: int, seed: int) -> list[tuple[Scenario, MessageNode]]:
    """The tree of each question after so many searches of 4 candidates."""
    bench, trees = pipeline(seed), []
    for question in QUESTIONS:
        key, rule = Key.of(seed).derive(question.id), UCT(c=c, candidates=4)
        search = tree_search(*asked(bench, 0, question), verdict, searches=searches, key=key, rule=rule)
        trees.append((question, run_async(search)[1]))
    return trees


@claim("N(parent) = sum N(children) in every expanded node of a search")
def n_sum_n_in_every_expanded_node_of_a_search() -> Finding:
    expanded, wrong, off = 0, 0, 0.0
    for node in (node for _, root in searched(2.0, 60, 0) for node in root.below() if node.children):
        expanded += 1
        wrong += node.visits != sum(child.visits for child in node.children)
        # A node's mean is that of the outcomes of the ends below it, as often as each was reached.
        ends = [(one.visits, 2 * total(one.episodes[0]) - 1) for one in node.below() if one.episodes]
        reached = sum(visits for visits, _ in ends)
        off = max(off, abs(node.mean - sum(n * end for n, end in ends) / reached)) if reached else off
    holds = wrong == 0 and expanded > 50 and off < EXACT
    return Finding(holds, say(expanded=expanded, visits_that_do_not_add_up=wrong, means_off_the_ends_below=off))


@claim(
    "node means are unbiased for 2p - 1 with even visits; UCT's rise towards the best candidates",
    "derived; the catalogue claims the contrary",
    slow=True,
)
def node_means_are_unbiased_for_2p_1_with_even_visits_ucts_rise() -> Finding:
    def bias(c: float | None, searches: int) -> tuple[float, float]:
        trees = [tree for seed in range(8) for tree in searched(c, searches, seed)]
        off = [root.mean - exact()[question.id,] for question, root in trees]
        return fmean(off), stdev(off) / math.sqrt(len(off))

    few, many, even = bias(2.0, 20), bias(2.0, 100), bias(None, 100)
    holds = few[0] > 3 * few[1] and many[0] > few[0] + 3 * many[1] and abs(even[0]) < 3 * even[1]
    means = {"20 searches, c = 2": few, "100, c = 2": many, "100, even visits": even}
    shown = {name: f"{mean:+.3f} (se {error:.3f})" for name, (mean, error) in means.items()}
    return Finding(holds, say(root_minus_2p_minus_1_over_24_trees_of_4_candidates=shown))


@functools.cache
def trained(seed: int) -> TalkBench:
    return pipeline(seed).run(25)


def unfinished(bench: TalkBench) -> dict[tuple[str, ...], Trajectory]:
    """An episode put aside after every beginning that is likely enough to come up."""
    kept: dict[tuple[str, ...], Trajectory] = {}
    for one in bench.play(60, seed=5):
        for length in range(1, min(3, len(one.turns) + 1)):
            name = (one.scenario.id, *(turn.text for turn in one.turns[:length]))
            kept.setdefault(name, Trajectory(one.scenario, one.turns[:length]))
    return kept


def ranks(values: Sequence[float]) -> list[float]:
    """Places in order, equal values sharing the mean of theirs."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]


@claim("a trained head ranks partial transcripts by their chance of success", slow=True)
def a_trained_head_ranks_partial_transcripts_by_their_chance_of() -> Finding:
    agreement, error, constant = [], [], []
    for bench in map(trained, SEEDS):
        known = unfinished(bench)
        values = run_async(HeadValue(bench.policies["policy"])(list(known.values())))
        wanted = [exact()[name] for name in known]
        agreement.append(correlation(ranks(values), ranks(wanted)))
        error.append(fmean(abs(a - b) for a, b in zip(values, wanted, strict=True)))
        constant.append(fmean(abs(one - fmean(wanted)) for one in wanted))
    holds = min(agreement) > 0.5 and max(error) < min(constant)
    return Finding(holds, say(rank_correlation=agreement, error=error, error_of_the_best_constant=constant))


def by_hand(fit: str, z: float, y: float) -> float:
    """The loss of one message."""
    off, p, q = abs(z - math.atanh(min(max(y, -0.95), 0.95))), (1 + y) / 2, 1 / (1 + math.exp(-2 * z))
    huber = off**2 / 0.2 if off < 0.1 else off - 0.05
    return {"squared": off**2, "huber": huber}.get(fit, -(p * math.log(q) + (1 - p) * math.log(1 - q)))


@claim("the loss is that of tanh(z) against each message's mean")
def the_loss_is_that_of_tanh_against_each_messages_mean() -> Finding:
    batch, _ = stepped(pipeline(2))
    assert batch.occurrences.target is not None
    used = batch.occurrences.weight != 0
    mine = batch.occurrences.decision[used]
    once = torch.bincount(batch.turn[mine], minlength=batch.turns)
    output = torch.linspace(-3, 3, batch.decisions, dtype=torch.float64)
    now = Evaluation(logp=torch.zeros(batch.decisions, dtype=torch.float64), value=output)
    z, y, gaps = output[mine].tolist(), batch.occurrences.target[used].tolist(), []
    for fit in ("squared", "huber", "cross-entropy"):
        loss = float(MASPRM.but({"objective.fit": fit}).loss(now, batch)[0].total())
        gaps.append(abs(loss - fmean(by_hand(fit, a, b) for a, b in zip(z, y, strict=True))))
    holds = max(gaps) < 1e-9 and int(once.min()) == int(once.max()) == 1 and max(map(abs, y)) <= 1
    return Finding(holds, say(messages_with_one_target_each=len(y), targets=y, losses_off_by=max(gaps)))


@claim("targets are mean outcomes through a message, gains what it changed; a message of several episodes counts once")
def targets_are_mean_outcomes_through_a_message_gains_what_it() -> Finding:
    def episode(name: str, reward: float, turn: Sequence[int], **more: Any) -> dict[str, Any]:
        z = [0.3 * n - 0.5 for n in range(len(turn))]
        return {"id": name, "group": "g", "scores": {"reward": reward}, "turn": turn, "value": z, **more}

    rows = [episode("a", 1.0, [0, 0, 1, 1]), episode("b", -2.0, [0, 0, 1], parent={"id": "a", "length": 2})]
    rows += [episode("c", 0.25, [0]), episode("d", 3.0, [0, 1])]
    rows = [row | {"logp": [-1.0] * len(row["turn"])} for row in rows]
    told = [row | {"info": {"message_values": [0.5, 0.25]}} if row["id"] == "a" else row for row in rows]
    places, off = [(0, 1), (0, 3), (1, 2), (2, 0), (3, 0), (3, 1)], 0.0
    # Outcomes 1, -1, -0.5 and 1: their mean is 0.125.
    cases = {"counted": (rows, [0.0, 1.0, -1.0, -0.5, 1.0, 1.0], [-0.125, 1.0, -1.0, -0.625, 0.875, 0.0])}
    cases["told"] = (told, [0.5, 0.25, 0.0, 0.0, 0.0, 0.0], [0.375, -0.25, 0.0, 0.0, 0.0, 0.0])
    for some, values, gains in cases.values():
        made, z = inspect_rows(MASPRM, some), [some[n]["value"][p] for n, p in places]
        error = [one - math.atanh(min(max(y, -0.95), 0.95)) for one, y in zip(z, values, strict=True)]
        off = max(off, gap([made["advantages"][n][p] for n, p in places], gains))
        off = max(off, gap([made["gradient_value"][n][p] for n, p in places], [one / 3 for one in error]))
        off = max(off, abs(made["loss"] - fmean(one**2 for one in error)), abs(sum(map(sum, made["weight"])) - 6))
        apart = fmean(abs(math.tanh(one) - y) for one, y in zip(z, values, strict=True))
        off = max(off, abs(made["metrics"]["value/error"] - apart))
    return below(EXACT, off_those_by_hand=off)


claim.constants(
    "as shipped 32 searches by UCT with c = 2 and 4 candidates per message; prompts and updates are GRPO's",
    MASPRM,
    {"rollout": MessageSearch, "rollout.searches": 32, "rollout.rule.c": 2.0, "rollout.rule.candidates": 4}
    | {"workflow": "pipeline", "curriculum": GRPO.curriculum, "update": GRPO.update},
)


def accuracies(seed: int) -> list[float]:
    """Of one straight pass, the best of 4, and beams that sample 12 and 10 messages, over 20 tries of each question."""
    bench, right = trained(seed), []
    value = HeadValue(bench.policies["policy"])
    for number, question in itertools.product(range(20), QUESTIONS):
        ask = asked(bench, number, question)
        searches = [best_of(*ask, value, samples=n) for n in (1, 4)]
        searches += [beam_search(*ask, value, width=w, candidates=n) for w, n in ((1, 4), (2, 2))]
        right.append([total(run_async(one).episode) for one in searches])
    return [fmean(column) for column in zip(*right, strict=True)]


@claim("a guided beam beats one pass, and the best of B at as many messages", slow=True)
def a_guided_beam_beats_one_pass_and_the_best_of_b_at_as_many() -> Finding:
    rows = [accuracies(seed) for seed in SEEDS]
    one, best, narrow, wide = (fmean(column) for column in zip(*rows, strict=True))
    ahead = min(row[2] - row[1] for row in rows)
    over = min(min(row[2], row[3]) - row[0] for row in rows)
    beams = {"4 candidates, 12 messages": narrow, "width 2, 2 candidates, 10 messages": wide}
    saw = say(one_pass=one, best_of_4_with_12_messages=best, guided_beam=beams, ahead_by_at_least=ahead, of_one=over)
    return Finding(over > 0.15 and ahead > 0 and wide > best, saw)


@claim("with the shipped model too what the value chooses, by a beam or of whole episodes, beats one pass", slow=True)
def with_the_shipped_model_too_what_the_value_chooses_by_a_beam_or() -> Finding:
    quick = {"update.epochs": 6, "update.lr": 1e-3, "rollout.searches": 16}
    with tempfile.TemporaryDirectory() as folder:
        team = begin("grpo", "sums", {"workflow": "pipeline"}).run(25)
        team.parts.lead.policy.save(Path(folder))
        valued = begin(MASPRM, "sums", {"model": folder, **quick}).run(20).parts
        rows = run_async(sought(valued, Beam(width=2, candidates=4), n=200, key=Key.of(0)))
    one, best, beam = (fmean(row.success) for row in rows)
    messages = {row.title: row.messages for row in rows}
    saw = say(one_pass=one, best_of_as_many=best, guided_beam=beam, messages=messages)
    return Finding(min(beam, best) > one + 0.1, saw)


claim.shipped(
    MASPRM,
    without={"rollout.searches": 1},
    sees=lambda run: {"messages": run.mean("rollout/messages"), "error of the value": run.mean("value/error")},
    settings={"curriculum.prompts": 2},
)
