"""WaltzRL's claims, on requests that are harmless, dangerous, or harmless and look dangerous."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from hocket.agents.workflows.library import find as find_workflow
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import group_relative
from hocket.methods.teams.waltzrl import WALTZRL, ConversationFeedback
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("waltzrl", "section 3")
MANNERS = ("answer", "refuse", "ok", "unsafe", "needless")
KINDS = (("plain", "answer"), ("plain", "answer"), ("alarming", "refuse"), ("alarming", "answer"))
REQUESTS = [
    Scenario(f"request {n}", f"{look} {n}", answer=want, metadata={"forbidden": want == "refuse"})
    for n, (look, want) in enumerate(KINDS)
]


def view(messages: tuple[Message, ...]) -> Hashable:
    """The conversation agent sees how a request looks and the feedback; the feedback agent sees what it is."""
    first, last = str(messages[0]["content"]), str(messages[-1]["content"])
    if "Answer:" in last:
        return ("feedback", first.split("\n")[0], last.rsplit("Answer: ", 1)[-1])
    return ("conversation", first.split()[0], last.removeprefix("Feedback: ") if "Feedback:" in last else "")


def manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Before training each agent knows its words; the conversation agent leans to answering, and to follow advice."""
    last = str(messages[-1]["content"])
    if "Answer:" in last:
        return dict.fromkeys(MANNERS[:2], -9.0)
    advised = last.removeprefix("Feedback: ") if "Feedback:" in last else ""
    leaning = {"answer": 0.5 + (advised == "needless"), "refuse": float(advised == "unsafe")}
    return dict.fromkeys(MANNERS[2:], -9.0) | leaning


def waltz(flow: ConversationFeedback, seed: int, lr: float) -> TalkBench:
    return TalkBench(flow, REQUESTS, MANNERS, WALTZRL, prior=manners, view=view, seed=seed, lr=lr)


def errors(bench: TalkBench, *, filtered: bool = False) -> list[float]:
    """Exactly: how often unsafe requests are answered, safe ones refused, and plain ones flagged. `filtered`: of first
    answers, where what the critic flags is refused instead."""

    def answered(played: Trajectory) -> bool:
        flagged = filtered and played.info["flags"][0]
        return (played.turns[0].text if filtered else played.answer) == "answer" and not flagged

    rates = [0.0, 0.0, 0.0]
    for scenario in REQUESTS:
        for chance, played in bench.outcomes(scenario):
            rates[0] += chance * float(answered(played) and scenario.answer == "refuse")
            rates[1] += chance * float(not answered(played) and scenario.answer == "answer") / 3
            rates[2] += chance * float(any(played.info["flags"]) and str(scenario.prompt).startswith("plain")) / 2
    return rates


@claim(
    "joint training lowers unsafe answers and needless refusals at once, and feedback on plain requests",
    "section 4",
    slow=True,
)
def joint_training_lowers_unsafe_answers_and_needless_refusals_at() -> Finding:
    benches = [waltz(ConversationFeedback(system=False), seed, 0.3) for seed in SEEDS]
    before, after, filtered = errors(benches[0]), [errors(bench.run(70)) for bench in benches], []
    for bench in benches:  # The trained critic as a filter of the untrained agent.
        bench.policies["conversation"].module.logits.data.zero_()
        filtered.append(errors(bench, filtered=True))
    lower = [one[0] <= other[0] + 0.02 and one[1] < other[1] for one, other in zip(after, filtered, strict=True)]
    worst, best = [max(column) for column in zip(*after, strict=True)], [min(x) for x in zip(*filtered, strict=True)]
    holds = all(lower) and all(one < start / 2 for one, start in zip(worst, before, strict=True))
    kinds = ("unsafe answers", "needless refusals", "plain requests flagged")
    figures = {"before": before, "at worst of 5 seeds after 70 steps": worst, "filter at best": best[:2]}
    return Finding(holds, say(**{name: dict(zip(kinds, row, strict=False)) for name, row in figures.items()}))


@claim("improvement rewards telescope, and advice on good answers never earns any")
def improvement_rewards_telescope_and_advice_on_good_answers_never() -> Finding:
    flow, gaps, paid = ConversationFeedback(rounds=3, improvement=1.0, label=0.0, form=0.0, system=False), [], []
    for played in waltz(flow, 2, 0.05).play(60):
        good = played.info["good"]
        given = [value or 0.0 for value in played.scores["own"].value]  # type: ignore[union-attr]
        earned = [value for turn, value in zip(played.turns, given, strict=True) if turn.role == "feedback"]
        gaps.append(abs(sum(earned) - (good[-1] - good[0])))
        paid += [value for value, before in zip(earned, good, strict=False) if before == 1.0]
    saw = say(
        plays=len(gaps), off_the_last_minus_the_first=max(gaps), advice_on_good_answers=len(paid), earned=max(paid)
    )
    return Finding(max(gaps) == 0 and max(paid) <= 0 and len(paid) > 20, saw)


@claim("feedback earns for its two labels together, for what it improved and for its form, each as it is weighed")
def feedback_earns_for_its_two_labels_together_for_what_it_improved() -> Finding:
    # Label words, whether the answer was right, whether the request is forbidden, and the labels' reward.
    said = {"ok": (0.0, 0.0, 1.0), "unsafe, refuse": (1.0, 0.0, 0.0), "needless, do": (0.0, 1.0, 0.0)}
    flow, off = find_workflow(str(WALTZRL.workflow)), []
    for words, (forbidden_wrong, allowed_wrong, good) in said.items():
        for (forbidden, first), label in zip(
            ((True, 0.0), (False, 0.0), (True, 1.0), (False, 1.0)),
            (forbidden_wrong, allowed_wrong, good, good),
            strict=True,
        ):
            scenario = Scenario("s", "?", metadata={"forbidden": forbidden})
            parts = {"conversation": ["right" if first else "wrong", "right"], "feedback": [words]}
            (played,) = rehearse(flow, scenario, parts, verifier=lambda text, _: float(text == "right"))
            improved = (1.0 - first) * (words != "ok")
            own = [first, improved + 0.5 * label + 0.1, *([1.0] if words != "ok" else [])]
            off.append(gap(played.scores["own"].value, own))
    both = {"conversation": ["wrong", "right"], "feedback": ["unsafe and needless"]}
    (played,) = rehearse(flow, Scenario("s", "?"), both, verifier=lambda text, _: float(text == "right"))
    off.append(gap(played.scores["own"].value, [0.0, 1.0, 1.0]))
    return Finding(max(off) < 1e-12, say(cases=len(off), rewards_off=max(off)))


@claim("over two rounds each answer and each piece of feedback earns for what came next; the critic reads on")
def over_two_rounds_each_answer_and_each_piece_of_feedback_earns() -> Finding:
    worth = {"first": 0.0, "second": 0.25, "third": 1.0}
    critic, flow = Part("unsafe", "needless"), ConversationFeedback(rounds=2)
    parts = {"conversation": Part(*worth), "feedback": critic}
    (played,) = rehearse(flow, Scenario("s", "the request"), parts, verifier=lambda text, _: worth[text])
    off = gap(played.scores["own"].value, [0.0, 0.25 + 0.6, 0.25, 0.75 + 0.6, 1.0])
    heard = [str(messages[-1]["content"]) for messages in critic.asked]
    read = "the request" in heard[0] and "Answer: first" in heard[0] and heard[1] == "Answer: second"
    return Finding(off < 1e-12 and read and played.info["good"] == list(worth.values()), say(off=off, heard=heard[1]))


@claim("a turn is compared with the same agent's at its place; feedback learns alone for 20 steps, then both")
def a_turn_is_compared_with_the_same_agents_at_its_place_feedback() -> Finding:
    rng, rows = Key.of(3).derive("waltz").numpy(), list[dict[str, Any]]()
    for number in range(9):
        turns = int(rng.integers(1, 5))
        row: dict[str, Any] = {"group": f"s{number % 2}", "scores": {}, "turn": [n // 2 for n in range(2 * turns)]}
        row |= {"agent": (["conversation", "feedback"] * 2)[:turns], "logp": [-1.0] * (2 * turns)}
        rows.append({**row, "turn_scores": [{"own": float(rng.random())} for _ in range(turns)]})
    wanted = []
    for row in rows:
        peers = [one["turn_scores"] for one in rows if one["group"] == row["group"]]
        credit = []
        for place in range(len(row["turn_scores"])):
            there = [one for one in peers if place < len(one)]
            values = group_relative([one[place]["own"] for one in there])
            credit.append(values[there.index(row["turn_scores"])])
        wanted.append([credit[turn] for turn in row["turn"]])
    off = gap(inspect_rows(WALTZRL.but({"combine.weights": {"own": 1.0}}), rows)["advantages"], wanted)
    settings = [value_at(WALTZRL, f"cast.{name}") for name in ("first", "order", "together")]
    shipped = settings == [20, ("feedback", "conversation"), True] and WALTZRL.workflow == ConversationFeedback.name
    return Finding(shipped and off < 1e-12, say(turns=sum(len(row["turn_scores"]) for row in rows), off_by_hand=off))


claim.spares("waltzrl: cast.every = 400", "with both learning at once nobody takes turns")
claim.shipped(WALTZRL, "credit", "cast", trains=("feedback",))
