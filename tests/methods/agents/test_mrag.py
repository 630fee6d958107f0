"""mRAG's team: what is dropped, metrics, lessons and refusals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hocket.core.columns import CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Finding, say
from hocket.methods.agents.claims.mrag import ASKED, TRAINED, scored, silent
from hocket.methods.agents.mrag import (
    ANSWER,
    CALL,
    DROP,
    KEEP,
    PLAN,
    REASON,
    VERIFIED,
    BestPaths,
    Coordinated,
    TeamLookup,
    called,
)
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Experience, Trajectory


def test_metrics_are_the_share_kept_and_the_mean_score() -> None:
    given = [scored(1.0, 1.0, 1.0), scored(0.0, 1.0, 1.0), scored(0.0, 0.0, 1.0), scored(0.0, 0.0, 0.0)]

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        return given[: sum(one.samples for one in asked)]

    async def score(played: Sequence[Trajectory]) -> None:
        """They have theirs."""

    async def told(asked: Sequence[Assignment]) -> Experience:
        return await BestPaths(samples=4).collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0))

    found, nothing = (run_async(told(asked)) for asked in ([Assignment(ASKED)], []))
    metrics = {"rollout/kept": 0.25, "rollout/score": (1 + 2 / 6 + 1 / 6) / 4}
    empty = {"rollout/kept": 0.0, "rollout/score": 0.0}
    holds = nothing.metrics == empty and found.trajectories == given[:1] and found.discarded == given[1:]
    assert holds
    assert max((abs(found.metrics[name] - value) for name, value in metrics.items())) < 1e-12


def test_what_is_dropped_is_not_verified() -> None:
    task = TeamLookup()
    scenario = task.scenario("train", 0)
    person = scenario.metadata["gold"][0]
    found = task.search.answer(person)
    seen = []
    for said in ((person, DROP), (person, person, person), (person, KEEP, person, KEEP)):
        looks = sum(word in (KEEP, DROP) for word in said) or 1
        parts = silent(coordinator=Part(*[f"searcher: {person}"] * looks, "finish"), searcher=Part(*said))
        (played,) = rehearse(Coordinated((task.search,)), scenario, parts)
        seen.append((VERIFIED.get(played), played.answer, parts["coordinator"].questions[-1]))
    parts = silent(coordinator=Part(otherwise="planner"), planner=Part(otherwise="on and on"))
    (endless,) = rehearse(Coordinated((task.search,), calls=4), scenario, parts)
    holds = seen == [([], "", "nothing"), ([], "", "nothing"), ([found], "", "nothing")]
    read = [called(one) for one in ("finish", " Planner ", "searcher: a  b", "searcher", "")]
    holds &= read == [("finish", ""), ("planner", ""), ("searcher", "a b"), ("searcher", ""), ("", "")]
    assert holds
    assert len(endless.turns) == 8


def test_settings_that_allow_no_call_are_refused() -> None:
    said = []
    for make in (
        lambda: Coordinated(calls=0),
        lambda: Coordinated(queries=0),
        lambda: Coordinated(settled=-0.1),
        lambda: BestPaths(samples=0),
        lambda: BestPaths(most=0),
        lambda: BestPaths(measures=()),
        lambda: TeamLookup(skill=1.5),
    ):
        try:
            make()
        except ConfigurationError as error:
            said.append(str(error))
    parts = silent(coordinator=Part("searcher: it", "finish"), searcher=Part("it", DROP))
    (bare,) = rehearse(Coordinated(), ASKED, parts)
    told = str(parts["searcher"].questions[-1])
    assert len(said) == 7
    assert told == "nothing found"
    assert not CALLS.get(bare)


def test_beginners_err_in_each_role() -> None:
    right, errs, blind = Counter[float](), Counter[str](), 0
    for skill in (1.0, 0.8):
        task = TeamLookup(skill=skill)
        for number in range(300):
            scenario = task.scenario("train", number % (task.size("train") or 1))
            person, thing = scenario.metadata["gold"]
            for lesson in task.lessons.play(scenario, Key.of(number).numpy()):
                asked, said = str(lesson.prompt[0]["content"]), [str(one["content"]) for one in lesson.said]
                number_known = re.search(r": number (\d+)", asked)
                if asked.endswith(CALL):
                    last = [one for one in said if one.startswith("<answer>")][-1]
                    right[skill] += last == f"<answer>{scenario.answer}</answer>"
                    errs["coordinator"] += said[0] != "planner"
                elif asked.endswith(PLAN):
                    errs["planner"] += "then" not in said[0]
                elif asked.endswith(REASON):
                    due = thing if f"\n{person}: " in asked else person
                    errs["reasoner"] += said[0] != ("nothing" if f"\n{thing}: " in asked else due)
                elif asked.endswith(ANSWER):
                    blind += number_known is not None and said[0] != f"<answer>{number_known[1]}</answer>"
                elif asked.endswith("yes or no."):
                    errs["validator"] += (said[0] == "yes") is not (f"\n{thing}: " in asked)
                else:
                    errs["searcher"] += f"Find {said[0]}." not in asked
            if skill == 1.0 and any(errs.values()):
                return Finding(False, say(errs=str(dict(errs))))
    holds = right[1.0] == 300 and abs(right[0.8] - 150) < 25 and set(errs) == set(TRAINED) and blind == 0
    assert holds
    assert min(errs.values()) > 10
    return None


def test_lessons_look_for_something() -> None:
    task, wrong, reasoned, again = TeamLookup(digits=3), Counter[str](), 0, 0
    for number in range(300):
        scenario = task.scenario("train", number % (task.size("train") or 1))
        lessons = task.lessons.play(scenario, Key.of(number).numpy())
        for lesson in lessons:
            asked, said = str(lesson.prompt[0]["content"]), [str(one["content"]) for one in lesson.said]
            roles = [one["role"] for one in lesson.said]
            wrong["turns"] += roles != [("assistant", "user")[place % 2] for place in range(len(roles))]
            sought = re.search(r"Find (.*)\.$", asked)
            if sought:
                wrong["nothing sought"] += not sought[1]
                again += len(said) > 3
                wrong["again"] += len(said) > 3 and (said[0] == sought[1] or said[2] != sought[1])
                wrong["given up"] += said[-1] == DROP and len(said) == 3 and said[0] != sought[1]
            reasoned += asked.endswith(REASON)
            if asked.endswith(CALL):
                heard = [said[place + 1] for place, one in enumerate(said) if one.startswith("searcher")]
                wrong["heard"] += not all(one == "nothing" or ": " in one for one in heard)
            if asked.endswith(ANSWER):
                wrong["digits"] += not re.fullmatch(r"<answer>\d{3}</answer>", said[0])
    holds = not any(wrong.values()) and again > 20 and abs(reasoned - 120) < 25
    assert holds
