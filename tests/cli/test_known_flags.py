"""Settings of other libraries: each is taken as what means the same here, or refused with what to write instead.

The expectations are from the documentation and sources of those libraries, not from the table that is tested.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_runs import TINY, call

import hocket
from hocket.apps.cli.parser import split_settings
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.names import RECIPES, unknown_recipe
from hocket.core.notices import listening
from hocket.recipes import find
from hocket.tasks import find as find_task
from hocket.tasks.columns import NAMES
from hocket.train.config import configure, is_of_recipe
from hocket.train.known_names import COLUMNS, EVAL_TASK, described, resolved, settings_of
from hocket.train.known_settings import KNOWN
from hocket.train.settings import Config

DOCS = Path(__file__).parents[2] / "docs"
TEXT, CONTROL = "sums", "gym:CartPole-v1"

TAKEN: list[tuple[str, str, str, dict[str, Any]]] = [
    # flag, recipe, task, settings of the run
    # transformers.TrainingArguments: the peak rate of AdamW, its decoupled decay, the largest norm of the gradient.
    ("--learning_rate 1e-5", "grpo", TEXT, {"update.lr": 1e-5}),
    ("--learning-rate 1e-5", "dpo", TEXT, {"update.lr": 1e-5}),
    ("--weight_decay 0.01", "sft", TEXT, {"update.weight_decay": 0.01}),
    ("--max_grad_norm 0.5", "grpo", TEXT, {"update.clip_norm": 0.5}),
    ("--lr_scheduler_type cosine", "sft", TEXT, {"update.schedule": "cosine"}),
    ("--lr_scheduler_type constant_with_warmup", "sft", TEXT, {"update.schedule": "constant"}),
    ("--warmup_steps 10", "sft", TEXT, {"update.warmup": 10}),
    ("--max_steps 7", "grpo", TEXT, {"steps": 7}),
    ("--bf16 true", "grpo", TEXT, {"precision": "bf16"}),
    ("--bf16 false", "grpo", TEXT, {"precision": "fp32"}),
    ("--gradient_checkpointing", "sft", TEXT, {"memory.checkpointing": True}),
    ("--save_steps 50", "sft", TEXT, {"checkpoint.steps": 50}),
    ("--eval_steps 50", "sft", TEXT, {"evaluation.every": 50}),
    ("--report_to wandb", "grpo", TEXT, {"track": ("wandb",)}),
    ("--report_to none", "grpo", TEXT, {"track": ()}),
    ("--run_name mine", "grpo", TEXT, {"run": "mine"}),
    # TRL. GRPOConfig: completions per prompt, mu, the two bounds of the clip, the length of a completion; epsilon is
    # both bounds unless epsilon_high is given; delta bounds the ratio where the advantage is negative.
    ("--num_generations 4", "grpo", TEXT, {"rollout.samples": 4}),
    ("--num_iterations 2", "grpo", TEXT, {"update.epochs": 2}),
    ("--epsilon 0.1", "grpo", TEXT, {"objective.low": 0.1, "objective.high": 0.1}),
    ("--epsilon_high 0.28 --epsilon 0.1", "grpo", TEXT, {"objective.low": 0.1, "objective.high": 0.28}),
    ("--delta 4", "grpo", TEXT, {"objective.dual": 4.0}),
    ("--max_completion_length 20", "grpo", TEXT, {"decoding.max_tokens": 20}),
    ("--temperature 0.9", "grpo", TEXT, {"decoding.temperature": 0.9}),
    ("--scale_rewards false", "grpo", TEXT, {"credit.scale": None}),
    ("--scale_rewards group", "grpo", TEXT, {"credit.scale": "std"}),
    ("--importance_sampling_level sequence", "grpo", TEXT, {"objective.ratio": "sequence"}),
    ("--importance_sampling_level token", "gspo", TEXT, {"objective.ratio": "decision"}),
    ("--use_vllm true", "grpo", TEXT, {"engine.kind": "vllm"}),
    ("--lora_r 16 --lora_alpha 32", "grpo", TEXT, {"lora.rank": 16, "lora.alpha": 32.0}),
    ("--torch_dtype bfloat16", "grpo", TEXT, {"precision": "bf16"}),
    # beta: of the implicit reward in DPOConfig, KTOConfig (also in its estimate of the KL) and SimPO, lambda of the
    # odds ratio in ORPOConfig, the coefficient of the KL term in GRPOConfig and of the KL in the reward in NashMD.
    ("--beta 0.2", "dpo", TEXT, {"objective.beta": 0.2}),
    ("--beta 0.2", "kto", TEXT, {"objective.beta": 0.2, "shaping.0.beta": 0.2}),
    ("--beta 0.2", "orpo", TEXT, {"objective.coefficient": 0.2, "objective.beta": 1.0}),
    ("--beta 0.02", "grpo-kl", TEXT, {"regularisers.0.coefficient": 0.02}),
    ("--beta 0.02", "nash-md", TEXT, {"shaping.1.coefficient": 0.02}),
    ("--simpo_gamma 0.5", "simpo", TEXT, {"objective.margin": 0.5}),
    ("--label_smoothing 0.1", "dpo", TEXT, {"objective.label_smoothing": 0.1}),
    ("--label_smoothing 0.1", "robust-dpo", TEXT, {"objective.link.flip": 0.1, "objective.label_smoothing": 0.0}),
    ("--desirable_weight 1.5", "kto", TEXT, {"objective.desirable": 1.5}),
    ("--center_rewards_coefficient 0.01", "reward-model", TEXT, {"objective.centring": 0.01}),
    # PPOConfig: the KL penalty is part of the reward.
    ("--kl_coef 0.1", "ppo-rlhf", TEXT, {"shaping.0.coefficient": 0.1}),
    ("--cliprange_value 0.2", "ppo-rlhf", TEXT, {"regularisers.0.clip": 0.2}),
    ("--num_ppo_epochs 2 --num_mini_batches 2", "ppo-rlhf", TEXT, {"update.epochs": 2, "update.minibatches": 2}),
    # verl: train_batch_size counts prompts; kl_loss_coef is of the loss, kl_ctrl.kl_coef of the reward; low_var_kl is
    # k3; clip_ratio is both bounds; adv_estimator names the method.
    ("--data.train_batch_size 8", "grpo", TEXT, {"curriculum.prompts": 8}),
    ("--data.max_response_length 30", "grpo", TEXT, {"decoding.max_tokens": 30}),
    ("--actor_rollout_ref.rollout.n 5", "grpo", TEXT, {"rollout.samples": 5}),
    ("--actor_rollout_ref.actor.optim.lr 1e-6", "grpo", TEXT, {"update.lr": 1e-6}),
    ("--actor_rollout_ref.actor.kl_loss_coef 0.001", "grpo-kl", TEXT, {"regularisers.0.coefficient": 0.001}),
    ("--actor_rollout_ref.actor.kl_loss_type low_var_kl", "grpo-kl", TEXT, {"regularisers.0.estimator": "k3"}),
    ("--algorithm.kl_ctrl.kl_coef 0.001", "ppo-rlhf", TEXT, {"shaping.0.coefficient": 0.001}),
    ("--actor_rollout_ref.actor.clip_ratio 0.1", "grpo", TEXT, {"objective.low": 0.1, "objective.high": 0.1}),
    ("--actor_rollout_ref.actor.clip_ratio_c 3.0", "grpo", TEXT, {"objective.dual": 3.0}),
    ("--loss_agg_mode seq-mean-token-mean", "dapo", TEXT, {"objective.aggregate": "sequence-mean"}),
    ("--algorithm.lam 0.9 --algorithm.gamma 0.99", "ppo-rlhf", TEXT, {"credit.lam": 0.9, "credit.gamma": 0.99}),
    ("--algorithm.norm_adv_by_std_in_grpo False", "grpo", TEXT, {"credit.scale": None}),
    ("--trainer.test_freq -1 --trainer.save_freq 20", "grpo", TEXT, {"evaluation.every": 0, "checkpoint.steps": 20}),
    # OpenRLHF: rollout_batch_size counts prompts; l2 is the weight decay; max_epochs are passes over the samples of a
    # step in PPO.
    ("--rollout_batch_size 8 --n_samples_per_prompt 4", "grpo", TEXT, {"curriculum.prompts": 8, "rollout.samples": 4}),
    ("--actor_learning_rate 5e-7", "ppo-rlhf", TEXT, {"update.lr": 5e-7}),
    ("--init_kl_coef 0.01", "reinforce++", TEXT, {"shaping.0.coefficient": 0.01}),
    ("--max_epochs 2", "ppo-rlhf", TEXT, {"update.epochs": 2}),
    ("--train_batch_size 32", "dpo", TEXT, {"curriculum.prompts": 32}),
    ("--generate_max_len 40", "grpo", TEXT, {"decoding.max_tokens": 40}),
    ("--lambd 0.95", "ppo-rlhf", TEXT, {"credit.lam": 0.95}),
    ("--eps_clip 0.3 --dual_clip 3", "grpo", TEXT, {"objective.low": 0.3, "objective.high": 0.3, "objective.dual": 3}),
    # Stable-Baselines3.
    ("--gamma 0.99 --gae_lambda 0.9", "ppo", CONTROL, {"credit.gamma": 0.99, "credit.lam": 0.9}),
    ("--clip_range 0.1", "ppo", CONTROL, {"objective.low": 0.1, "objective.high": 0.1}),
    ("--n_epochs 3", "ppo", CONTROL, {"update.epochs": 3}),
    ("--ent_coef 0.02", "a2c", CONTROL, {"regularisers.1.coefficient": 0.02}),
    ("--clip_range_vf 0.2", "ppo", CONTROL, {"regularisers.0.clip": 0.2}),
    ("--policy MlpLstmPolicy", "ppo", CONTROL, {"network.body": "recurrent"}),
    # CleanRL: anneal_lr lets the rate fall to 0 linearly; num_minibatches counts them.
    ("--anneal-lr", "ppo", CONTROL, {"update.schedule": "linear"}),
    ("--num-minibatches 2 --update-epochs 5", "ppo", CONTROL, {"update.minibatches": 2, "update.epochs": 5}),
    ("--clip-coef 0.1", "ppo", CONTROL, {"objective.low": 0.1, "objective.high": 0.1}),
    ("--norm-adv False", "ppo", CONTROL, {"credit.whiten": False}),
    ("--exp-name mine", "ppo", CONTROL, {"run": "mine"}),
    # Last parts of dotted keys.
    ("--lr 1e-4", "grpo", TEXT, {"update.lr": 1e-4}),
    ("--max_tokens 20", "grpo", TEXT, {"decoding.max_tokens": 20}),
    ("--samples 4 --prompts 2", "grpo", TEXT, {"rollout.samples": 4, "curriculum.prompts": 2}),
    ("--epochs 2", "grpo", TEXT, {"update.epochs": 2}),
    ("--rank 4", "grpo", TEXT, {"lora.rank": 4}),
]

REFUSED: list[tuple[str, str, str, str]] = [
    # flag, recipe, task, words of the message, in order
    # Samples of one device and one pass, of which the effective batch is a multiple.
    ("--per_device_train_batch_size 8", "grpo", TEXT, "transformers.*--curriculum.prompts.*--rollout.samples"),
    ("--gradient_accumulation_steps 4", "grpo", TEXT, "none here.*--memory.token_budget"),
    # Passes over the data; steps are counted here.
    ("--num_train_epochs 3", "sft", TEXT, "--steps.*epochs × rows / curriculum.prompts"),
    ("--epochs 3", "sft", TEXT, "--steps.*epochs × rows"),
    ("--warmup_ratio 0.1", "sft", TEXT, "--update.warmup.*ratio × steps"),
    ("--output_dir out/mine", "grpo", TEXT, "--runs DIR --run NAME"),
    ("--fp16", "grpo", TEXT, "--precision bf16"),
    ("--optim sgd", "grpo", TEXT, "--update.method sgd"),
    ("--beta 0.04", "grpo", TEXT, "TRL.*--recipe grpo-kl --regularisers.0.coefficient 0.04"),
    ("--loss_type ipo", "dpo", TEXT, "--recipe ipo"),
    ("--loss_type dapo", "grpo", TEXT, "--objective.aggregate token-mean.*--recipe dapo"),
    ("--loss_type hinge", "dpo", TEXT, "--objective.link hinge"),
    # TRL clips CISPO's weights at epsilon_high itself, the paper and this library at 1 + high.
    ("--epsilon_high 5", "cispo", TEXT, r"--objective.high \(epsilon_high - 1"),
    ("--top_p 0.9", "grpo", TEXT, "TRL or OpenRLHF.*another distribution"),
    ("--max_length 512", "dpo", TEXT, "FILE.max_length=512&truncate=end"),
    # The value loss of TRL and CleanRL has a half before the square, that of Stable-Baselines3 has none.
    ("--vf_coef 0.5", "ppo", CONTROL, "TRL or CleanRL.*half.*Stable-Baselines3.*--regularisers.0.coefficient 0.5"),
    # Stable-Baselines3 stops at 1.5 times the target.
    ("--target_kl 0.02", "ppo", CONTROL, "Stable-Baselines3.*--update.target_kl.*1.5"),
    ("--batch_size 64", "ppo", CONTROL, "Stable-Baselines3.*--update.minibatches"),
    ("--n_envs 8", "ppo", CONTROL, "--curriculum.prompts.*episodes"),
    ("--num-steps 128", "ppo", CONTROL, "CleanRL.*--curriculum.prompts.*episodes"),
    ("--total-timesteps 100000", "ppo", CONTROL, "--steps.*whole episodes"),
    ("--buffer_size 1000", "ppo", CONTROL, "store.size, which recipe ppo lacks"),
    ("--ent_coef 0.01", "ppo", CONTROL, "--regularisers.*EntropyBonus, coefficient: 0.01.*no entropy bonus"),
    ("--clip_range 0.1", "a2c", CONTROL, "--objective.low, with a recipe"),
    ("--gamma 0.9", "grpo", TEXT, "--credit.gamma, with a recipe such as ppo"),
    # Prompts of an optimiser step, and sequences of one pass on one GPU.
    ("--actor.ppo_mini_batch_size 256", "grpo", TEXT, "verl.*--update.minibatches.*train_batch_size / ppo_mini"),
    ("--actor.ppo_micro_batch_size_per_gpu 4", "grpo", TEXT, "--memory.token_budget"),
    ("--algorithm.adv_estimator reinforce_plus_plus", "grpo", TEXT, r"--recipe reinforce\+\+$"),
    ("--algorithm.adv_estimator gae", "grpo", TEXT, "--recipe ppo-rlhf"),
    ("--algorithm.kl_ctrl.kl_coef 0.01", "grpo", TEXT, "--recipe ppo-rlhf --shaping.0.coefficient 0.01"),
    ("--trainer.total_epochs 15", "grpo", TEXT, "--steps.*epochs × rows"),
    ("--critic.optim.lr 1e-5", "ppo-rlhf", TEXT, "PartedStep.*critic: {lr: 1e-5}"),
    ("--train_batch_size 128", "ppo-rlhf", TEXT, "OpenRLHF.*--update.minibatches"),
    ("--max_epochs 2", "sft", TEXT, "--steps.*epochs × rows"),
    ("--advantage_estimator group_norm", "grpo", TEXT, "--recipe grpo$"),
    ("--eps_clip_low_high 0.2", "grpo", TEXT, "--objective.low LOW --objective.high HIGH"),
    ("--coefficient 0.1", "ippo", CONTROL, "several.*--regularisers.0.coefficient, --regularisers.1.coefficient"),
    ("--num_generations 4 --n_samples_per_prompt 8", "grpo", TEXT, "both set --rollout.samples"),
]


def typed(line: str, recipe: str, task: str) -> tuple[list[tuple[str, Any]], list[str]]:
    """The settings that flags are taken as, and what is said of them."""
    _, pairs = split_settings(shlex.split(line), set())
    said: list[str] = []
    with listening(said.append):
        return resolved([("task", task), ("recipe", recipe), *pairs], prefix="--"), said


@pytest.mark.parametrize(("line", "recipe", "task", "expected"), TAKEN)
def test_what_means_the_same_is_taken(line: str, recipe: str, task: str, expected: dict[str, Any]) -> None:
    pairs, said = typed(line, recipe, task)
    config = configure(pairs, find_task(task))
    values = settings_of(config, config.recipe)
    assert {key: values[key] for key in expected} == expected
    flags = [word for word in line.split() if word.startswith("--")]
    assert len(said) == len(flags)
    for flag, sentence in zip(flags, said, strict=True):
        assert re.match(rf"{flag.replace('-', '[-_]')} \S+: taken as --", sentence)


@pytest.mark.parametrize(("line", "recipe", "task", "words"), REFUSED)
def test_what_means_something_else_is_refused_with_what_to_write(line: str, recipe: str, task: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        typed(line, recipe, task)
    assert re.search(words, str(refused.value)), refused.value
    assert len(str(refused.value)) < 400


def test_what_is_advised_is_accepted() -> None:
    """The advice of a refusal is a command that configures a run."""
    for line, recipe, task in [
        ("--recipe grpo-kl --regularisers.0.coefficient 0.04", "grpo", TEXT),
        ("--recipe ppo-rlhf --shaping.0.coefficient 0.01", "grpo", TEXT),
        ("--objective.link hinge", "dpo", TEXT),
    ]:
        assert configure(typed(line, recipe, task)[0], find_task(task))
    for line in ("--ent_coef 0.01", "--critic.optim.lr 1e-5"):
        with pytest.raises(ConfigurationError) as refused:
            typed(line, "ppo", CONTROL)
        advice = re.search(r"here (--\w+ '.*')", str(refused.value))
        assert advice is not None
        pairs, said = typed(advice[1], "ppo", CONTROL)
        config = configure(pairs, find_task(CONTROL))
        assert not said
        assert (config.recipe.regularisers[-1].coefficient == 0.01) or config.recipe.update.paces["critic"].lr == 1e-5


def test_a_run_has_the_names_of_this_library_alone(tmp_path: Path) -> None:
    flags = ["--num_generations", "4", "--max-completion-length", "10", "--learning_rate", "1e-4", "--run_name", "mine"]
    said = call("train", *TINY[:-2], *flags, "--steps", "1", "--runs", tmp_path, "--quiet")
    assert (said.code, said.out) == (0, "")
    assert said.err.splitlines()[0] == "! --num_generations 4: taken as --rollout.samples 4"
    assert len(said.err.splitlines()) == 4
    text = (tmp_path / "mine" / "config.yaml").read_text()
    config = yaml.safe_load(text)
    assert (config["recipe"]["rollout"]["samples"], config["recipe"]["update"]["lr"]) == (4, 1e-4)
    assert not re.search("num_generations|learning_rate|completion_length|run_name", text)


def test_python_takes_the_same_names(tmp_path: Path) -> None:
    tiny = {
        "decoding.max_tokens": 8,
        "evaluation.n": 4,
        "rollout.samples": 4,
        "curriculum.prompts": 2,
        "threads": 1,
        "lessons": 0,
    }
    with pytest.warns(RuntimeWarning, match="learning_rate 1e-05: taken as update.lr 1e-05"):
        run = hocket.train("sums", steps=1, runs=str(tmp_path), learning_rate=1e-5, **tiny)
    assert yaml.safe_load((run.path / "config.yaml").read_text())["recipe"]["update"]["lr"] == 1e-5
    with pytest.raises(ConfigurationError, match="batch_size 8: of TRL, here --curriculum"):
        hocket.train("sums", batch_size=8, runs=str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is no setting 'stepz'; did you mean 'steps'"):
        hocket.train("sums", stepz=8, runs=str(tmp_path))


def test_names_in_a_file_count_too(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("recipe: dpo\nbeta: 0.3\nactor_rollout_ref:\n  actor: {optim: {lr: 1.0e-6}}\n")
    values = call("train", file, "--list-flags", "--json").json
    assert (values["objective.beta"], values["update.lr"]) == ("0.3", "1e-06")
    assert "data.n=3; a setting is written --KEY VALUE" in call("train", file, "data.n=3").err
    assert "a setting is written --data.n 3" in call("train", "data.n=3").err


def test_other_commands_say_what_a_name_is() -> None:
    assert (
        "there is no setting 'num_generations'; here `--rollout.samples`"
        in call("eval", "nano", "--num_generations", "3").err
    )


def test_flags_are_not_abbreviated() -> None:
    said = call("train", "--step", "3")
    assert said.code == 2
    assert "there is no setting 'step'; did you mean 'steps'" in said.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "train --recipe grpoo",
            "'grpoo' is unknown; did you mean 'grpo', '[a-z-]+' or '[a-z-]+'.* `hocket recipes --s",
        ),
        ("train --recipe zzzz", "'zzzz' is unknown; `hocket recipes --search WORD`"),
        ("train --recipe tqc", "'tqc' is not in this library .off-policy.*nearest in kind: sac or td3"),
        ("recipes crossq", "'crossq' is not in this library"),
        ("train --recipe rainbow", "'rainbow' is not in this library"),
        ("train --task sum", "there is no task 'sum'; did you mean 'sums'.*`hocket tasks --search WORD`"),
        ("train --task CartPole-v1", "did you mean 'gym:CartPole-v1'"),
        ("train --task qqqq", "'qqqq'; `hocket tasks --search WORD`"),
        ("train --task gym:CartPol-v1", "did you mean 'CartPole-v1'"),
        (
            "train --workflow debte",
            "there is no workflow 'debte'; did you mean 'debate'.*`hocket workflows --search WORD`",
        ),
        ("train --workflow qqqq", "`hocket workflows --search WORD`"),
        (
            "train --model ./nanoo",
            "there is no model folder './nanoo'; did you mean 'nano'.*a model folder or a hub name",
        ),
        ("train --leraning_rate 1", "there is no setting 'leraning_rate'; did you mean 'learning_rate'.*--list-flags"),
        ("trian", "there is no command 'trian'; did you mean 'train'.* `hocket --help` lists all commands"),
        ("qqqq", "there is no command 'qqqq'; `hocket --help` lists all commands"),
        ("train --resume x --max_steps 9", "max_steps cannot change .*; here `--steps`"),
        ("train --qqqq 1", "there is no setting 'qqqq'; `hocket train --list-flags`"),
    ],
)
def test_unknown_names_show_the_nearest_and_where_to_look(line: str, words: str) -> None:
    said = call(*line.split())
    assert said.code == 2
    assert re.search(words, said.err), said.err
    assert len(said.err) < 300


ELSEWHERE = ("tqc", "redq", "ddqn", "rainbow", "qplex", "coma", "a3c", "dreamer", "td3-bc", "gail", "opd", "raft")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_methods_that_are_not_there_name_methods_that_are(name: str) -> None:
    assert name not in RECIPES
    message = str(unknown_recipe(name))
    assert f"{name!r} is not in this library" in message
    named = message.partition("nearest in kind: ")[2].partition(". ")[0]
    assert [word for word in re.findall(r"[a-z0-9-]+", named) if word in RECIPES]


def test_the_table_names_what_there_is() -> None:
    names = ("grpo", "grpo-kl", "dapo", "sapo", "ppo-rlhf", "a2c", "dpo", "robust-dpo", "kto", "reward-model")
    recipes = [find(name) for name in (*names, "process-reward", "nash-md", "xpo", "orpo", "sac", "dqn")]
    recipes.append(find("dpo").but({"objective.link": "discopop"}))
    stages = {type(stage).__name__ for recipe in recipes for stage in recipe.stages}
    for entry in KNOWN:
        for place in entry.places:
            _, colon, rest = place.partition(":")
            if colon:
                assert stages & set(rest.partition(".")[0].split("|")), place
            elif is_of_recipe(place):
                assert any(has_path(recipe, place) for recipe in recipes), place
            else:
                known = place in {*settings_of(Config()), EVAL_TASK} or place.removeprefix(COLUMNS) in NAMES
                assert known, place
        for text in (entry.instead, *entry.choices.values()):
            for name in re.findall(r"--recipe ([a-z][a-z+-]+)", text):
                assert name in RECIPES, text


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of a page."""
    below = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2]
    table = below[below.index("| ") :].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def _flags(text: str) -> set[str]:
    return {re.sub(r"\.\d+\.", ".N.", flag) for flag in re.findall(r"--[a-zA-Z][\w.]*", text)}


@pytest.mark.parametrize(
    ("page", "heading", "libraries"),
    [
        ("from-trl.md", "Arguments", ("TRL", "transformers")),
        ("from-verl.md", "Settings", ("verl",)),
        ("control.md", "The same in Stable-Baselines3 and BenchMARL", ("Stable-Baselines3",)),
    ],
)
def test_the_pages_agree_with_the_table(page: str, heading: str, libraries: tuple[str, ...]) -> None:
    told: dict[str, str] = {}
    for first, *rest in _rows(page, heading):
        dotted = "[a-z_0-9.]+" if libraries == ("verl",) else "[a-z_0-9]+"
        for name in re.findall(rf"`([a-z]{dotted})`", first):
            told[name] = told.get(name, "") + " ".join(rest)
    assert len(told) > 10
    for name, text in told.items():
        entries = [entry for entry in KNOWN if name in entry.names and entry.library in libraries]
        assert entries, f"{page} has {name}, which the table lacks"
        wanted = {flag for entry in entries for flag in _flags(described(entry))}
        assert wanted <= _flags(text), f"{page}: {name}"
