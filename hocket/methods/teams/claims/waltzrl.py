"""What waltzrl claims."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.answering_teams import SEEDS
from hocket.methods.teams.waltzrl import WALTZRL, ConversationFeedback
from hocket.types import Message, Scenario

claim = Claims("waltzrl", "section 3")


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


@claim(
    "joint training lowers unsafe answers and needless refusals at once, and feedback on plain requests",
    "section 4",
    slow=True,
)
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


@claim("improvement rewards telescope, and advice on good answers never earns any")
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
