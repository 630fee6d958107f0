"""Training-Free GRPO's claims."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from hocket.agents.search.searcher import SearchBench
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.claims.harness import Claims, Finding, cases, say
from hocket.lab.claims.prompt_checks import SearchOutcome, random_lines, sought, told_of
from hocket.lab.texts_worlds import Tactical, contrasting, searched
from hocket.methods.search.training_free_grpo import TRAINING_FREE_GRPO, SemanticAdvantage, edited

claim = Claims("training-free-grpo", "arXiv:2510.08191")
SEEDS = range(24)
STEERED: Mapping[str, Any] = {"budget": 500, "evaluation": 48}


def world(seed: int, *, shuffled: bool = False, faith: float = 0.9) -> Tactical:
    """Six kinds of question; the right one of four tactics is drawn for each."""
    right = Key.of(seed).derive("right").numpy().integers(0, 4, 6).tolist()
    return Tactical(tuple(right), shuffled=shuffled, faith=faith)


def last_accuracies(*, shuffled: bool = False, samples: int = 5) -> tuple[list[float], list[SearchBench]]:
    """Exact accuracy of the last library of every seed: the last, not the best, so that no choice helps."""
    searcher = SemanticAdvantage(samples=samples, batch=6)
    worlds = [world(seed, shuffled=shuffled) for seed in SEEDS]
    benches = [
        searched(one, contrasting, searcher, seed=seed, budget=3000) for seed, one in zip(SEEDS, worlds, strict=True)
    ]
    return [one.accuracy(bench.trials[-1].texts) for one, bench in zip(worlds, benches, strict=True)], benches


@claim("With hidden rules accuracy rises from chance to nearly what the policy can reach by lessons, in every seed.")
def with_hidden_rules_accuracy_rises_from_chance_to_nearly_what_the() -> Finding:
    found, benches = last_accuracies()
    calls = [bench.spent for bench in benches]
    return Finding(min(found) > 0.9 * 0.925, say(chance=0.25, most=0.925, accuracy=found, calls=calls))


@claim("With one sample to a group there is no contrast: nobody is asked, and nothing is edited.")
def with_one_sample_to_a_group_there_is_no_contrast_nobody_is_asked() -> Finding:
    _, benches = last_accuracies(samples=1)
    holds = all(bench.asked == 0 and len(bench.trials) == 1 for bench in benches)
    return Finding(holds, say(questions=sum(bench.asked for bench in benches)))


@claim("Groups of equal reward trigger no edit: where no tactic is right, or every one is, nobody is asked.")
def groups_of_equal_reward_trigger_no_edit_where_no_tactic_is_right() -> Finding:
    never, always = Tactical((9,) * 6), Tactical((0,) * 6, tactics=1)
    benches = [searched(one, contrasting, SemanticAdvantage(), budget=2000) for one in (never, always)]
    holds = all(bench.asked == 0 and len(bench.trials) == 1 and bench.spent > 100 for bench in benches)
    return Finding(holds, say(questions=[bench.asked for bench in benches], calls=[bench.spent for bench in benches]))


@claim("From shuffled rewards it learns nothing: accuracy stays at chance on average over seeds.")
def from_shuffled_rewards_it_learns_nothing_accuracy_stays_at() -> Finding:
    found, benches = last_accuracies(shuffled=True)
    edits = [len(bench.trials) - 1 for bench in benches]
    return Finding(abs(fmean(found) - 0.25) < 0.12 and min(edits) > 0, say(accuracy=found, edits=edits))


@claim("Edits are add, modify, delete and keep by number; what is no edit, or of no lesson, changes nothing.")
def edits_are_add_modify_delete_and_keep_by_number_what_is_no_edit() -> Finding:
    library = ("one", "two", "three")
    edits = {
        "KEEP": library,
        "ADD: four": (*library, "four"),
        "- ADD: one\nADD: four\nADD: four": (*library, "four"),
        "MODIFY 2: better": ("one", "better", "three"),
        "* DELETE 1\nMODIFY [3]: more": ("two", "more"),
        "DELETE 7\nMODIFY 9: no\nAdd the numbers first.\n": library,
        "ADD: 4\nADD: 5\nADD: 6": (*library, "4"),
    }
    return cases(edits.items(), lambda text, due: edited(library, text, 4) == due)


@claim("Lessons alone change: prompts stay, and a group is drawn with the library as it is.")
def lessons_alone_change_prompts_stay_and_a_group_is_drawn_with_the() -> Finding:
    one = world(3)
    bench = searched(one, contrasting, SemanticAdvantage(batch=6), budget=3000)
    prompts = {str(trial.texts.prompts) for trial in bench.trials}
    grows = [len(trial.texts.library) for trial in bench.trials]
    chain = all(trial.parent == trial.number - 1 for trial in bench.trials[1:])
    start = bench.trials[0].texts == Texts()
    return Finding(len(prompts) == 1 and chain and start and max(grows) <= 6, say(lessons=grows))


@functools.cache
def conventions(*, shuffled: bool = False) -> dict[int, SearchOutcome]:
    """Searches for three conventions by a small language model in all seats."""
    return {seed: sought("training-free-grpo", seed=seed, shuffled=shuffled, **STEERED) for seed in range(3)}


@claim(
    "A small language model in all seats, taught to follow a prompt and to write lessons but never this convention: "
    "what its signs mean is found by text alone, no weight changes, and random lines take more target calls.",
    slow=True,
)
def a_small_language_model_in_all_seats_taught_to_follow_a_prompt() -> Finding:
    found = conventions()
    blind = {
        seed: sought("random-mutation", course="training-free-grpo", seed=seed, reflect=random_lines, **STEERED)
        for seed in found
    }
    chance = fmean(one.start for one in found.values()) < 0.35
    rises = chance and all(one.best >= 0.9 * one.ceiling and one.same for one in found.values())
    unseen = all(one.evaluation[1] > one.evaluation[0] + 0.4 for one in found.values())
    fewer = all(one.calls < blind[seed].calls for seed, one in found.items())
    return Finding(rises and unseen and fewer, told_of(found, blind))


@claim("From shuffled rewards that model's libraries gain less than half of that, on average over all.", slow=True)
def from_shuffled_rewards_that_models_libraries_gain_less_than_half() -> Finding:
    gains = {
        name: [trial.score - one.start for one in found.values() for trial in one.trials[1:]]
        for name, found in (("rewards", conventions()), ("shuffled", conventions(shuffled=True)))
    }
    return Finding(fmean(gains["shuffled"]) < 0.5 * fmean(gains["rewards"]), say(gain_from=gains))


def speaking(question: str) -> str:
    """A reflecting model that has a lesson after every contrast."""
    if question.startswith("Question:"):
        return "It adds the tens first."
    if question.startswith("Several"):
        return "ADD: Add the ones first."
    return f"ADD: Add the ones first, then the tens ({len(question)})."


claim.searched(TRAINING_FREE_GRPO, speaking)
