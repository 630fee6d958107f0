"""Every recipe of the library trains: finite numbers and changed weights, on text and where it fits on control."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import REWARDS

from hocket import tasks
from hocket.agents.tools import verilog
from hocket.core.casting import Shared
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.policy_parts import CentralCritic
from hocket.lab.claims.record import fresh
from hocket.lab.claims.registry import checks_of
from hocket.methods.control.pdppo.method import PostDecisionCritic
from hocket.methods.group_relative.hrpo.method import LatentThoughts
from hocket.methods.marl.sc2le.chain import Chained
from hocket.methods.teams.cpmobius.method import Invented
from hocket.recipes import all_recipes
from hocket.rewards.functions import load_reward
from hocket.rollout.nucleus import DelayedNucleus
from hocket.train.config import configure
from hocket.train.trainer import Trainer

OFFLINE = tuple(
    sorted(name for name, recipe in all_recipes().items() if recipe.rollout.replays is not None and not recipe.outputs)
)
SCORERS = tuple(name for name, recipe in all_recipes().items() if recipe.outputs)
"""They train a scorer, on the task that they are for; see `tests/train/test_scorer_rewards.py`."""
LATENT = tuple(name for name, recipe in all_recipes().items() if isinstance(recipe.rollout, LatentThoughts))
MASKED = tuple(name for name, recipe in all_recipes().items() if isinstance(recipe.rollout, DelayedNucleus))
"""Their masks are over tokens; a controller refuses them in a sentence."""
GUESTS = ("past-selves", "pytag", "vgc-bench", "vgc-bench-fictitious-play")
"""Their snapshots sit in a workflow's roles or the seats of a joint world; a lone agent has neither (`test_hooks`)."""
BY_LENGTH = ("long2short-dpo",)
"""They pair by length, and whether episodes of a control task differ in it is chance."""
INVENTED = tuple(name for name, recipe in all_recipes().items() if isinstance(recipe.curriculum, Invented))
"""They have problems written; a task of control refuses them in a sentence."""


OWN_TASK = (
    "mpo-mixed-online",
    "multiphishguard",
    "mt-grpo",
    "pta-grpo",
    "prism-3d-pbrl",
    "rluf",
    "safe-rlhf-v",
    "scaf-grpo-prompt",
)
"""They are paid for a form that needs a longer answer, or for two things, in the task that they are for."""
PICTURED = (
    "affordance-r1",
    "ar-grpo",
    "dmospeech-2",
    "gui-rcpo",
    "lpo-gui",
    "rrvf",
    "table2latex-rl",
    "uav-vl-r1",
    "var-grpo",
    "videochat-r1",
    "vision-r1",
)
"""They read boxes, clicks, films, parts, digits, symbols or tables, as only their own tasks have; claims train them."""
ROUTING = ("camp-pvrp", "parco")
"""They need several vehicles, which only `routes` has; claims train them there."""
SEARCHING = ("r1-searcher", "r1-searcher-retrieval", "search-r1", "tree-grpo")
"""They need something to search, and a model that searches: their claims begin with demonstrations."""
TAUGHT = (
    "capo-coop-plan",
    "collabuiagents",
    "craft-gui",
    "knowledge-injection-text-games",
    "mmedagent-rl",
    "mobile-r1-steps",
    "mrag",
    "read-advantage-feedback",
    "reagent-v",
    "reagent-v-dpo",
    "reagent-v-grpo",
    "videochat-m1",
    "vista-tools",
)
"""They read what only their own task tells, in which the shipped model earns nothing before lessons, as claims do."""
OF_WORLDS = ("samalm",)
"""Their workflow grades the moves of an environment, which sums are none."""
TEXTUAL = ("clpo", "clpo-first", "latr", "mpo-mixed-online", "rluf", "toa", "toa-dpo", "webpilot")
"""They read recorded pairs, or judge, rewrite or compare words, or others read answers: no task of control has that."""
REACTING = ("rluf",)
"""They read a classifier of logged reactions, which their claims train."""
COSTLY = ("safe-rlhf-v",)
"""Their second score, the cost, no task of control has."""
ON_PAGES = ("mobile-r1",)
"""Their verdicts are of moves on pages: every episode of CartPole is worth the same to them."""
SCENES = ("prism-3d-pbrl",)
"""Their labeller reads the scenes of the task that they are for."""
CASTS = tuple(name for name, recipe in all_recipes().items() if type(recipe.cast) is not Shared)
"""They seat several policies; a task of one agent refuses them in a sentence."""
READS = {
    name: offer
    for name, recipe in all_recipes().items()
    for part, offer in {
        CentralCritic(): ("mpe:spread?length=5", "joint state"),
        PostDecisionCritic(): ("lots:sizing?length=5", "post-decision states"),
        Chained(): ("rts:beacon?length=5", "parts"),
    }.items()
    if part in recipe.policy_parts
}
READS |= {name: ("dilemma:gathering?traitor=0.5", "joint state") for name in READS if name.startswith("bardec-pomdp")}
READS["bayesian-network-actor-critic"] = ("mpe:spread?length=5&networked=true", "joint state")
READS["dynamic-coalition-mrta"] = ("coalitions?length=5", "joint state")
STORED = tuple(name for name, recipe in all_recipes().items() if recipe.store is not None)
"""They learn from kept transitions of controllers; see `tests/control/test_action_values.py`."""
CENTRAL = tuple(READS)
"""Their critic reads what only some worlds tell (`READS`: one that does, and what it is), no words and no CartPole."""
JOINT = {
    "ami": "choose a task of several agents",
    "black-box-marl-attacks": "task sums is none",
    "dextrack": "use --task grip",
    "flickerfusion": "task sums is none",
    "follower": "use mapf:planned",
    "langtime": "use --task forecast",
    "mats-lp": "use mapf:lifelong",
    "mtmarl-shared-layers": "those of control policies",
    "mfrl-quadrotor": "use --task flights",
    "railgun": "use mapf:whole",
    "scenario-independent-marl-transfer": "carries weights from skirmish to skirmish",
    "snapshot-rl": "use doors:10",
    "twinrl-vla": "use --task reach",
    "wmpo": "use --task door-room",
    "multi-agent-mdp-homomorphic-networks": "those of control policies",
    "vgc-bench": "plays matches of control policies",
}
"""They read what only worlds of several agents tell, and refuse all else in words of their own."""
BELIEVING = {
    **dict.fromkeys(("clam-agent-modelling", "contrabar"), "choose a task such as recall:bandit"),
    "ppo-attention": "such as recall:corridor",
}
"""They learn beliefs of their own of what is unknown, or attend to what was seen, which no language model does."""
IN_TURN = dict.fromkeys((name for name in all_recipes() if name.startswith("l2rlcf")), "reads 'kind' of scenarios")
"""They go from one task to the next, where scenarios say of which they are."""
WITH_TOOLS = ("tool-star", "tool-star-rl", "tool-star-sft")
"""They leave out what is solved without tools, or imitate it: all that is tried here. Claims have what needs tools."""
DENOISING = tuple(
    name for name, recipe in all_recipes().items() if hasattr(recipe.rollout, "plays") and name not in LATENT
)
"""They sample from policies of another kind; `tests/kinds/test_pictures.py` trains some of them."""
OF_WORDS = ("parl", "parl-alternating")
"""Their reward is one of an answer's words."""


TOLD = tuple(name for name, recipe in all_recipes().items() if any(one.reads_metadata for one in recipe.stages))
"""They read what scenarios tell of their solution, which no task of control does."""


def offline_data(file: Path, held: Example | None) -> str:
    """Demonstrations or pairs, for recipes that sample nothing."""
    pair = held is Example.PAIR
    rows = [
        {"prompt": f"What is {n} + 1?", **({"chosen": f"{n + 1}", "rejected": f"{n}"} if pair else {"answer": n + 1})}
        for n in range(20)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def first_steps(
    recipe: str, task: str, tmp_path: Path, *, reward: bool, **settings: Any
) -> tuple[list[dict[str, Any]], bool]:
    """The rows of the first step, of two where the recipe remembers something, and whether the weights changed."""
    known = all_recipes()[recipe]
    steps = 2 if known.hooks or any(known.stateful()) else 1
    pairs: list[tuple[str, Any]] = [("recipe", recipe), ("steps", steps), ("runs", str(tmp_path)), ("threads", 1)]
    prompts, tokens = (8, 64) if recipe in OWN_TASK else (2, 8)
    pairs += [("curriculum.prompts", prompts), ("decoding.max_tokens", tokens)]
    pairs += [("evaluation.n", 2), *([("update.lr", 1e-3)] if has_path(known, "update.lr") else [])]
    if (known.rollout.samples or 1) > 1 and known.rollout.replays is None:
        pairs.append(("rollout.samples", 4))
    source = tasks.find(task)
    rewards = []
    if reward:
        (tmp_path / "mine.py").write_text(REWARDS)
        rewards = [load_reward(f"{tmp_path / 'mine.py'}:spread")]
    trainer = Trainer(configure([*pairs, *settings.items()], source), task=source, rewards=rewards)
    modules = [learner.policy.module for learner in trainer.parts.learners.values()]
    before = [weight.detach().clone() for module in modules for weight in module.parameters()]
    rows = [trainer.step() for _ in range(steps + 1)]
    trainer.folder.release()
    after = [weight for module in modules for weight in module.parameters()]
    changed = any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert all(bool(torch.isfinite(weight).all()) for weight in after)
    return rows[1:], changed


def measured(row: dict[str, Any], name: str) -> list[float]:
    """A metric of every policy that has it; with several policies their names stand before it."""
    return [value for key, value in row.items() if key == name or key.endswith(f"/{name}")]


def mainly(name: str) -> Any:
    """A relative of the recipe that a published row is called by is tried with the slow tests."""
    main = name in all_recipes()[name].catalogue_ids
    return pytest.param(name, marks=[] if main else pytest.mark.slow)


def unseen(name: str) -> Any:
    """As `mainly`; a recipe that trained as shipped, with a verdict of this very code, is tried with the slow tests."""
    seen = fresh(one for one in checks_of(name) if one.shipped and f"--recipe {name}" in one.claim)
    return pytest.param(name, marks=pytest.mark.slow) if seen else mainly(name)


@pytest.mark.parametrize(
    "name",
    map(
        unseen,
        sorted(
            set(all_recipes())
            - {*LATENT, *SCORERS, *SEARCHING, *CENTRAL, *JOINT, *BELIEVING, *IN_TURN, *TAUGHT, *OF_WORLDS, *WITH_TOOLS}
            - {*STORED, *DENOISING, *PICTURED, *REACTING}
        ),
    ),
)
def test_it_trains_a_language_model(name: str, tmp_path: Path) -> None:
    offline = name in OFFLINE
    task = offline_data(tmp_path / "data.jsonl", all_recipes()[name].rollout.replays) if offline else "sums"
    if name in OWN_TASK or offline:
        task = all_recipes()[name].task or task
    if task.startswith("circuits") and not verilog.installed():
        pytest.skip("needs the simulator iverilog")
    rows, changed = first_steps(name, task, tmp_path, reward=not offline and name not in OWN_TASK)
    assert changed
    for row in rows:
        assert measured(row, "loss")
        assert all(map(math.isfinite, measured(row, "loss") + measured(row, "entropy")))
        assert any(found > 0 for found in measured(row, "groups/with_signal"))


@pytest.mark.parametrize(
    "name",
    map(
        mainly,
        sorted(
            set(all_recipes())
            - {
                *SCORERS,
                *OFFLINE,
                *MASKED,
                *LATENT,
                *INVENTED,
                *GUESTS,
                *BY_LENGTH,
                *COSTLY,
                *TEXTUAL,
                *SCENES,
                *OF_WORDS,
                *WITH_TOOLS,
                *ON_PAGES,
                *TOLD,
                *CASTS,
                *CENTRAL,
                *JOINT,
                *STORED,
                *DENOISING,
                *PICTURED,
                *ROUTING,
            }
        ),
    ),
)
def test_it_trains_a_controller(name: str, tmp_path: Path) -> None:
    rows, changed = first_steps(name, "gym:CartPole-v1?max_episode_steps=30", tmp_path, reward=False)
    assert changed
    assert all(math.isfinite(row["loss"]) for row in rows)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_a_controller_has_no_tools_to_weigh(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="choose a task of text like reckoning"):
        first_steps(name, "gym:CartPole-v1?max_episode_steps=30", tmp_path, reward=False)


@pytest.mark.parametrize("name", SEARCHING)
def test_a_task_without_anything_to_search_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to search; choose a task that brings a search tool"):
        first_steps(name, "sums", tmp_path, reward=True)


@pytest.mark.parametrize(
    "name", sorted({*CASTS, *CENTRAL} - {*OFFLINE, *INVENTED, *GUESTS, *LATENT, *SCORERS, *TAUGHT})
)
def test_what_is_for_teams_is_refused_for_a_lone_agent(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has one agent" if name in CASTS else READS[name][1]):
        first_steps(name, "gym:CartPole-v1?max_episode_steps=30", tmp_path, reward=False)


@pytest.mark.parametrize(("name", "why"), [*JOINT.items(), *BELIEVING.items(), *IN_TURN.items()])
def test_what_reads_worlds_is_refused_for_words(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=why):
        first_steps(name, "sums", tmp_path, reward=True)


@pytest.mark.parametrize("name", CENTRAL)
def test_a_central_critic_is_refused_for_words(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=READS[name][1]):
        first_steps(name, "sums", tmp_path, reward=True)


@pytest.mark.parametrize("name", CENTRAL)
def test_a_central_critic_trains_on_a_joint_state(name: str, tmp_path: Path) -> None:
    rows, changed = first_steps(name, READS[name][0], tmp_path, reward=False)
    assert changed
    assert all(math.isfinite(found) for row in rows for found in measured(row, "loss"))


@pytest.mark.parametrize("name", STORED)
def test_a_store_of_transitions_is_refused_for_words(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="keeps no text"):
        first_steps(name, "sums", tmp_path, reward=True)


@pytest.mark.parametrize("name", COSTLY)
def test_a_cost_that_nobody_tells_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="reads a score 'cost'"):
        first_steps(name, "gym:CartPole-v1?max_episode_steps=30", tmp_path, reward=False)


@pytest.mark.parametrize(("task", "why"), [("gym:CartPole-v1", "reads scenes of point-trap"), ("sums", "in words")])
@pytest.mark.parametrize("name", SCENES)
def test_a_labeller_of_scenes_refuses_other_tasks(name: str, task: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=why):
        first_steps(name, task, tmp_path, reward=False)


@pytest.mark.parametrize("name", OF_WORDS)
def test_a_reward_of_words_is_refused_where_there_are_none(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="rewards words"):
        first_steps(name, "gym:CartPole-v1?max_episode_steps=30", tmp_path, reward=False)


@pytest.mark.parametrize("name", map(mainly, TOLD))
def test_hints_that_nobody_tells_are_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"of scenarios, and those of task .* give data with that column"):
        first_steps(name, "gym:CartPole-v1", tmp_path, reward=False)


@pytest.mark.parametrize("name", INVENTED)
def test_invented_problems_are_refused_for_a_controller(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="invented"):
        first_steps(name, "gym:CartPole-v1", tmp_path, reward=False)


@pytest.mark.parametrize("name", LATENT)
def test_latent_thoughts_are_refused_for_a_controller(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="kind latent"):
        first_steps(name, "gym:CartPole-v1", tmp_path, reward=False)


@pytest.mark.parametrize("name", REACTING)
def test_a_classifier_of_reactions_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a run of reward-binary on logged reactions"):
        first_steps(name, "sums", tmp_path, reward=True)


@pytest.mark.parametrize("name", OFFLINE)
def test_recorded_text_is_refused_for_a_controller_in_a_sentence(name: str, tmp_path: Path) -> None:
    from tiny_runs import call

    said = call("train", "--task", "gym:CartPole-v1", "--recipe", name, "--runs", tmp_path, "--steps", "1", "--quiet")
    assert said.code == 2
    assert len(said.err) < 300


@pytest.mark.parametrize("name", [mainly(name) for name in DENOISING])
def test_what_denoises_is_refused_for_words(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"samples from policies of the kind|reads 'subject' of"):
        first_steps(name, "sums", tmp_path, reward=True, model="nano")
