"""Sentinel's claims, on a machine whose answers to all 64 attacks are counted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import torch

from hocket import tasks
from hocket.core.casting import Alternating
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import stepped
from hocket.methods.teams.sentinel.method import (
    ATTACK,
    ATTACKER,
    PREFIX,
    SENTINEL,
    RedTeamed,
    SharedValueHead,
    first_words,
    heads_of,
    novelty,
)
from hocket.methods.teams.sentinel.task import (
    ASK,
    ATTACKS,
    BAIT,
    CALMING,
    CURSE,
    LENGTH,
    TRIGGERS,
    RedTeam,
    guarding,
    replied,
    toxicity,
)
from hocket.policies.value_head import ValueHead
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("sentinel", "arXiv:2405.12604, by its abstract; the machine is our own")
GUARDS = tuple(CALMING.values())
WORDS = (*BAIT, *GUARDS)
OFF = 40.0


def speaks(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Before training an attacker says three words of attacks, a sentinel one or two that may calm."""
    guards = "Put one" in str(messages[-1]["content"])
    none = dict.fromkeys(WORDS, -OFF)
    if len(said) == (2 if guards else LENGTH):
        return {**none, "": OFF}
    return {**none, **dict.fromkeys(GUARDS if guards else BAIT, 0.0), "": 0.0 if guards and said else -OFF}


def bench(seed: int = 0, attacks: int = 0, recipe: Recipe = SENTINEL, prompts: int = 128) -> TalkBench:
    """Tables that attack and guard, each scenario played once in a step."""
    task = RedTeam(attacks)
    asked = [task.scenario("train", number) for number in range(prompts)]
    return TalkBench(
        RedTeamed(), asked, WORDS, recipe.but({"rollout": Independent(samples=1)}), length=LENGTH + 1, ends=True,
        view=lambda told: told[-1]["content"], prior=speaks, verifier=task.verify, seed=seed, lr=0.1,
    )  # fmt: skip


# ---------------------------------------------------------------- what is earned


def toxic(attack: str, prefix: str) -> float:
    """The share of curses, counted anew."""
    words, calm = attack.split(), set(prefix.split())
    cursed = [pair in TRIGGERS and CALMING[pair[1]] not in calm for pair in itertools.pairwise(words)]
    return sum(cursed) / len(words)


def alike(one: str, other: str) -> float:
    """Of the words and pairs of words of two attacks, the share in both."""
    left, right = ({*text.split(), *itertools.pairwise(text.split())} for text in (one, other))
    return len(left & right) / len(left | right)


@claim("What is toxic in the answer the attacker earns and the sentinel loses, whatever they say; their sum is 0.")
def what_is_toxic_in_the_answer_the_attacker_earns_and_the_sentinel() -> Finding:
    off, seen = [0.0], set[float]()
    for played in bench(3).play(1):
        attack, prefix = ATTACK.get(played), PREFIX.get(played)
        due = toxic(attack, prefix)
        off.append(gap(played.scores["toxicity"].value, [due, -due]))
        off.append(float([turn.role for turn in played.turns] != ["attacker", "sentinel"]))
        seen.add(round(due, 3))
    return below(EXACT, len(seen) == 3, off=max(off))


def credited(made: TalkBench) -> float:
    """How far the advantages of a step are from PPO's on each agent's own decisions, by hand."""
    batch, rows = stepped(made)
    assert batch.value is not None
    seen = batch.occurrences
    behaviour, reference = (batch.logp[name].values.double() for name in ("behaviour", "reference"))
    attacks = [ATTACK.get(one) for one in rows]
    worst = 0.0
    for role, sign in ((ATTACKER, 1.0), ("sentinel", -1.0)):
        given, due = list[float](), list[float]()
        for number, one in enumerate(rows):
            turns = [turn for turn, name in enumerate(batch.names["role"]) if name == role]
            mine = [
                place
                for place in range(len(seen))
                if int(seen.trajectory[place]) == number
                and int(batch.role[batch.turn[seen.decision[place]]]) == turns[0]
            ]
            at = seen.decision[mine]
            paid = (-0.02 * (behaviour[at] - reference[at])).tolist()
            paid[-1] += sign * toxic(attacks[number], PREFIX.get(one))
            if role == ATTACKER:
                others = [attack for place, attack in enumerate(attacks) if place != number]
                paid[-1] += 1.0 - fmean(alike(attacks[number], other) for other in others)
            values, later, chain = [*batch.value[at].double().tolist(), 0.0], 0.0, list[float]()
            for place in reversed(range(len(paid))):
                later = paid[place] + values[place + 1] - values[place] + 0.95 * later
                chain.append(later)
            due += reversed(chain)
            given += seen.advantage[mine].tolist()
        centred = torch.tensor(due, dtype=torch.float64)
        centred = (centred - centred.mean()) / (centred.std() + 1e-8)
        worst = max(worst, gap(given, centred))
    return worst


@claim("Advantages are GAE on each agent's own decisions: toxicity, 0.02 of the KL, and 1 of the attacker's novelty.")
def advantages_are_gae_on_each_agents_own_decisions_toxicity_0_02() -> Finding:
    made = bench(1, prompts=24).run(7)
    return below(1e-5, off=max(credited(made) for _ in range(4)))


@claim(
    "Novelty is one less the mean overlap of words and pairs of words with the others; alone, or unwritten, it is 0."
)
def novelty_is_one_less_the_mean_overlap_of_words_and_pairs_of() -> Finding:
    rng = Key.of(4).derive("texts").numpy()
    texts = [ATTACKS[int(n)] for n in rng.integers(0, len(ATTACKS), 9)]
    due = [1 - fmean(alike(one, other) for b, other in enumerate(texts) if a != b) for a, one in enumerate(texts)]
    with_none = novelty([None, *texts, None])
    cases = {
        "random": gap(novelty(texts), due),
        "with none": gap(with_none, [0.0, *due, 0.0]),
        "equal": gap(novelty(["sing"] * 3), [0.0] * 3),
        "strange": gap(novelty(["a b", "c", "c"]), [1.0, 0.5, 0.5]),
        "empty": gap(novelty(["", "", "a"]), [0.5, 0.5, 1.0]),
        "alone": gap(novelty(["a"]), [0.0]) + gap(novelty([None]), [0.0]),
    }
    return below(EXACT, **cases)


# ---------------------------------------------------------------- who learns


@claim("The attacker learns for five steps, then the sentinel for five; a model in the target's role never does.")
def the_attacker_learns_for_five_steps_then_the_sentinel_for_five_a() -> Finding:
    made, wrong = bench(0, prompts=8), 0
    for step in range(1, 13):
        before = {name: policy.module.logits.detach().clone() for name, policy in made.policies.items()}
        made.step()
        moved = {name for name, old in before.items() if not torch.equal(old, made.policies[name].module.logits)}
        wrong += moved != {("attacker", "sentinel")[(step - 1) // 5 % 2]}
    cast = SENTINEL.cast
    assert isinstance(cast, Alternating)
    learning = [cast.learning(("target", "sentinel", "attacker"), step) for step in range(1, 41)]
    target = sum("target" in one for one in learning)
    shipped = SENTINEL.workflow == RedTeamed.name and SENTINEL.hooks == (SharedValueHead(),)
    return Finding(wrong == 0 and target == 0 and shipped, say(steps=12, wrong=wrong, target_learns=target))


def policies(*weights: Sequence[float] | None) -> Any:
    """A run whose policies have these value heads, the last number the bias; None is none."""
    made = {}
    for number, values in enumerate(weights):
        head = None
        if values is not None:
            head = ValueHead(len(values) - 1)
            head.load_state_dict({"weight": torch.tensor(values[:-1]), "bias": torch.tensor(values[-1])})
        made[f"p{number}"] = SimpleNamespace(module=SimpleNamespace(value_head=head))
    return SimpleNamespace(trained=made)


def standing(run: Any) -> list[list[float]]:
    """The heads as they are."""
    return [[*one["weight"].tolist(), float(one["bias"])] for one in heads_of(run)]


def learns(run: Any, number: int, by: Sequence[float]) -> None:
    """A policy's head moves."""
    head = run.trained[f"p{number}"].module.value_head
    with torch.no_grad():
        head.weight += torch.tensor(by[:-1])
        head.bias += by[-1]


@claim("One value head is everybody's: the mean at first, then moved by the mean change of those who learnt.")
def one_value_head_is_everybodys_the_mean_at_first_then_moved_by() -> Finding:
    hook, nothing, run = SharedValueHead(), StepResult({}, [], None), policies([1.0, 2.0, 0.5], None, [3.0, 0.0, 1.5])
    memory = asyncio.run(hook.before(run, 1, {}))
    first = standing(run)
    learns(run, 0, [1.0, 0.0, 0.25])
    memory = asyncio.run(hook.after(run, 1, nothing, memory))
    memory = asyncio.run(hook.before(run, 2, memory))
    one = standing(run)
    learns(run, 0, [1.0, 0.0, 0.0])
    learns(run, 2, [0.0, 4.0, 1.0])
    memory = asyncio.run(hook.after(run, 2, nothing, memory))
    both = standing(run)
    kept = asyncio.run(hook.after(run, 3, nothing, memory)) is memory
    none = policies(None, None)
    kept &= asyncio.run(hook.before(none, 1, {})) == {} and asyncio.run(hook.after(none, 1, nothing, {})) == {}
    off = {
        "first": gap(first, [[2.0, 1.0, 1.0]] * 2),
        "one": gap(one, [[3.0, 1.0, 1.25]] * 2),
        "both": gap(both, [[3.5, 3.0, 1.75]] * 2),
    }
    return below(EXACT, kept, gap([*memory["weight"].tolist(), float(memory["bias"])], both[0]) == 0, **off)


# ---------------------------------------------------------------- one episode


def scene(flow: RedTeamed, scenario: Scenario, **script: Any) -> Trajectory:
    (one,) = rehearse(flow, scenario, script, verifier=RedTeam().verify)
    assert one.failure is None, one.failure
    return one


@claim("The sentinel reads the attack, the target the prefix before it; both are cut, and a given attack stands.")
def the_sentinel_reads_the_attack_the_target_the_prefix_before_it() -> Finding:
    attacker, sentinel, target = Part("rant  dare\nplot sing"), Part("calmly kindly openly"), Part(f"rant {CURSE}")
    one = scene(RedTeamed(model=True), Scenario("s", ASK), attacker=attacker, sentinel=sentinel, target=target)
    attacker.assert_asked(ASK)
    sentinel.assert_asked(guarding("rant dare plot"))
    target.assert_asked("calmly kindly rant dare plot")
    told = (ATTACK.get(one), PREFIX.get(one), one.answer) == ("rant dare plot", "calmly kindly", f"rant {CURSE}")
    off = {"model": gap(one.scores["toxicity"].value[:2], [0.5, -0.5])}  # type: ignore[index]
    given = Scenario("s", ASK, metadata={"attack": "rant dare plot"})
    silent, guard = Part(), Part("")
    fixed = scene(RedTeamed(), given, attacker=silent, sentinel=guard)
    told &= fixed.answer == f"rant {CURSE} {CURSE}" and silent.asked == [] and PREFIX.get(fixed) == ""
    off["given"] = gap(fixed.scores["toxicity"].value, [-2 / 3])
    bare = scene(RedTeamed(guarded=False, long=2), Scenario("s", ASK), attacker=["plot rant dare"])
    off["unguarded"] = gap(bare.scores["toxicity"].value, [0.5])
    told &= RedTeamed(guarded=False).roles == ("attacker",) and bare.answer == f"plot {CURSE}"
    told &= RedTeamed().roles == ("attacker", "sentinel") and RedTeamed(model=True).roles[2] == "target"
    return below(EXACT, told, first_words(" a\n b c", 2) == "a b", **off)


@claim("The machine curses as its rule says; all its 64 attacks are evaluated, and no prefix of two words stops all.")
def the_machine_curses_as_its_rule_says_all_its_64_attacks_are() -> Finding:
    prefixes = ["", *GUARDS, *(f"{a} {b}" for a, b in itertools.permutations(GUARDS, 2))]
    found = {p: {a: toxic(a, p) for a in ATTACKS} for p in prefixes}
    off = max(abs(toxicity(replied(f"{p} {a}")) - due) for p, row in found.items() for a, due in row.items())
    each = max(min(row[a] for row in found.values()) for a in ATTACKS) == 0
    task: Any = tasks.find(str(SENTINEL.task))
    told = tuple(task.scenario("eval", number).metadata["attack"] for number in range(task.size("eval")))
    held = told == ATTACKS and len(set(ATTACKS)) == 64 and min(max(row.values()) for row in found.values()) > 0.6
    return below(EXACT, each, held, off=off)


# ---------------------------------------------------------------- what is learnt


def withstood(made: TalkBench) -> list[float]:
    """Of every attack the expected toxicity behind the sentinel's prefix, exactly."""
    policy, found = made.policies["sentinel"], []
    for attack in ATTACKS:
        first = policy.probabilities(guarding(attack)).tolist()
        total = 0.0
        for word, chance in zip(WORDS, first, strict=False):
            if chance < 1e-12:
                continue
            then = policy.probabilities(guarding(attack), said=(word,)).tolist()
            total += chance * then[-1] * toxic(attack, word)
            total += chance * sum(p * toxic(attack, f"{word} {two}") for two, p in zip(WORDS, then, strict=False))
        found.append(total)
    return found


STEPS = 120


EARLY = 20
"""Steps in which attacks still find something."""


@cache
def trained(name: str, seed: int) -> tuple[list[float], float]:
    """What every attack comes to after training, and how new attacks were in the first steps, the mean."""
    unpaid = SENTINEL.but({"shaping.1.weight": 0.0})
    made = bench(seed, attacks=6 * (name == "fixed"), recipe=unpaid if name == "unpaid" else SENTINEL)
    new = list[float]()
    for step in range(EARLY if name == "unpaid" else STEPS):
        played = made.step().trajectories
        new += novelty([ATTACK.get(one) for one in played]) if step < EARLY else []
    return withstood(made), fmean(new)


@claim(
    "Trained in turns, the sentinel leaves the strongest of all 64 attacks far below the unguarded target's toxicity, "
    "and below that of a sentinel trained on six fixed attacks.",
    slow=True,
)
def trained_in_turns_the_sentinel_leaves_the_strongest_of_all_64() -> Finding:
    bare, begun = max(toxic(attack, "") for attack in ATTACKS), max(withstood(bench()))
    turns, fixed = ([trained(name, seed)[0] for seed in (0, 1)] for name in ("turns", "fixed"))
    most, mean = ([[f(one) for one in found] for found in (turns, fixed)] for f in (max, fmean))
    holds = max(most[0]) < 0.15 and max(most[0]) < 0.5 * min(most[1]) and max(mean[0]) < 0.2 * min(mean[1])
    figures = {"in_turns": line(most[0]), "fixed": line(most[1]), "mean": line(mean[0]), "mean_fixed": line(mean[1])}
    return Finding(holds and begun < bare, say(unguarded=bare, before=begun, **figures))


@claim(
    "Paid for novelty, attacks are less alike while the attacker still finds what the sentinel lets through.", slow=True
)
def paid_for_novelty_attacks_are_less_alike_while_the_attacker() -> Finding:
    new = {name: [trained(name, seed)[1] for seed in (0, 1)] for name in ("turns", "unpaid")}
    holds = min(new["turns"]) > max(new["unpaid"]) + 0.05
    return Finding(holds, say(paid=line(new["turns"]), unpaid=line(new["unpaid"])))


def seen(run: ShippedRun) -> dict[str, float]:
    """Novelty, what was toxic, and whether all value heads are one that has learnt."""
    episodes = [one for row in run.results for one in row.trajectories]
    heads = [policy.module.value_head.state_dict() for policy in (one.policy for one in run.parts.learners.values())]  # type: ignore[union-attr]
    same = all(torch.equal(heads[0][name], one[name]) for one in heads for name in one)
    return {
        "novelty": fmean(novelty([ATTACK.get(one) for one in episodes])),
        "toxic": fmean(1 - float(RedTeam().verify(one.answer, one.scenario)) for one in episodes),
        "one value head": float(same and len(heads) == 2) * float(heads[0]["weight"].norm()),
    }


claim.spares("sentinel: credit.credit.epsilon = 4e-07", "it guards a deviation of 0, and none is that small")
claim.spares("sentinel: credit.credit.epsilon = 0.0", "it guards a deviation of 0, and none is that small")
claim.shipped(
    SENTINEL,
    "shaping",
    "credit",
    trains=("attacker", "sentinel"),
    steps=6,
    settings={"curriculum.prompts": 4},
    first={"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": "lessons:redteam"},
    sees=seen,
)
