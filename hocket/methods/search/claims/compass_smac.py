"""COMPASS's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.search.searcher import SearchBench
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.texts_worlds import searched
from hocket.methods.search.compass_smac.battle_skills import CHARGE, GATHER, HOLD, RETREAT, SKILLS
from hocket.methods.search.compass_smac.lesson_checks import always, authored, by_chance, led, of_model, squad
from hocket.methods.search.compass_smac.method import COMPASS_SMAC, SkillSynthesis
from hocket.methods.search.compass_smac.skills import name_of, refusal
from hocket.methods.search.compass_smac.squad_world import Planner, Squads, battles, fitting, fought
from hocket.methods.search.compass_smac.world import Battle, drills
from hocket.types import Scenario

claim = Claims("compass-smac", "arXiv:2502.10148")
SEEDS = range(40)

FEW = {"hold": HOLD, "gather": GATHER}
"""A library in which nothing goes for a foe."""

WAITING = {"hold": HOLD, "retreat": RETREAT}
"""Likewise, where the small model plays."""

COURSES = (11, 12, 13)
"""Seeds of lessons."""

REFUSED = {
    "says no action": CHARGE.replace('"stay"', '"wait"'),
    "says what is not legal": 'def walk(view):\n    "go north"\n    return "north"\n',
    "fails": CHARGE.replace('view["foes"]', 'view["enemies"]'),
    "does not end": CHARGE.replace('    foes = view["foes"]\n', "    while True:\n        pass\n"),
    "says nothing of itself": CHARGE.replace('    "attack the nearest foe, or go there"\n', ""),
    "reads files": CHARGE.replace('view["foes"]', 'open("/etc/passwd").readlines()'),
    "is two": CHARGE + HOLD,
}


def charging(question: str) -> str:
    """A reflecting model whose first version of a skill fails its check, and whose second does not."""
    mends = question.startswith("This skill was refused")
    return f"Going there would have helped.\n```python\n{CHARGE if mends else REFUSED['fails']}```"


def waiting(view: object, skills: object) -> str:
    """Stands where it is and attacks who comes."""
    return "hold"


@cache
def wins(hops: int, planner: Planner = fitting, few: bool = False) -> tuple[bool, ...]:
    world = battles(hops=hops, skills={**FEW, "charge": CHARGE} if few else SKILLS)
    return tuple(battle.won for battle in fought(world, SEEDS, planner))


def ahead(better: Sequence[bool], worse: Sequence[bool]) -> float:
    """The difference of the win rates of the same battles, in standard errors."""
    gaps = [int(a) - int(b) for a, b in zip(better, worse, strict=True)]
    mean = fmean(gaps)
    spread = math.sqrt(fmean((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1))
    return mean / spread if spread else 0.0


def grown(reflect: object, start: dict[str, str], **settings: Any) -> SearchBench:
    target = Squads(battles(skills=start))
    searcher = SkillSynthesis(proposals=settings.pop("proposals", 4), **settings)
    return searched(target, reflect, searcher, budget=400, practice=6, development=8)  # type: ignore[arg-type]


@claim("A fact of who was seen where reaches exactly the agents within h links of one who saw it, as it is told them.")
def a_fact_of_who_was_seen_where_reaches_exactly_the_agents_within() -> Finding:
    wrong, told = 0, 0
    for hops in (0, 1, 2, 3):
        world = battles(hops=hops, count=5, foes=2, size=23)
        for seed in range(12):
            battle = world.make(Scenario("battle"))
            battle.reset(Key.of(seed))
            _scatter(battle, seed)
            near = _links(battle)
            for number, agent in enumerate(battle.agents):
                within = [m for m in range(5) if near[number][m] <= hops]
                due = {f + 1 for f in range(2) if any(_sees(battle, m, 5 + f) for m in within)}
                known = {foe["number"] for foe in battle.view(agent)["foes"]}
                seen = {f + 1 for f in range(2) if _sees(battle, number, 5 + f)}
                text = battle.observe(agent).text
                wrong += known != due or any((f"Foe {n} " in text) != (n in due) for n in (1, 2))
                told += len(due - seen)
    return Finding(wrong == 0 and told > 20, say(wrong=wrong, facts_that_were_passed_on=told))


def _scatter(battle: Battle, seed: int) -> None:
    draw = Key.of(seed).derive("scatter").numpy()
    cells = draw.permutation(12 * 12)[: len(battle.course.place[0])]
    battle.course.place[0] = [[int(cell) // 12, int(cell) % 12] for cell in cells]
    battle.course.health[0, int(draw.integers(5))] = 0


def _apart(battle: Battle, one: int, other: int) -> int:
    place = battle.course.place[0].tolist()
    return max(abs(a - b) for a, b in zip(place[one], place[other], strict=True))  # type: ignore[no-any-return]


def _sees(battle: Battle, one: int, other: int) -> bool:
    up = battle.course.health[0] > 0
    return bool(up[one] and up[other]) and _apart(battle, one, other) <= battle.world.ground.sight


def _links(battle: Battle) -> list[dict[int, int]]:
    """How many links from each soldier to each, by breadth; a fallen one hears and tells nothing."""
    up, radio = battle.course.health[0] > 0, battle.world.ground.radio
    found = []
    for start in range(5):
        far, edge = {start: 0}, [start]
        while edge:
            here = edge.pop(0)
            for there in range(5):
                if there not in far and up[here] and up[there] and _apart(battle, here, there) <= radio:
                    far[there] = far[here] + 1
                    edge.append(there)
        found.append({m: far.get(m, 99) for m in range(5)})
    return found


@claim("With planners that take the skill that fits, the win rate rises from 0 to 2 hops.", slow=True)
def with_planners_that_take_the_skill_that_fits_the_win_rate_rises() -> Finding:
    rates = [fmean(wins(hops)) for hops in (0, 1, 2)]
    errors = ahead(wins(2), wins(0))
    return Finding(errors > 2 and rates[0] < rates[1], say(win_rates=rates, standard_errors=errors))


@claim(
    "What was told is worth something: who acts on it wins more often than who waits; without hops nobody does.",
    slow=True,
)
def what_was_told_is_worth_something_who_acts_on_it_wins_more_often() -> Finding:
    waits = wins(0, waiting)
    gains, alone = ahead(wins(2), waits), ahead(wins(0), waits)
    return Finding(gains > 2 and alone < 2, say(waiting=fmean(waits), ahead_by_2_hops=gains, ahead_by_none=alone))


@claim(
    "A skill that fails its check never enters the library, nor runs: asked for by the search, or said in battle.",
    slow=True,
)
def a_skill_that_fails_its_check_never_enters_the_library_nor_runs() -> Finding:
    entered, ran, reasons = [], [], []
    world = battles(hops=2)
    for name, program in REFUSED.items():
        bench = grown(lambda question, program=program: program, FEW, proposals=1, retries=0)
        entered += [name] if len(bench.trials) > 1 else []
        reasons += bench.refused
        battle = world.make(Scenario("battle"))
        battle.reset(Key.of(1))
        battle.act(dict.fromkeys(battle.acting, program))
        # Whoever was refused does what it did before.
        ran += [name] if dict(battle.skills) != dict(SKILLS) or set(battle.chosen.values()) != {"hold"} else []
    told = "refused" in battle.observe(battle.agents[0]).text
    holds = not entered and not ran and told and len(reasons) == len(REFUSED)
    return Finding(holds, f"entered: {entered}, ran: {ran}, reasons given: {len(reasons)} for {len(REFUSED)} skills")


@claim("A program that passes, said in battle, joins the library of that battle alone, and runs from then on.")
def a_program_that_passes_said_in_battle_joins_the_library_of_that() -> Finding:
    world = battles(hops=2, skills=FEW)
    one, other = world.make(Scenario("battle")), world.make(Scenario("battle"))
    for battle in (one, other):
        battle.reset(Key.of(0))
    first = one.acting[0]
    one.act({agent: CHARGE if agent == first else "hold" for agent in one.acting})
    legal = one.observe(first).actions or ()
    holds = one.chosen[first] == "charge" and "charge" in legal and dict(other.skills) == FEW == dict(world.skills)
    return Finding(holds, f"chosen: {one.chosen[first]}, of {', '.join(legal)}")


@claim("Grown after lost battles the library wins more: a refused skill is mended, enters, and is the best.", slow=True)
def grown_after_lost_battles_the_library_wins_more_a_refused_skill() -> Finding:
    bench = grown(charging, FEW)
    start, best = bench.trials[0], bench.best
    library = dict(best.texts.skills or {})
    errors = ahead(wins(2, few=True), wins(2, waiting))
    holds = library == {**FEW, "charge": CHARGE} and best.score > start.score and errors > 2
    scores = f"development {start.score:.3f} to {best.score:.3f}"
    return Finding(holds and len(bench.refused) > 0, f"{scores}, {say(unseen_ahead_in_standard_errors=errors)}")


@claim("Only lost battles are shown, and where all were won nobody is asked.")
def only_lost_battles_are_shown_and_where_all_were_won_nobody_is() -> Finding:
    asked: list[str] = []

    def listening(question: str) -> str:
        asked.append(question)
        return charging(question)

    grown(listening, FEW, proposals=1, retries=0)
    shows_lost = len(asked) == 1 and "lost after" in asked[0] and "won after" not in asked[0]
    easy = Squads(battles(hops=2, health=40))
    bench = searched(easy, listening, SkillSynthesis(proposals=3), budget=400, practice=4, development=4)
    return Finding(shows_lost and len(asked) == 1 and len(bench.trials) == 1, say(questions=len(asked)))


@claim("A skill that helps nobody is measured and not kept: what is returned is never worse on development.")
def a_skill_that_helps_nobody_is_measured_and_not_kept_what_is() -> Finding:
    run = 'def attack(view):\n    "attack the foe, go to the nearest that is known"\n    return "stay"\n'
    bench = grown(lambda question: run, dict(SKILLS), proposals=1)
    scores = [trial.score for trial in bench.trials]
    return Finding(len(scores) == 2 and bench.best.number == 0 and scores[1] < scores[0], say(development=scores))


@claim(
    "A small language model in the soldiers' seats, taught by battles of its own to choose by what it sees, wins more "
    "unseen battles than any one skill always taken does, and than skills by chance: after each of three courses of "
    "lessons with seeds that nothing was tuned on.",
    slow=True,
)
def a_small_language_model_in_the_soldiers_seats_taught_by_battles() -> Finding:
    ours = {course: led(of_model(squad(course))) for course in COURSES}
    fixed = {skill: led(always(skill)) for skill in SKILLS}
    best = max(fixed, key=lambda skill: sum(fixed[skill]))
    gains = [ahead(won, fixed[best]) for won in ours.values()]
    chance = [ahead(won, led(by_chance(course))) for course, won in ours.items()]
    rates = {"model": [fmean(won) for won in ours.values()], **{name: fmean(won) for name, won in fixed.items()}}
    holds = min(gains) > 2 and min(chance) > 2
    return Finding(holds, say(**rates, ahead_of_the_best_of_these=gains, of_chance=chance))


@claim(
    "Facts forwarded are worth something to that model: with 2 hops it wins more unseen battles than with none, after "
    "each course.",
    slow=True,
)
def facts_forwarded_are_worth_something_to_that_model_with_2_hops() -> Finding:
    rates = {hops: [fmean(won) for won in _led(hops)] for hops in (0, 1, 2)}
    gains = [ahead(far, near) for far, near in zip(_led(2), _led(0), strict=True)]
    return Finding(min(gains) > 2, say(win_rates_by_hops=rates, standard_errors=gains))


def _led(hops: int) -> list[list[bool]]:
    return [led(of_model(squad(course)), hops=hops) for course in COURSES]


@claim(
    "The same model in the author's seat too, taught to write a skill that a squad lacks: shown battles that were lost "
    "with a library in which nothing goes for a foe, it writes a program that passes its check; with it development "
    "battles and unseen ones are won more often, in each course; no weight changes, and an untaught author adds none.",
    slow=True,
)
def the_same_model_in_the_authors_seat_too_taught_to_write_a_skill() -> Finding:
    found = {course: authored(course, "+".join(WAITING)) for course in COURSES}
    written = {course: dict(one.best.texts.skills or {}) for course, one in found.items()}
    before = [led(of_model(squad(course)), WAITING) for course in COURSES]
    after = [led(of_model(squad(course), skills), skills or WAITING) for course, skills in written.items()]
    gains = [ahead(late, early) for late, early in zip(after, before, strict=True)]
    programs = [one for skills in written.values() for name, one in skills.items() if name not in WAITING]
    checked = all(refusal(one, drills(battles().ground)) is None for one in programs)
    rises = min(one.best.score - one.trials[0].score for one in found.values())
    untaught = len(authored(COURSES[0], "+".join(WAITING), untaught=True).trials) - 1
    holds = min(gains) > 2 and rises > 0.2 and checked and untaught == 0 and all(one.same for one in found.values())
    figures = say(
        development_before=[one.trials[0].score for one in found.values()],
        development=[one.best.score for one in found.values()],
        unseen_before=[fmean(won) for won in before],
        unseen=[fmean(won) for won in after],
        standard_errors=gains,
        entered_by_an_untaught_author=untaught,
    )
    return Finding(holds, f"{figures}, written: {', '.join(str(name_of(one)) for one in programs)}")


claim.searched(
    COMPASS_SMAC, charging, task="battle:3v3?skills=hold+gather", practice=2, development=3, evaluation=2, budget=800
)
