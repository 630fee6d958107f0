"""SySLLM's claims."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

import numpy as np

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.core.keys import Key
from hocket.lab.claims.claim import Check
from hocket.lab.claims.harness import Claims, Finding, cases, say
from hocket.lab.claims.lesson_data import lessons
from hocket.methods.control.sysllm.captions import Episode, Log, Step, episodes_in
from hocket.methods.control.sysllm.captions_task import in_words
from hocket.methods.control.sysllm.key_walkers import Walker, walked
from hocket.methods.control.sysllm.keys import KeyRoom
from hocket.methods.control.sysllm.method import LIMIT, MERGE, SYSLLM, SYSLLM_SHORT, Miner, SySLLM, agreement
from hocket.methods.control.sysllm.statements import OFTEN, Statement, Tally, Total, holds, read, said_of
from hocket.methods.control.sysllm.summaries import Ask, Summary
from hocket.rewards import judging
from hocket.rollout.joint import JointPlayer
from hocket.rollout.vector import VectorPlayer
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.config import configure
from hocket.train.judges import judge_of
from hocket.types import Assignment

claim = Claims("sysllm", "arXiv:2503.10509")
ROOM = KeyRoom()
AGENTS: Mapping[str, Walker] = {
    "red": Walker("red", slip=0.1),
    "blue": Walker("blue", slip=0.1),
    "both": Walker("both", slip=0.1),
    "bold": Walker("red", careful=False, slip=0.1),
}
"""Each differs from the first in one trait: the key it prefers, how many it takes, and whether it minds lava."""

DRAWS = range(12)


def recorded(walker: Walker, draw: int, half: int = 0, episodes: int = 50, world: KeyRoom = ROOM) -> Log:
    """Episodes of an agent: other ones for each draw, and for each half of it."""
    seeds = [1_000_000 * (draw + 1) + 1_000 * half + number for number in range(episodes)]
    found = walked(world, walker, seeds, Key.of(draw).derive("walk", half, walker.wants, str(walker.careful)).numpy())
    return Log(ROOM.captions.about, tuple(found), ROOM.captions.actions, ROOM.captions.events)


@functools.cache
def logs(draw: int, half: int = 0) -> tuple[Log, ...]:
    """Of the four agents."""
    return tuple(recorded(walker, draw, half) for walker in AGENTS.values())


@functools.cache
def summaries(draw: int) -> tuple[Summary, ...]:
    """Of the four agents, by counting."""
    return tuple(SySLLM().summarise(log) for log in logs(draw))


class Chance:
    """Any action, each as likely: as a controller."""

    name, version, draws = "chance", 0, 1

    def __init__(self, actions: int, seen: int) -> None:
        self.actions, self.observations = actions, seen

    def sample(self, observations: Any, uniforms: Any, temperature: Any, *_: Any, **__: Any) -> Any:
        rows = uniforms[:, 0]
        return (rows * self.actions).astype(np.int64), np.zeros(len(rows), np.float32)


def random_log(name: str, episodes: int = 20) -> Log:
    """Of a Gymnasium environment, or a joint world, played by chance."""
    task = tasks.find(name)
    asked = [Assignment(task.scenario("eval", number), budget=40) for number in range(episodes)]
    player: Any
    if isinstance(task, GymTask):
        player = VectorPlayer(task, cast(Any, Chance(task.actions, task.observations)), width=8)
    else:
        world = cast(JointTask, task).world
        chance = Chance(world.seats[0].actions, world.seats[0].observations)
        player = JointPlayer(world, {"p": cast(Any, chance)}, dict.fromkeys(world.agents, "p"), False, 8)
    played = run_async(player.play(asked, key=Key.of(0)))
    player.close()
    return in_words(cast(Any, task), played)


# ---------------------------------------------------------------- captions


# ---------------------------------------------------------------- faithfulness


def by_hand(sentence: str, log: Log) -> bool:
    """Whether a counted sentence is true, by going through the record once more and nothing else."""
    episodes = log.episodes
    if total := re.match(r"In (\d+) episodes it (earns|makes) (\S+) .*from (\S+) to (\S+) in one", sentence):
        each = [sum(step.earns for step in one) if total[2] == "earns" else len(one) for one in episodes]
        due = (len(episodes), sum(each), min(each), max(each))
        said = (float(total[1]), float(total[3]), float(total[4]), float(total[5]))
        return all(abs(one - other) < 1e-3 * max(1.0, abs(other)) for one, other in zip(said, due, strict=True))
    found = re.match(r"(?:When it sees (.+), it|It) (.+?)(?: before it (.+))? in (\d+) of (\d+) (\w+)\.$", sentence)
    assert found is not None, sentence
    when, what, other, k, n, unit = found.groups()
    if other is not None:
        pairs = [(_when(episode, what), _when(episode, other)) for episode in episodes]
        some = [pair for pair in pairs if min(pair) < 10**6]
        counted = sum(first < second for first, second in some), len(some), "episodes"
    elif any(what == step.does for one in episodes for step in one) or what in log.does:
        of = [step.does for one in episodes for step in one if when is None or when in step.sees]
        counted = of.count(what), len(of), "decisions"
    else:
        counted = sum(_when(episode, what) < 10**6 for episode in episodes), len(episodes), "episodes"
    return (int(k), int(n), unit) == counted


def _when(episode: Episode, event: str) -> int:
    return next((time for time, step in enumerate(episode) if event in step.happens), 10**6)


@claim(
    "Every sentence that counting writes is true in the record, counted once more by hand: four agents, 12 draws of 50 "
    "episodes, and five other worlds played by chance."
)
def every_sentence_that_counting_writes_is_true_in_the_record() -> Finding:
    found = [(one, log) for draw in DRAWS for one, log in zip(summaries(draw), logs(draw), strict=True)]
    names = ("gym:CartPole-v1", "gym:FrozenLake-v1", "gym:Acrobot-v1", "forage:5x5-2p-2f", "gym:MountainCar-v0")
    found += [(SySLLM(most=30).summarise(log), log) for log in map(random_log, names)]
    said = [(sentence, log) for one, log in found for sentence in one.said]
    false = [one.text for one, log in said if not by_hand(one.text, log)]
    refused = sum(one.verdict != "true" for one, _ in said)
    least = min(len(one.said) for one, _ in found)
    return Finding(
        not false and not refused and least >= 10,
        say(sentences=len(said), false=len(false), refused=refused),
    )


@claim(
    "A sentence changed by one count, by another event or by another word of how often is caught, and is not in the "
    "summary; what has no counted form, or no words of the record, is said to be unbacked."
)
def a_sentence_changed_by_one_count_by_another_event_or_by_another() -> Finding:
    caught, missed, wild = 0, list[str](), 0
    for log, one in zip(logs(0), summaries(0), strict=True):
        tally = Tally(log)
        for said in one.said:
            for changed in _changed(said.text, tally):
                right = tally.verdict(changed) == "false" and not by_hand(changed, log)
                caught += right
                missed += [] if right else [changed]
        lies = [f"It {how} {what}." for what in tally.events for how in OFTEN if _lie(tally, what, how)]
        lies += ["It wants to be loved.", "It mostly takes the green key.", "When it sees gold, it mostly goes north."]
        summary = SySLLM(most=99).summarise(log, functools.partial(_liar, "\n".join(lies)))
        verdicts = [one.verdict for one in summary.said]
        missed += [one.text for one in summary.said if one.verdict == "true"]
        wild += verdicts.count("unbacked")
        missed += [one for one in summary.text.splitlines() if tally.verdict(one) == "false"]
    return Finding(not missed and caught > 100 and wild == 12, say(caught=caught, missed=len(missed), unbacked=wild))


def _liar(lies: str, prompts: Sequence[str]) -> list[str]:
    return [lies] * len(prompts)


def _lie(tally: Tally, what: str, how: str) -> bool:
    k, n, _ = tally.count(Statement(what)) or (0, 0, "")
    truth = {"always": k == n, "mostly": k > n - k, "seldom": 0 < k < n - k, "never": k == 0}
    return not truth[OFTEN[how]]


def _changed(sentence: str, tally: Tally) -> Iterator[str]:
    numbers = [(found.start(), found.end()) for found in re.finditer(r"\d+", sentence)]
    for start, end in numbers:
        if sentence[start - 1] not in "." and not sentence[end : end + 2].strip(" .").isdigit():
            yield sentence[:start] + str(int(sentence[start:end]) + 1) + sentence[end:]
    said = read(sentence)
    if isinstance(said, Statement) and said.count is not None and not said.when and not said.before:
        others = tally.events if sentence.endswith("episodes.") else tally.actions
        for other in others:
            counted = tally.count(replace(said, what=other, count=None))
            if counted is not None and counted[:2] != said.count:
                yield sentence.replace(said.what, other)


@claim(
    "Always is all of them, mostly more than half, seldom fewer but some, never none, for every count up to 20; the "
    "strongest word that holds is the one that is said, and nothing is said of exactly half."
)
def always_is_all_of_them_mostly_more_than_half_seldom_fewer_but() -> Finding:
    step = Step((), "goes", ("comes",), 0.0)

    def counted(n: int, k: int) -> bool:
        due = {"always": k == n, "never": k == 0, "mostly": k / n > 0.5, "seldom": 0 < k / n < 0.5}
        log = Log("", (*[(step,)] * k, *[(replace(step, happens=()),)] * (n - k)), ("goes",), ("comes",))
        verdicts = {how: Tally(log).verdict(f"It {how} comes.") == "true" for how in due}
        strongest = next((how for how, true in due.items() if true), "")
        return verdicts == due == {how: holds(how, k, n) for how in due} and said_of(k, n) == strongest

    return cases(((n, k) for n in range(1, 21) for k in range(n + 1)), counted)


# ---------------------------------------------------------------- chunks and merges


@claim(
    "However the episodes are cut into chunks and merged, counting writes the same summary as of all at once, to the "
    "letter."
)
def however_the_episodes_are_cut_into_chunks_and_merged_counting() -> Finding:
    wholes = [SySLLM(lines=10**6).summarise(log).text for log in logs(1)]

    def alike(lines: int, fan: int, number: int) -> bool:
        return SySLLM(lines=lines, fan=fan).summarise(logs(1)[number]).text == wholes[number]

    return cases(itertools.product((1, 20, 60, 200), (2, 3, 8, 50), range(4)), alike)


@claim(
    "Told to keep few sentences counting keeps totals, then what comes of decisions, then counts by how many standard "
    "deviations they are from chance: that of any action, of either order, of the action in all situations."
)
def told_to_keep_few_sentences_counting_keeps_totals_then_what() -> Finding:
    due = [
        "In 4 episodes it earns 3 in all, from 0 to 2 in one.",
        "It comes in 1 of 4 episodes.",
        "It goes in 12 of 20 decisions.",  # 16/3 from 20/3, of sqrt(40/9): 2.53.
        "It comes before it ends in 7 of 8 episodes.",  # 3, of sqrt(2): 2.12.
        "When it sees a, it goes in 9 of 10 decisions.",  # 3 from 6, of sqrt(2.4): 1.94.
        "It turns in 3 of 20 decisions.",  # 11/3: 1.74.
        "When it sees b, it goes in 4 of 10 decisions.",  # 2 from 6: 1.29.
        "It stays in 5 of 20 decisions.",  # 5/3: 0.79.
        "When it sees b, it stays in 2 of 10 decisions.",  # 0.5 from 2.5, of sqrt(1.875): 0.37.
    ]
    parts = [
        f"{due[0].replace('4 episodes it earns 3', '1 episodes it earns 2').replace('from 0', 'from 2')}\n"
        "It stays in 2 of 9 decisions.\nIt goes in 7 of 9 decisions.",
        "\n".join(reversed(due[3:5] + due[6:7] + due[8:])),
        "It turns in 3 of 20 decisions.\nIt goes in 5 of 11 decisions.\nIt stays in 3 of 11 decisions.",
        "In 3 episodes it earns 1 in all, from 0 to 1 in one.\nIt comes in 1 of 4 episodes.",
    ]

    def kept(most: int) -> bool:
        prompt = MERGE.format(about="A room.", summaries="\n\n".join(parts), limit=LIMIT.format(most=most))
        return str(Miner().answers([prompt])[0]).splitlines() == due[:most]

    return cases(range(1, 12), kept)


@claim(
    "A language model reads every line of the record once, in whole episodes and chunks of as many lines as there is "
    "room for, with what the environment is; then what it wrote, `fan` summaries at a time, up to one."
)
def a_language_model_reads_every_line_of_the_record_once_in_whole() -> Finding:
    log = logs(2)[0]
    record = [tuple(replace(step, earns=float(f"{step.earns:+.4g}")) for step in one) for one in log.episodes]

    def reads(lines: int, fan: int) -> bool:
        rounds: list[list[str]] = []

        def ask(prompts: Sequence[str]) -> list[str]:
            rounds.append(list(prompts))
            return [f"It mostly goes east. ({len(rounds)}-{number})" for number in range(len(prompts))]

        SySLLM(lines=lines, fan=fan).summarise(log, ask)
        parts = [episodes_in(prompt) for prompt in rounds[0]]
        sizes = [sum(map(len, part)) for part in parts]
        right = list(itertools.chain(*parts)) == record
        right &= all(size <= lines or len(part) == 1 for size, part in zip(sizes, parts, strict=True))
        right &= all(size + len(part[0]) > lines for size, part in zip(sizes, parts[1:], strict=False))
        right &= all(log.about in prompt for one in rounds for prompt in one)
        due = [len(parts)]
        while due[-1] > fan:
            due.append(-(-due[-1] // fan))
        right &= [len(one) for one in rounds] == [*due, 1]
        for level, prompts in enumerate(rounds[1:], 1):
            heard = [re.findall(r"\(\d+-\d+\)", prompt) for prompt in prompts]
            right &= list(itertools.chain(*heard)) == [f"({level}-{n})" for n in range(len(rounds[level - 1]))]
            limited = ["At most 12 sentences" in prompt for prompt in prompts]
            right &= max(map(len, heard)) <= fan and set(limited) == {level == len(rounds) - 1}
        return right

    return cases(((30, 3), (60, 8), (1, 7)), reads)


# ---------------------------------------------------------------- who is who


@claim(
    "Four agents that differ by a trait: a blind reader who knows them by 50 other episodes gives all four summaries "
    "to their agents, in each of 12 draws; given four summaries of one agent it is right about a quarter of the time."
)
def four_agents_that_differ_by_a_trait_a_blind_reader_who_knows() -> Finding:
    right = [_right(draw, [one.true for one in summaries(draw)]) for draw in DRAWS]
    alike = [[one.true for one in map(SySLLM().summarise, _same(draw))] for draw in DRAWS]
    blind = [_right(draw, texts) for draw, texts in zip(DRAWS, alike, strict=True)]
    return Finding(min(right) == 4 and 0.05 < fmean(blind) / 4 < 0.45, say(right_of_4=right, of_equal_agents=blind))


def _right(draw: int, texts: Sequence[Sequence[str]]) -> int:
    """How many summaries go to their agent; the reader meets the agents in an order that is drawn."""
    order = Key.of(draw).derive("order").numpy().permutation(len(texts)).tolist()
    others = logs(draw, 1)
    taken = SYSLLM.summariser.identify(texts, [others[place] for place in order])
    return sum(order[one] == number for number, one in enumerate(taken))


def _same(draw: int) -> list[Log]:
    """Four records of one agent."""
    return [recorded(AGENTS["red"], draw, 10 + number) for number in range(4)]


@claim(
    "The reader goes by what is said alone: summaries in another order are given likewise, and those of totals alone "
    "say nothing."
)
def the_reader_goes_by_what_is_said_alone_summaries_in_another() -> Finding:
    texts, others, moved = [one.true for one in summaries(0)], logs(0, 1), 0
    for way in itertools.permutations(range(4)):
        taken = SYSLLM.summariser.identify([texts[one] for one in way], others)
        moved += taken != way
    totals = [[one for one in text if isinstance(read(one), Total)] for text in texts]
    fits = [agreement(text, Tally(log)) for text in totals for log in others]
    return Finding(moved == 0 and set(fits) == {0.0} and all(totals), say(moved=moved))


@claim(
    "How well a summary fits a record is, sentence by sentence, how near the shares are, and whether a word of how "
    "often holds."
)
def how_well_a_summary_fits_a_record_is_sentence_by_sentence_how() -> Finding:
    step = Step(("a",), "goes", ("comes",), 1.0)
    quiet = replace(step, does="stays", happens=())
    tally = Tally(Log("", ((step, quiet), (quiet,), (quiet,), (quiet,)), ("goes", "stays"), ("comes",)))
    due = {
        ("It comes in 3 of 4 episodes.",): 0.5,
        ("It comes in 1 of 4 episodes.",): 1.0,
        ("It goes in 5 of 5 decisions.",): 0.2,
        ("It comes in 0 of 0 episodes.", "When it sees b, it goes in 1 of 2 decisions."): 0.0,
        ("It seldom comes.",): 1.0,
        ("It mostly comes.",): 0.0,
        ("It seldom comes.", "It always stays."): 0.5,
        ("When it sees a, it stays in 10 of 10 decisions.", "It is happy."): 0.8,
        ("It is happy.", "It mostly flies."): 0.0,
        (): 0.0,
    }
    return cases(due.items(), lambda text, fit: abs(agreement(text, tally) - fit) < 1e-12)


@claim("Each of the four is told by its trait: who prefers red, blue, both, and who minds no lava, in every draw.")
def each_of_the_four_is_told_by_its_trait_who_prefers_red_blue_both() -> Finding:
    low = dict.fromkeys(("red", "blue", "both", "bold"), 1.0)
    for draw in DRAWS:
        for name, one in zip(AGENTS, summaries(draw), strict=True):
            share = {
                found[1]: int(found[2]) / 50
                for said in one.true
                if (found := re.match(r"It (.+) in (\d+) of 50 episodes", said))
            }
            keys = share["takes the red key"], share["takes the blue key"]
            traits = {
                "red": min(keys[0], 1 - keys[1], 1 - share["steps into lava"]),
                "blue": min(keys[1], 1 - keys[0], 1 - share["steps into lava"]),
                "both": min(keys),
                "bold": min(keys[0], 1 - keys[1], share["steps into lava"]),
            }
            low[name] = min(low[name], traits[name])
    return Finding(min(low.values()) > 0.5, say(least_share_of_its_trait=low))


# ---------------------------------------------------------------- as a user runs it

RUNS: Mapping[str, str] = {
    "red": "keys:room?blue=-1&lava=0.3",
    "blue": "keys:room?red=-1&lava=0.3",
    "both": "keys:room?red=1&blue=1&lava=0.3",
    "bold": "keys:room?blue=-1&lava=0",
}
"""Tasks that pay for unlike things, so that agents trained in them differ by a trait as the scripted ones do."""

LENGTH = ["--budget", "10", "--longest", "160", "--temperature", "1"]


LESSONS = 120
"""Supervised steps."""


def _typed(*words: str) -> str:
    """What a command prints; it must succeed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main(list(words))
    if code:
        raise RuntimeError(f"hocket {' '.join(words)} ended with {code}")
    return out.getvalue()


def _read_by(model: str, runs: str, *more: str) -> dict[str, float]:
    """What `hocket summarise` tells of the four runs, by a model."""
    told = json.loads(_typed("summarise", *RUNS, "--runs", runs, "--model", model, "--json", *LENGTH, *more))
    counts = [one["counts"] for one in told["summaries"]]
    right = sum(one == run for one, run in zip(told["taken_for"], RUNS, strict=True))
    true, said = sum(one["true"] for one in counts), sum(sum(one.values()) for one in counts)
    return {"right": float(right), "sentences": float(said), "true": true / max(1, said)}


@claim(
    "The shipped model after lessons on walkers of drawn tastes sums up the four agents from 50 other episodes each: "
    "more than half of its sentences are true, as are most of those about one episode, and over 3 draws a blind reader "
    "gives at least 8 of 12 summaries to their agents, where 3 is chance; untaught it writes no true sentence.",
    slow=True,
)
def the_shipped_model_after_lessons_on_walkers_of_drawn_tastes_sums() -> Finding:
    world, short = replace(ROOM, length=10), SYSLLM_SHORT.summariser
    ask = _model(lessons("lessons:summaries", LESSONS))
    right, true, said, parts = list[int](), list[int](), list[int](), Counter[str]()
    for draw in range(3):
        mine, others = ([recorded(one, draw, half, world=world) for one in AGENTS.values()] for half in (0, 1))
        found = [short.summarise(log, ask) for log in mine]
        for log, one in zip(mine, found, strict=True):
            for episode, text in zip(log.episodes, one.parts, strict=True):
                parts += Counter(map(Tally(log.part([episode])).verdict, text.splitlines()))
        order = Key.of(draw).derive("order").numpy().permutation(4).tolist()
        taken = short.identify([one.true for one in found], [others[place] for place in order])
        right.append(sum(order[one] == number for number, one in enumerate(taken)))
        true.append(sum(len(one.true) for one in found))
        said.append(sum(len(one.said) for one in found))
    untaught = short.summarise(mine[0].part(mine[0].episodes[:5]), _model("nano"))
    share = parts["true"] / parts.total()
    holds_ = sum(right) >= 8 and sum(true) > 0.5 * sum(said) and share > 0.7 and not untaught.true
    figures = {"true": str(true), "of": str(said), "true_of_one_episode": share, "untaught": len(untaught.true)}
    return Finding(holds_, say(right=str(right), **figures))


def _model(name: str) -> Ask:
    """A language model as `hocket summarise --model` asks it."""
    config = configure([("task", "keys:room"), ("recipe", "ppo"), ("judge", name)], tasks.find("keys:room"))
    judge = judge_of(config, None)
    assert judge is not None
    return lambda prompts: judging.said(judge, prompts, 160)


def _shipped() -> Finding:
    taught = lessons("lessons:summaries", LESSONS)
    with tempfile.TemporaryDirectory() as runs:
        for name, task in RUNS.items():
            given = ["--task", task, "--recipe", "ppo", "--steps", "40", "--runs", runs, "--run", name, "--quiet"]
            _typed("train", *given, "--threads", "1", "--evaluation.n", "4", "--evaluation.every", "0")
        short = ("--method", "sysllm-short")
        found = {
            "taught": _read_by(taught, runs, *short, "--episodes", "20"),
            "untaught": _read_by("nano", runs, *short, "--episodes", "4"),
            "blind": _read_by(taught, runs, *short, "--episodes", "4", "--method.chunk", '"Summary:"'),
            "counted": _read_by("rule", runs),
        }
    ours, without = found["taught"], (found["untaught"], found["blind"])
    holds_ = ours["right"] == found["counted"]["right"] == 4 and ours["true"] > 0.5 and ours["sentences"] >= 12
    holds_ &= all(one["right"] < 4 and one["true"] < ours["true"] for one in without) and found["counted"]["true"] == 1
    return Finding(holds_, say(**found))


claim.append(
    Check(
        claim.row,
        "As shipped, `hocket summarise red blue both bold --method sysllm-short --model TAUGHT` on four policies that "
        "PPO trained in rooms that pay for unlike things, TAUGHT being the shipped model after lessons on scripted "
        "walkers: more than half of what it writes of 20 episodes is true, and by the true sentences alone a blind "
        "reader gives all four to their runs, as by counting; untaught, or without the transcripts, neither is so.",
        _shipped,
        claim.source,
        slow=True,
        shipped=True,
    )
)
