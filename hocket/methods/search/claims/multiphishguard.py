"""MultiPhishGuard's claims, on mails whose best weighing is known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.casting import Leading
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.each_agent import EachAgent
from hocket.curriculum.random_order import Shuffled
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, cases, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.methods.base.ppo import PPO
from hocket.methods.search.multiphishguard.method import (
    EXPLANATION,
    MULTIPHISHGUARD,
    REPORTS,
    VARIANT,
    WEIGHTS,
    MailGuard,
    read_weights,
    voted,
)
from hocket.methods.search.multiphishguard.task import (
    KINDS,
    PARTS,
    PHISHING,
    SAFE,
    SIGNS,
    SURE,
    UNSURE,
    Inbox,
    Mails,
    Sign,
    report,
    rewriting,
    weighing,
)
from hocket.rollout.independent import Independent
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario

claim = Claims("multiphishguard", "the abstract; the vote from public work that rebuilds it, the mails are our own")
TASK, INBOX = Mails(), Inbox()


# ---------------------------------------------------------------- the vote


@claim("As shipped 128 mails are each weighed once, who weighs alone learns; a mail without parts is refused.")
def as_shipped_128_mails_are_each_weighed_once_who_weighs_alone() -> Finding:
    one = MULTIPHISHGUARD
    ships = one.workflow == MailGuard.name and one.cast == Leading(leader="weigher")
    ships &= one.curriculum == Shuffled(prompts=128) and one.rollout == Independent(samples=1)

    def refused(parts: Any) -> bool:
        try:
            rehearse(MailGuard(), Scenario("m", "?", SAFE, {"parts": parts}), Part(otherwise="safe 9"))
        except ConfigurationError as error:
            return "reads a mail's parts, and scenario m has none" in str(error)
        return False

    found = cases((None, {}, ["text"]), refused)
    return Finding(ships and found.holds, f"as stated {ships}, {found.saw} refused")


@claim("The vote is phishing where the weighted mean of the probabilities is above one half, by rational numbers.")
def the_vote_is_phishing_where_the_weighted_mean_of_the() -> Finding:
    from fractions import Fraction

    wrong = ties = 0
    rng = Key.of(0).derive("votes").numpy()
    for _ in range(3000):
        signs: list[Sign | None] = [((PHISHING, SAFE)[int(a)], int(b)) for a, b in rng.integers((2, 11), size=(3, 2))]
        if rng.random() < 0.3:
            signs[int(rng.integers(3))] = None
        weights = [int(one) for one in rng.integers(0, 4, 3)]
        chances = [
            Fraction(1, 2) if one is None else Fraction(one[1] if one[0] == PHISHING else 10 - one[1], 10)
            for one in signs
        ]
        heard = sum(weights) or 1
        mean = sum((Fraction(w, heard) * p for w, p in zip(weights, chances, strict=True)), Fraction(0))
        above = mean > Fraction(1, 2) if any(weights) else False
        ties += mean == Fraction(1, 2)
        wrong += (voted(signs, weights) == PHISHING) != above
    return Finding(wrong == 0 and ties > 50, say(wrong=wrong, ties=ties))


@claim("Log-odds over how sure a reader was are weights by which the vote is Bayes' rule, mail by mail.", "derived")
def log_odds_over_how_sure_a_reader_was_are_weights_by_which_the() -> Finding:
    looked: dict[Any, dict[str, float]] = {}
    for chance, kind, what, signs in INBOX.mails():
        looked.setdefault((kind, signs), {})[what] = chance

    def right(look: tuple[str, Sequence[Sign]], chances: dict[str, float]) -> bool:
        """Weights in millionths vote for what is likelier."""
        kind, signs = look
        odds = [INBOX.log_odds(kind, part, sure) / (sure - 5) for part, (_, sure) in zip(PARTS, signs, strict=True)]
        likelier = max((PHISHING, SAFE), key=lambda what: chances[what])
        tie = abs(chances[PHISHING] - chances[SAFE]) < EXACT
        return voted(signs, [round(1e6 * one) for one in odds]) == likelier and not tie

    found, counted = cases(looked.items(), right), sum(max(one.values()) for one in looked.values())
    return Finding(found.holds and abs(counted - INBOX.best) < EXACT, f"{found.saw}, {say(best=counted)}")


def alike(kind: str, signs: Sequence[Sign]) -> str:
    """The vote without weights."""
    return voted(signs, (1,) * len(signs))


# ---------------------------------------------------------------- one episode


def mail(what: str = PHISHING) -> Scenario:
    return Scenario("m", "A mail.", what, metadata={"kind": "bank", "parts": dict(LOOKS)})


LOOKS = {"text": "please confirm", "link": "x7q.ru/win", "sender": "ann@firm.com"}


def played(guard: MailGuard, scenario: Scenario, **script: Any) -> Any:
    (one,) = rehearse(
        guard, scenario, {name: [said] if isinstance(said, str) else said for name, said in script.items()}
    )
    assert one.failure is None, one.failure
    return one


SAID = {"text": "Phishing 6.", "link": "It is phishing, 9 of 10", "sender": "safe 9"}


@claim("Readers see their part alone, the weigher the kind and the reports, the adversary the whole mail.")
def readers_see_their_part_alone_the_weigher_the_kind_and_the() -> Finding:
    parts = {name: Part(said) for name, said in SAID.items()}
    weigher, adversary = Part("1 0 2"), Part("Sender: no\nsender: kim@firm.com \nlink: intra/menu")
    one = played(MailGuard(attacked=1.0), mail(), **parts, weigher=weigher, adversary=adversary)
    for name, words in {**LOOKS, "sender": "kim@firm.com"}.items():
        parts[name].assert_shown(0, ("user", f"{name}: {words}\nPhishing or safe, and how sure of ten?"))
    weigher.assert_shown(
        0, ("user", "A bank mail: text phishing 6, link phishing 9, sender safe 9.\nHow much does each count, 0 to 9?")
    )
    adversary.assert_shown(0, ("user", rewriting("bank", LOOKS)))
    reports = {"text": (PHISHING, 6), "link": (PHISHING, 9), "sender": (SAFE, 9)}
    noted = REPORTS.get(one) == reports and VARIANT.get(one) == ("sender", "kim@firm.com")
    shares = gap([WEIGHTS.get(one)[part] for part in PARTS], [1 / 3, 0.0, 2 / 3])
    return below(
        EXACT, noted, EXPLANATION.get(one) is None, one.info["answer"] == f"<answer>{SAFE}</answer>", shares=shares
    )


@claim("So many phishing mails as are said are rewritten and no safe one, the same in all samples; they stay phishing.")
def so_many_phishing_mails_as_are_said_are_rewritten_and_no_safe() -> Finding:
    script = {
        **dict.fromkeys(PARTS, lambda _: "safe 9"),
        "weigher": lambda _: "1 1 1",
        "adversary": lambda _: "link: y",
    }
    mails = [Scenario(str(n), "A mail.", (PHISHING, SAFE)[n % 2], metadata=mail().metadata) for n in range(200)]
    episodes = [rehearse(MailGuard(attacked=0.3), one, script, samples=2) for one in mails]
    split = sum((VARIANT.get(a) is None) != (VARIANT.get(b) is None) for a, b in episodes)
    hit = [[float(VARIANT.get(a) is not None) for a, _ in episodes[start::2]] for start in (0, 1)]
    kept = all(one.scenario.answer == mails[n].answer for n, pair in enumerate(episodes) for one in pair)
    holds = split == 0 and abs(fmean(hit[0]) - 0.3) < 0.12 and sum(hit[1]) == 0
    return Finding(holds and kept, say(rewritten=fmean(hit[0]), safe_ones=fmean(hit[1]), samples_apart=split))


@claim(
    "The weigher's advantages are PPO's on its own decisions alone: the verdict less its value, one after the other."
)
def the_weighers_advantages_are_ppos_on_its_own_decisions_alone_the() -> Finding:
    rng, worst = Key.of(2).derive("credit").numpy(), 0.0
    for _ in range(10):
        rows, own = [], []
        for number in range(5):
            reward = float(rng.integers(0, 2))
            value = rng.random(4).tolist()
            turns = [{"tokens": [1], "agent": "link"}, {"tokens": [1, 2, 3], "agent": "weigher"}]
            rows.append(episode(f"g{number}", reward, turns, value=value))
            own.append(episode(f"g{number}", reward, turns[1:], value=value[1:]))
        ours = [row[1:] for row in inspect_rows(MULTIPHISHGUARD, rows)["advantages"]]
        worst = max(worst, gap(ours, inspect_rows(PPO, own)["advantages"]))
    return below(EXACT, isinstance(MULTIPHISHGUARD.credit, EachAgent), largest_difference=worst)


# ---------------------------------------------------------------- what is learnt

DIGITS = ("0", "2", "9")
ATTACK = "link: intra/menu"
WORDS = (*(report((what, sure)) for what in (PHISHING, SAFE) for sure in (SURE, UNSURE)), *DIGITS, ATTACK)
OFF = 40.0


def scripted(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Readers go by the signs of their part, the adversary attacks the link, the weigher says digits as they come."""
    told = str(messages[-1]["content"])
    none = dict.fromkeys(WORDS, -OFF)
    if "How much" in told:
        return {**none, "": -OFF, **dict.fromkeys(DIGITS, 0.0)}
    if said:
        return {**none, "": OFF}
    words = ATTACK if "Rewrite" in told else report(SIGNS[told.split("\n")[0].split(": ")[1]])
    return {**none, "": -OFF, words: OFF}


def bench(seed: int) -> TalkBench:
    """A table that weighs."""
    recipe = MULTIPHISHGUARD.but({"update.epochs": 2, "update.minibatches": 2})
    mails = [TASK.scenario("train", number) for number in range(8000)]
    return TalkBench(
        MailGuard(attacked=1.0), mails, WORDS, recipe, length=3, ends=True, view=lambda told: told[-1]["content"],
        prior=scripted, rewards=TASK.rewards, verifier=TASK.verify, prompts=512, seed=seed, lr=0.06,
    )  # fmt: skip


NONE = 1e-9
"""A share of mails so small that none is rewritten, where somebody may be asked to."""


def run(one: TalkBench, attacked: float, steps: int) -> None:
    """Trains it where so many phishing mails are rewritten."""
    one.parts.player = replace(one.player, workflow=MailGuard(attacked=attacked))
    one.run(steps)


@cache
def looks() -> list[tuple[str, tuple[Sign, ...]]]:
    """Every kind of mail with all signs that its parts may show."""
    signs = itertools.product((PHISHING, SAFE), (SURE, UNSURE))
    return list(itertools.product(KINDS, itertools.product(signs, repeat=len(PARTS))))


def weighed(one: TalkBench) -> dict[Any, tuple[int, ...]]:
    """The likeliest weights, by kind and signs."""
    return {look: _weights(one, *look) for look in looks()}


def _weights(one: TalkBench, kind: str, signs: Sequence[Sign]) -> tuple[int, ...]:
    said: list[str] = []
    told = weighing(kind, dict(zip(PARTS, signs, strict=True)))
    for _ in PARTS:
        chances = one.policies["weigher"].probabilities(told, said=said)
        said.append(WORDS[int(chances[: len(WORDS)].argmax())])
    return read_weights(" ".join(said), len(PARTS))


def measured(one: TalkBench, attacked: str | None = None) -> tuple[float, float]:
    """How often the likeliest weights are right, exactly, and how much the link counts on the whole."""
    table = weighed(one)
    accuracy = INBOX.accuracy(lambda kind, signs: voted(signs, table[kind, tuple(signs)]), attacked)
    share = 0.0
    for chance, kind, _, signs in INBOX.mails(attacked):
        weights = table[kind, signs]
        share += chance * weights[PARTS.index("link")] / max(sum(weights), 1)
    return accuracy, share


@cache
def trained(seed: int) -> tuple[TalkBench, float]:
    """After training, and the accuracy then."""
    one = bench(seed)
    run(one, NONE, 30)
    return one, measured(one)[0]


@claim("Learnt weights come within a point of the best weighing's accuracy, and beat equal weights.", slow=True)
def learnt_weights_come_within_a_point_of_the_best_weighings() -> Finding:
    found = [trained(seed)[1] for seed in (0, 1)]
    equal = INBOX.accuracy(alike)
    holds = min(found) > INBOX.best - 0.01 and min(found) > equal + 0.1
    return Finding(holds, say(learnt=found, best=INBOX.best, equal=equal))


@claim(
    "An adversary who rewrites the links of all phishing mails costs the team much; trained against it the link counts "
    "less, and most of what was lost comes back.",
    slow=True,
)
def an_adversary_who_rewrites_the_links_of_all_phishing_mails_costs() -> Finding:
    one, _ = trained(0)
    (hit, held), best = measured(one, "link"), best_attacked("link")
    run(one, 1.0, 30)
    after, left = measured(one, "link")
    holds = hit < best - 0.1 and after > hit + 0.6 * (best - hit) and left < 0.8 * held
    return Finding(holds, say(attacked=hit, retrained=after, best=best, share_of_link=held, share_after=left))


def best_attacked(part: str) -> float:
    """The best that a vote can do there, whatever the weights: the likelier of what it may be, if anybody says so."""
    rows: dict[Any, dict[str, float]] = {}
    for chance, kind, what, signs in INBOX.mails(part):
        rows.setdefault((kind, signs), {}).setdefault(what, 0.0)
        rows[kind, signs][what] += chance
    return sum(
        max(chances.get(what, 0.0) for what in {looks for looks, _ in signs}) for (_, signs), chances in rows.items()
    )


def seen(run: ShippedRun) -> dict[str, float]:
    """Accuracy, how uneven the weights are, and mails that were rewritten."""
    episodes = [one for row in run.results for one in row.trajectories]
    uneven = fmean(max(WEIGHTS.get(one).values()) - 1 / len(PARTS) for one in episodes)
    variants = fmean(float(VARIANT.get(one) is not None) for one in episodes)
    return {"reward": run.mean("reward/mean"), "weights uneven by": uneven, "rewritten": variants}


claim.shipped(
    MULTIPHISHGUARD,
    without={"workflow": "mail-guard?attacked=0"},
    trains=("weigher",),
    first={"recipe": "sft", "steps": 100, "update.lr": 0.003, "task": "lessons:mails"},
    sees=seen,
)
