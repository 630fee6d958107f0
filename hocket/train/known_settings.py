"""Settings of other libraries, and what each is here: TRL, transformers, verl, OpenRLHF, Stable-Baselines3, CleanRL.

An entry that names `places` means the same in the same unit, so `hocket.train.known_names` takes it. Any other says
what to write instead, and why. docs/known-flags.md is made from it, and the tables of docs/from-trl.md and
docs/control.md agree with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class KnownSetting:
    """A setting of a library, or several that have the same answer.

    Attributes:
        library: whose it is. names: as that library spells them, with underscores.
        places: dotted settings here, of which the first that the recipe has is taken. `SLOT:CLASS.NAME` is a setting of
            the stage of this class in a slot with several.
        also: further places that get the same value, unless something else sets them. `SLOT:*.NAME` is all of a slot.
        values: its values by the values there, as text; others are passed on.
        form: what the value becomes, with `{}` for it.
        note: what to know where it is taken.
        instead: what to write where it is not; `{recipe}` and `{value}` are filled in. why: the reason.
        choices: `instead` by the value, for values that have an answer of their own.
        only: the class of a stage that a recipe must have for this entry to count, or `recorded` for recipes that take
            their responses from the data.
    """

    library: str
    names: tuple[str, ...]
    places: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    form: str = "{}"
    note: str = ""
    instead: str = ""
    why: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    only: str = ""


def _same(library: str, names: str, *places: str, **more: Any) -> KnownSetting:
    return KnownSetting(library, tuple(names.split()), places, **more)


def _other(library: str, names: str, instead: str, why: str = "", **more: Any) -> KnownSetting:
    return KnownSetting(library, tuple(names.split()), instead=instead, why=why, **more)


def _none(library: str, names: str, why: str) -> KnownSetting:
    return KnownSetting(library, tuple(names.split()), why=why)


def _by_recipe(names: str) -> dict[str, str]:
    """`choices` of values that are recipes here, each `VALUE=RECIPE`."""
    return {value: f"--recipe {recipe}" for value, recipe in (name.split("=") for name in names.split())}


TRL, HF, VERL, SCRIPTS = "TRL", "transformers", "verl", "training scripts"
OPENRLHF, SB3, CLEANRL = "OpenRLHF", "Stable-Baselines3", "CleanRL"

KL, KL_REWARD = "regularisers:KLToReference", "shaping:KLInReward"
VALUE, ENTROPY = "regularisers:ValueLoss|CentralValueLoss", "regularisers:EntropyBonus"
ON_OFF = {"true": "bf16", "false": "fp32"}
PASSES = {"note": "passes over each batch"}
CLIP: dict[str, Any] = {"also": ("objective.high",), "instead": "--objective.low, with a recipe such as ppo or grpo"}
NO_KL: dict[str, Any] = {
    "instead": "--recipe grpo-kl --regularisers.0.coefficient {value}",
    "why": "{recipe} has no KL term",
}
NO_REWARD_KL: dict[str, Any] = {
    "instead": "--recipe ppo-rlhf --shaping.0.coefficient {value}",
    "why": "{recipe} has no KL penalty in its reward",
}
TWO_LOSSES = "{{type: hocket.objectives.ValueLoss}}, {{type: hocket.objectives.EntropyBonus, coefficient: {value}}}"
BONUS = f"--regularisers '[{TWO_LOSSES}]'"
NO_BONUS: dict[str, Any] = {"instead": BONUS, "why": "{recipe} has no entropy bonus"}
OF_KL = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}
TRUNCATION = "log-probs would belong to another distribution, so training samples from the whole one"
CRITIC = "--update '{{type: hocket.update.PartedStep, epochs: 4, minibatches: 4, paces: {{critic: {{lr: {value}}}}}}}'"
MINIBATCH = "how many mini-batches a step has, not how large they are"
SCRATCH = "tokens per forward and backward pass, chosen by measurement; gradients do not depend on it"
EPISODES = "episodes in a batch, each to its end; how many run at once changes no number"
NO_DROPOUT = "sampler and learner would differ, so neither has dropout"
RUN_FOLDER = "a run is the folder DIR/NAME"
DATA = "--task FILE.jsonl, .csv, .parquet or hub:OWNER/NAME"
CLUSTER = "--leaves N --cluster local --learners N"

KNOWN: tuple[KnownSetting, ...] = (
    _other(
        SCRIPTS, "epochs", "--steps", "epochs × rows / curriculum.prompts, for passes over the data", only="recorded"
    ),
    _same(SCRIPTS, "epochs", "update.epochs", note="passes over each batch; passes over the data are --steps"),
    # ---------------------------------------------------------------- transformers: TrainingArguments
    _same(HF, "learning_rate", "update.lr"),
    _same(HF, "max_steps", "steps", note="training steps"),
    _same(HF, "lr_scheduler_type", "update.schedule", values={"constant_with_warmup": "constant"}),
    _same(HF, "warmup_steps", "update.warmup"),
    _other(HF, "warmup_ratio", "--update.warmup", "steps, not a share: ratio × steps"),
    _same(HF, "max_grad_norm", "update.clip_norm"),
    _same(HF, "weight_decay", "update.weight_decay"),
    _other(HF, "adam_beta1 adam_beta2", "--update.betas '[0.9, 0.999]'", "both together"),
    _none(HF, "adam_epsilon", "AdamW's usual 1e-8"),
    _other(HF, "optim", "--update.method", "adamw or sgd", choices={"sgd": "--update.method sgd"}),
    _other(
        HF,
        "per_device_train_batch_size",
        "--curriculum.prompts and --rollout.samples",
        "a step is prompts × samples; passes are split by --memory.token_budget, which changes no gradient",
    ),
    _none(HF, "gradient_accumulation_steps", "it follows from the batch and --memory.token_budget"),
    _none(HF, "per_device_eval_batch_size auto_find_batch_size", "memory is measured, and a step that fails is split"),
    _other(HF, "num_train_epochs", "--steps", "epochs × rows / curriculum.prompts"),
    _same(HF, "bf16", "precision", values=ON_OFF),
    _other(HF, "fp16 tf32", "--precision bf16", "or fp32; there is no fp16"),
    _same(HF, "gradient_checkpointing", "memory.checkpointing"),
    _same(HF, "seed", "seed"),
    _other(HF, "output_dir", "--runs DIR --run NAME", RUN_FOLDER),
    _same(HF, "run_name", "run", note="the name of the run folder, and of the run in trackers"),
    _same(HF, "report_to", "track", values={"none": ()}),
    _same(HF, "save_steps", "checkpoint.steps"),
    _none(HF, "save_total_limit", "the last two checkpoints and the best stay"),
    _other(HF, "save_strategy", "--checkpoint.steps", "checkpoints are always written"),
    _same(HF, "eval_steps", "evaluation.every"),
    _other(
        HF,
        "eval_strategy",
        "--evaluation.every",
        "steps, 0 for none",
        choices={"no": "--evaluation.every 0", "false": "--evaluation.every 0"},
    ),
    _other(HF, "resume_from_checkpoint", "hocket train --resume RUN"),
    _other(HF, "push_to_hub hub_model_id", "hocket export RUN --merge --push OWNER/NAME", "after training"),
    _none(HF, "logging_steps logging_strategy logging_dir", "every step is in metrics.jsonl and in the report"),
    _none(HF, "load_best_model_at_end", "the best checkpoint is kept: hocket export RUN --checkpoint best"),
    _none(HF, "do_train do_eval overwrite_output_dir", "a run trains, and is measured before and after"),
    _none(HF, "remove_unused_columns group_by_length dataloader_num_workers", "all columns reach rewards, unpadded"),
    _other(HF, "deepspeed fsdp", f"{CLUSTER} --shard true", "shards weights over processes"),
    _other(HF, "use_cpu no_cuda", "--device cpu"),
    _none(HF, "torch_compile", "it has kernels of its own"),
    _other(HF, "disable_tqdm", "--quiet"),
    # ---------------------------------------------------------------- TRL
    _same(TRL, "model model_name_or_path", "model"),
    _other(TRL, "ref_model", "--teacher MODEL", "only for another model; else it is the model before training"),
    _same(TRL, "dataset_name", "task", form="hub:{}", note="one tenth is held out if there is no split"),
    _other(TRL, "dataset_config", "--task hub:OWNER/NAME:{value}"),
    _other(TRL, "dataset_train_split", '--task "hub:OWNER/NAME?train={value}"'),
    _other(TRL, "dataset_test_split", '--task "hub:OWNER/NAME?eval={value}"'),
    _other(TRL, "train_dataset", DATA, "one tenth is held out if there is no split"),
    _other(TRL, "eval_dataset", "--eval-task FILE.jsonl, .csv, .parquet or hub:OWNER/NAME"),
    _other(TRL, "reward_funcs", "--reward FILE.py:FUNCTION", "the same signature; repeat it for several"),
    _other(TRL, "reward_weights", "--reward FILE.py:FUNCTION=WEIGHT"),
    _other(TRL, "reward_model_path reward_model_name_or_path", "--reward model:{value}"),
    _same(TRL, "num_generations", "rollout.samples"),
    _same(TRL, "num_iterations num_ppo_epochs", "update.epochs", **PASSES),
    _other(TRL, "batch_size", "--curriculum.prompts and --rollout.samples", "a step is prompts × samples"),
    _other(TRL, "mini_batch_size", "--update.minibatches", MINIBATCH),
    _other(TRL, "generation_batch_size", "--curriculum.prompts", "prompts of a step: completions / num_generations"),
    _other(TRL, "steps_per_generation", "--update.minibatches", "steps_per_generation / gradient_accumulation_steps"),
    _same(TRL, "num_mini_batches", "update.minibatches"),
    _other(TRL, "total_episodes", "--steps", "episodes / (curriculum.prompts × rollout.samples)"),
    _same(TRL, "beta", "objective.coefficient", only="Odds", note="ORPO's lambda"),
    _same(
        TRL,
        "beta",
        "objective.beta",
        f"{KL}.coefficient",
        f"{KL_REWARD}.coefficient",
        also=("shaping:*.beta",),
        **NO_KL,
    ),
    _other(TRL, "epsilon", "--objective.low", "its CISPO has no lower bound", only="ClippedImportanceWeight"),
    _other(
        TRL,
        "epsilon_high",
        "--objective.high",
        "epsilon_high - 1: weights end at 1 + high",
        only="ClippedImportanceWeight",
    ),
    _same(TRL, "epsilon", "objective.low", **CLIP),
    _same(TRL, "epsilon_high", "objective.high"),
    _same(TRL, "delta", "objective.dual"),
    _same(TRL, "label_smoothing", "objective.link.flip", "objective.label_smoothing"),
    _other(
        TRL,
        "loss_type",
        "--recipe NAME, or --objective.link NAME",
        choices={
            "grpo": "--objective.aggregate sequence-mean, as in --recipe grpo",
            "dapo": "--objective.aggregate token-mean for that loss alone, --recipe dapo for the method",
            "bnpo": "--objective.aggregate token-mean for that loss alone, --recipe bnpo for the method",
            "dr_grpo": "--objective.aggregate constant-length for that loss alone, --recipe dr-grpo for the method",
            "hinge": "--objective.link hinge",
            "exo_pair": "--objective.link exo",
            "discopop": "--objective.link discopop",
            **_by_recipe("cispo=cispo sapo=sapo vespo=vespo sigmoid=dpo ipo=ipo robust=robust-dpo simpo=simpo kto=kto"),
            **_by_recipe("apo_zero=apo-zero apo_down=apo-down bco=bco"),
        },
    ),
    _same(
        TRL,
        "importance_sampling_level",
        "objective.ratio",
        values={"token": "decision"},
        instead="--recipe gspo, for ratios of whole sequences",
    ),
    _same(
        TRL,
        "scale_rewards",
        "credit.scale",
        values={"true": "std", "group": "std", "false": None, "none": None},
        choices={"batch": "--credit.scale_by '{{type: hocket.types.GroupBy}}'"},
    ),
    _other(TRL, "mask_truncated_completions", "--correction '{{type: hocket.rewards.MaskTruncated}}'"),
    _same(TRL, "sapo_temperature_pos", "objective.positive", instead="--recipe sapo"),
    _same(TRL, "sapo_temperature_neg", "objective.negative", instead="--recipe sapo"),
    _other(TRL, "top_entropy_quantile", "--recipe high-entropy-tokens"),
    _other(TRL, "sync_ref_model ref_model_sync_steps", "--recipe grpo-iterative", "its reference follows the policy"),
    _same(TRL, "max_completion_length max_new_tokens response_length", "decoding.max_tokens"),
    _other(
        TRL,
        "max_length truncation_mode",
        '--task "FILE?max_length={value}&truncate=end"',
        "without it a longer row is refused",
        choices={
            "keep_end": '--task "FILE?max_length=N&truncate=start"',
            "keep_start": '--task "FILE?max_length=N&truncate=end"',
        },
    ),
    _other(TRL, "max_prompt_length", '--task "FILE?max_length=N&truncate=start"', "tokens of prompt and response"),
    _same(TRL, "temperature", "decoding.temperature"),
    _none(TRL, "top_p top_k min_p repetition_penalty", TRUNCATION),
    _none(TRL, "packing padding_free", "there is never padding, and shared prompts are computed once"),
    _none(TRL, "assistant_only_loss completion_only_loss", "always so: there is no loss on prompts"),
    _none(TRL, "precompute_ref_log_probs", "the reference's log-probs of recorded answers are kept"),
    _other(TRL, "peft_config use_peft", "--lora.rank 16 --lora.alpha 32 --lora.targets '[q_proj,v_proj]'"),
    _same(TRL, "lora_r", "lora.rank"),
    _same(TRL, "lora_alpha", "lora.alpha"),
    _none(TRL, "lora_dropout disable_dropout", NO_DROPOUT),
    _same(TRL, "lora_target_modules", "lora.targets"),
    _same(TRL, "dtype torch_dtype", "precision", values={"bfloat16": "bf16", "float32": "fp32"}),
    _none(TRL, "attn_implementation load_in_4bit load_in_8bit use_liger_kernel", "it has kernels of its own"),
    _same(TRL, "use_vllm", "engine.kind", values={"true": "vllm", "false": "local"}),
    _other(
        TRL,
        "vllm_mode",
        "--engine vllm",
        "or vllm-server",
        choices={"colocate": "--engine vllm", "server": "--engine vllm-server --engine.url URL"},
    ),
    _other(
        TRL,
        "vllm_gpu_memory_utilization",
        "--engine.arguments.gpu_memory_utilization",
        "or --engine.memory, GiB for keys and values",
    ),
    _other(TRL, "vllm_tensor_parallel_size", "--engine.arguments.tensor_parallel_size"),
    _other(TRL, "vllm_max_model_length", "--engine.arguments.max_model_len"),
    _other(TRL, "vllm_enable_sleep_mode", "--engine.sleep true"),
    _none(TRL, "log_completions num_completions_to_print", "every run keeps them; hocket report RUN shows them"),
    _other(TRL, "chat_template_kwargs", "--chat.VARIABLE VALUE"),
    _same(
        TRL,
        "gamma",
        "credit.gamma",
        note="discount per step",
        instead="--credit.gamma, with a recipe such as ppo or ppo-rlhf",
    ),
    _same(TRL, "lam", "credit.lam", instead="--credit.lam, with a recipe such as ppo or ppo-rlhf"),
    _same(TRL, "cliprange", "objective.low", **CLIP),
    _same(
        TRL, "cliprange_value", f"{VALUE}.clip", instead="--regularisers.0.clip, with a recipe such as ppo or ppo-rlhf"
    ),
    _other(TRL, "vf_coef", "--regularisers.0.coefficient", "half of it: its loss is half the square"),
    _same(TRL, "kl_coef", f"{KL_REWARD}.coefficient", **NO_REWARD_KL),
    _same(TRL, "kl_estimator", f"{KL_REWARD}.estimator", f"{KL}.estimator", instead="--recipe ppo-rlhf"),
    _same(TRL, "desirable_weight", "objective.desirable", instead="--recipe kto"),
    _same(TRL, "undesirable_weight", "objective.undesirable", instead="--recipe kto"),
    _same(TRL, "simpo_gamma", "objective.margin", instead="--recipe simpo --objective.margin"),
    _same(TRL, "ld_alpha", "objective.tail", instead="--recipe dpo --objective.tail"),
    _same(TRL, "use_weighting", "objective.on_policy_weight", instead="--recipe dpo --objective.on_policy_weight true"),
    _same(TRL, "discopop_tau", "objective.link.temperature", instead="--recipe dpo --objective.link discopop"),
    _other(TRL, "reference_free", "--recipe cpo", "or simpo: pairs without a reference"),
    _other(TRL, "rpo_alpha", "--regularisers '[{{type: hocket.objectives.NegativeLogLikelihood}}]'", "with weight 1"),
    _same(
        TRL,
        "f_divergence_type",
        "objective.measure.divergence",
        values={"reverse_kl": "reverse-kl", "js_divergence": "jensen-shannon", "alpha_divergence": "alpha"},
        instead="--recipe dpo",
    ),
    _same(TRL, "center_rewards_coefficient", "objective.centring", instead="--recipe reward-model"),
    _same(TRL, "step_separator", "rollout.separator", instead="--recipe process-reward"),
    _same(TRL, "mixture_coef", "shaping:MixtureWins.mixture", instead="--recipe nash-md"),
    _same(TRL, "alpha", "regularisers:Optimism.coefficient", only="Optimism"),
    # ---------------------------------------------------------------- verl
    _same(VERL, "data.train_batch_size", "curriculum.prompts", note="prompts of a step"),
    _same(VERL, "data.train_files", "task", note="one tenth is held out if there is no split"),
    _same(VERL, "data.val_files", "eval_task", note="all rows of it"),
    _same(VERL, "data.prompt_key", "columns.prompt", note="the column of the prompt"),
    _same(VERL, "data.max_response_length actor_rollout_ref.rollout.response_length", "decoding.max_tokens"),
    _other(
        VERL, "data.max_prompt_length", '--task "FILE?max_length=N&truncate=start"', "tokens of prompt and response"
    ),
    _same(VERL, "actor_rollout_ref.model.path", "model"),
    _same(VERL, "actor_rollout_ref.model.enable_gradient_checkpointing", "memory.checkpointing"),
    _same(VERL, "actor_rollout_ref.model.lora_rank", "lora.rank", choices={"0": "no --lora.rank"}),
    _same(VERL, "actor_rollout_ref.model.lora_alpha", "lora.alpha"),
    _same(VERL, "actor_rollout_ref.model.target_modules", "lora.targets", choices={"all-linear": "no --lora.targets"}),
    _none(VERL, "actor_rollout_ref.model.use_remove_padding", "there is never padding"),
    _same(VERL, "actor_rollout_ref.actor.optim.lr", "update.lr"),
    _same(VERL, "actor_rollout_ref.actor.optim.weight_decay", "update.weight_decay"),
    _same(VERL, "actor_rollout_ref.actor.optim.lr_warmup_steps", "update.warmup"),
    _other(
        VERL,
        "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio",
        "--update.warmup",
        "steps, not a share: ratio × steps",
    ),
    _same(
        VERL,
        "actor_rollout_ref.actor.optim.warmup_style actor_rollout_ref.actor.optim.lr_scheduler_type",
        "update.schedule",
    ),
    _same(VERL, "actor_rollout_ref.actor.grad_clip", "update.clip_norm"),
    _same(VERL, "actor_rollout_ref.actor.ppo_epochs", "update.epochs", **PASSES),
    _other(
        VERL,
        "actor_rollout_ref.actor.ppo_mini_batch_size",
        "--update.minibatches",
        f"train_batch_size / ppo_mini_batch_size: {MINIBATCH}",
    ),
    _other(
        VERL,
        "actor_rollout_ref.actor.ppo_micro_batch_size actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "--memory.token_budget",
        SCRATCH,
    ),
    _same(VERL, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "memory.token_budget"),
    _none(VERL, "actor_rollout_ref.actor.use_dynamic_bsz", "passes are always filled by tokens"),
    _same(VERL, "actor_rollout_ref.actor.clip_ratio", "objective.low", **CLIP),
    _same(VERL, "actor_rollout_ref.actor.clip_ratio_low", "objective.low"),
    _same(VERL, "actor_rollout_ref.actor.clip_ratio_high", "objective.high"),
    _same(VERL, "actor_rollout_ref.actor.clip_ratio_c", "objective.dual"),
    _same(VERL, "actor_rollout_ref.actor.entropy_coeff", f"{ENTROPY}.coefficient", **NO_BONUS),
    _other(VERL, "actor_rollout_ref.actor.use_kl_loss", "--recipe grpo-kl"),
    _same(VERL, "actor_rollout_ref.actor.kl_loss_coef", f"{KL}.coefficient", **NO_KL),
    _same(VERL, "actor_rollout_ref.actor.kl_loss_type", f"{KL}.estimator", values=OF_KL, instead="--recipe grpo-kl"),
    _same(
        VERL,
        "actor_rollout_ref.actor.loss_agg_mode",
        "objective.aggregate",
        values={
            "seq-mean-token-mean": "sequence-mean",
            "seq-mean-token-sum": "sequence-sum",
        },
        choices={"seq-mean-token-sum-norm": "--objective.aggregate constant-length, a mean over sequences"},
    ),
    _same(VERL, "actor_rollout_ref.rollout.n", "rollout.samples"),
    _same(VERL, "actor_rollout_ref.rollout.temperature", "decoding.temperature"),
    _none(VERL, "actor_rollout_ref.rollout.top_p actor_rollout_ref.rollout.top_k", TRUNCATION),
    _same(
        VERL,
        "actor_rollout_ref.rollout.name",
        "engine.kind",
        values={"hf": "local"},
        choices={"sglang": "--engine sglang-server --engine.url URL"},
    ),
    _other(
        VERL,
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "--engine.arguments.gpu_memory_utilization",
        "or --engine.memory, GiB for keys and values",
    ),
    _other(
        VERL,
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
        "--engine.arguments.tensor_parallel_size",
        "with --engine vllm",
    ),
    _other(
        VERL,
        "actor_rollout_ref.rollout.val_kwargs.n actor_rollout_ref.rollout.val_kwargs.temperature",
        "hocket eval RUN --samples N",
        "evaluations of a run are greedy",
    ),
    _other(VERL, "critic.optim.lr", CRITIC, "a pace of its own for the critic"),
    _same(
        VERL,
        "critic.cliprange_value",
        f"{VALUE}.clip",
        instead="--regularisers.0.clip, with a recipe such as ppo or ppo-rlhf",
    ),
    _other(VERL, "reward_model.model.path", "--reward model:{value}"),
    _other(VERL, "custom_reward_function.path", "--reward {value}:FUNCTION", "with TRL's signature, for a whole batch"),
    _other(VERL, "custom_reward_function.name", "--reward FILE.py:{value}", "with TRL's signature, for a whole batch"),
    _other(
        VERL,
        "algorithm.adv_estimator",
        "--recipe NAME",
        choices=_by_recipe(
            "gae=ppo-rlhf grpo=grpo grpo_passk=grpo-pass-at-k reinforce_plus_plus=reinforce++ remax=remax rloo=rloo "
            "opo=opo gpg=gpg reinforce_plus_plus_baseline=reinforce++-baseline"
        ),
    ),
    _same(VERL, "algorithm.gamma", "credit.gamma", instead="--credit.gamma, with a recipe such as ppo or ppo-rlhf"),
    _same(VERL, "algorithm.lam", "credit.lam", instead="--credit.lam, with a recipe such as ppo or ppo-rlhf"),
    _same(VERL, "algorithm.norm_adv_by_std_in_grpo", "credit.scale", values={"true": "std", "false": None}),
    _other(VERL, "algorithm.use_kl_in_reward", "--recipe ppo-rlhf", "or reinforce++"),
    _same(VERL, "algorithm.kl_ctrl.kl_coef", f"{KL_REWARD}.coefficient", **NO_REWARD_KL),
    _same(VERL, "algorithm.kl_penalty", f"{KL_REWARD}.estimator", values=OF_KL, instead="--recipe ppo-rlhf"),
    _other(VERL, "algorithm.filter_groups.enable", "--recipe dapo", "or --rollout with DynamicSampling"),
    _same(VERL, "trainer.total_training_steps", "steps"),
    _other(VERL, "trainer.total_epochs", "--steps", "epochs × rows / curriculum.prompts"),
    _same(VERL, "trainer.save_freq", "checkpoint.steps"),
    _same(VERL, "trainer.test_freq", "evaluation.every", values={"-1": 0}),
    _same(VERL, "trainer.experiment_name", "run", note="the name of the run folder, and of the run in trackers"),
    _other(VERL, "trainer.project_name trainer.default_local_dir", "--runs DIR --run NAME", RUN_FOLDER),
    _other(VERL, "trainer.logger", "--track wandb", "mlflow or tensorboard; files are always written"),
    _other(VERL, "trainer.n_gpus_per_node trainer.nnodes", CLUSTER, "or a Ray cluster"),
    _none(VERL, "trainer.val_before_train", "every run is measured before and after"),
    _other(VERL, "trainer.resume_mode", "hocket train --resume RUN"),
    # ---------------------------------------------------------------- OpenRLHF
    _same(OPENRLHF, "pretrain", "model"),
    _other(OPENRLHF, "reward_pretrain", "--reward model:{value}"),
    _other(OPENRLHF, "remote_rm_url", "--reward FILE.py:FUNCTION", "a function that asks the server"),
    _other(OPENRLHF, "prompt_data", DATA, 'the columns are "prompt" and "answer"'),
    _other(OPENRLHF, "eval_dataset", "--eval-task FILE.jsonl, .csv, .parquet or hub:OWNER/NAME"),
    _same(OPENRLHF, "input_key", "columns.prompt", note="the column of the prompt"),
    _same(OPENRLHF, "label_key", "columns.answer", note="the column of the answer"),
    _same(OPENRLHF, "chosen_key", "columns.chosen", note="the column of the better response"),
    _same(OPENRLHF, "rejected_key", "columns.rejected", note="the column of the worse response"),
    _other(OPENRLHF, "input_template", '--task "FILE?template={{prompt}}..."', "columns in braces are filled in"),
    _same(OPENRLHF, "actor_learning_rate learning_rate", "update.lr"),
    _other(OPENRLHF, "critic_learning_rate", CRITIC, "a pace of its own for the critic"),
    _same(
        OPENRLHF,
        "lr_scheduler",
        "update.schedule",
        choices={"cosine_with_min_lr": "--update.schedule cosine, which falls to 0 instead of a tenth"},
    ),
    _other(OPENRLHF, "lr_warmup_ratio", "--update.warmup", "steps, not a share: ratio × steps"),
    _same(OPENRLHF, "max_norm", "update.clip_norm"),
    _same(OPENRLHF, "l2", "update.weight_decay"),
    _other(OPENRLHF, "adam_betas", "--update.betas '[0.9, 0.95]'"),
    _same(OPENRLHF, "rollout_batch_size", "curriculum.prompts", note="prompts of a step"),
    _same(OPENRLHF, "n_samples_per_prompt", "rollout.samples"),
    _same(OPENRLHF, "train_batch_size", "curriculum.prompts", only="recorded", note="rows of a step"),
    _other(
        OPENRLHF,
        "train_batch_size",
        "--update.minibatches",
        f"rollout_batch_size × n_samples_per_prompt / train_batch_size: {MINIBATCH}",
    ),
    _other(OPENRLHF, "micro_train_batch_size", "--memory.token_budget", SCRATCH),
    _other(OPENRLHF, "micro_rollout_batch_size", "--engine.max_rows", "responses that are decoded at once"),
    _other(OPENRLHF, "max_epochs", "--steps", "epochs × rows / curriculum.prompts", only="recorded"),
    _same(OPENRLHF, "max_epochs", "update.epochs", **PASSES),
    _other(OPENRLHF, "num_episodes", "--steps", "episodes × rows / curriculum.prompts"),
    _same(OPENRLHF, "generate_max_len max_new_tokens", "decoding.max_tokens"),
    _other(OPENRLHF, "prompt_max_len max_len", '--task "FILE?max_length=N&truncate=start"', "of prompt and response"),
    _same(OPENRLHF, "temperature", "decoding.temperature"),
    _none(OPENRLHF, "top_p", TRUNCATION),
    _same(OPENRLHF, "eps_clip", "objective.low", **CLIP),
    _other(OPENRLHF, "eps_clip_low_high", "--objective.low LOW --objective.high HIGH"),
    _same(OPENRLHF, "dual_clip", "objective.dual"),
    _same(
        OPENRLHF, "value_clip", f"{VALUE}.clip", instead="--regularisers.0.clip, with a recipe such as ppo or ppo-rlhf"
    ),
    _same(OPENRLHF, "gamma", "credit.gamma", instead="--credit.gamma, with a recipe such as ppo or ppo-rlhf"),
    _same(OPENRLHF, "lambd", "credit.lam", instead="--credit.lam, with a recipe such as ppo or ppo-rlhf"),
    _same(OPENRLHF, "init_kl_coef", f"{KL_REWARD}.coefficient", f"{KL}.coefficient", **NO_REWARD_KL),
    _same(OPENRLHF, "kl_estimator", f"{KL_REWARD}.estimator", f"{KL}.estimator", instead="--recipe ppo-rlhf"),
    _other(OPENRLHF, "use_kl_loss", "--recipe grpo-kl"),
    _same(OPENRLHF, "entropy_loss_coef", f"{ENTROPY}.coefficient", **NO_BONUS),
    _same(OPENRLHF, "beta", "objective.beta", only="LogRatio"),
    _same(OPENRLHF, "no_advantage_std_norm", "credit.scale", values={"true": None, "false": "std"}),
    _other(
        OPENRLHF,
        "advantage_estimator",
        "--recipe NAME",
        choices=_by_recipe(
            "gae=ppo-rlhf reinforce=reinforce++ reinforce_baseline=reinforce++-baseline rloo=rloo group_norm=grpo "
            "dr_grpo=dr-grpo"
        ),
    ),
    _other(OPENRLHF, "policy_loss_type", "--recipe NAME", choices={"gspo": "--recipe gspo"}),
    _other(OPENRLHF, "dynamic_filtering", "--recipe dapo", "or --rollout with DynamicSampling"),
    _same(OPENRLHF, "overlong_buffer_len", "shaping:OverlongPenalty.buffer", instead="--recipe dapo"),
    _same(OPENRLHF, "overlong_penalty_factor", "shaping:OverlongPenalty.penalty", instead="--recipe dapo"),
    _same(OPENRLHF, "bf16", "precision", values=ON_OFF),
    _same(OPENRLHF, "gradient_checkpointing", "memory.checkpointing"),
    _same(OPENRLHF, "lora_rank", "lora.rank", choices={"0": "no --lora.rank"}),
    _same(OPENRLHF, "lora_alpha", "lora.alpha"),
    _none(OPENRLHF, "lora_dropout", NO_DROPOUT),
    _same(OPENRLHF, "target_modules", "lora.targets", choices={"all-linear": "no --lora.targets"}),
    _other(OPENRLHF, "zero_stage adam_offload", f"{CLUSTER} --shard true", "shards weights over processes"),
    _other(OPENRLHF, "vllm_num_engines", "--engine vllm"),
    _other(OPENRLHF, "async_train", "--overlap 1", "samples the next batch during the update"),
    _other(OPENRLHF, "save_path ckpt_path", "--runs DIR --run NAME", RUN_FOLDER),
    _same(OPENRLHF, "save_steps", "checkpoint.steps"),
    _same(OPENRLHF, "eval_steps", "evaluation.every", values={"-1": 0}),
    _other(OPENRLHF, "use_wandb wandb_run_name", "--track wandb", "its key is WANDB_API_KEY"),
    _other(OPENRLHF, "use_tensorboard", "--track tensorboard"),
    _none(OPENRLHF, "apply_chat_template packing_samples flash_attn colocate_all_models", "always so, or not needed"),
    # ---------------------------------------------------------------- Stable-Baselines3
    _same(SB3, "env", "task", form="gym:{}"),
    _same(
        SB3,
        "policy",
        "network.body",
        values={"MlpPolicy": "perceptron", "CnnPolicy": "convolution", "MlpLstmPolicy": "recurrent"},
        choices={"MultiInputPolicy": "--network.body perceptron; a dictionary of observations is flattened"},
    ),
    _other(SB3, "policy_kwargs net_arch", "--network.hidden '[64, 64]'"),
    _same(SB3, "learning_rate", "update.lr"),
    _other(SB3, "total_timesteps", "--steps", "a step is a batch of whole episodes"),
    _other(SB3, "n_steps n_envs", "--curriculum.prompts", EPISODES),
    _other(SB3, "batch_size", "--update.minibatches", MINIBATCH),
    _same(SB3, "n_epochs", "update.epochs", **PASSES),
    _same(SB3, "gamma", "credit.gamma", instead="--credit.gamma, with a recipe such as ppo or ppo-rlhf"),
    _same(SB3, "gae_lambda", "credit.lam", instead="--credit.lam, with a recipe such as ppo or ppo-rlhf"),
    _same(
        SB3,
        "normalize_advantage",
        "credit.whiten",
        note="over the batch",
        instead="--credit.whiten, with a recipe such as ppo or ppo-rlhf",
    ),
    _same(SB3, "clip_range", "objective.low", **CLIP),
    _same(
        SB3, "clip_range_vf", f"{VALUE}.clip", instead="--regularisers.0.clip, with a recipe such as ppo or ppo-rlhf"
    ),
    _same(
        SB3,
        "vf_coef",
        f"{VALUE}.coefficient",
        instead="--regularisers.0.coefficient, with a recipe such as ppo or ppo-rlhf",
    ),
    _same(SB3, "ent_coef", f"{ENTROPY}.coefficient", **NO_BONUS),
    _same(SB3, "max_grad_norm", "update.clip_norm"),
    _other(SB3, "target_kl", "--update.target_kl", "1.5 × it: the bound at which a step ends, without that factor"),
    _same(SB3, "seed", "seed"),
    _same(SB3, "device", "device"),
    _same(SB3, "n_eval_episodes", "evaluation.between"),
    _other(SB3, "eval_freq", "--evaluation.every", "training steps, not steps of the environment"),
    _other(SB3, "tensorboard_log", "--track tensorboard"),
    _other(SB3, "verbose", "--quiet", "for no progress"),
    _none(SB3, "use_sde sde_sample_freq use_rms_prop rms_prop_eps stats_window_size", "not in this library"),
    _same(SB3, "buffer_size", "store.size"),
    _same(SB3, "learning_starts", "store.begin"),
    _same(SB3, "tau", "update.rate"),
    _same(SB3, "target_update_interval", "update.follow_every", note="after so many gradients"),
    _same(SB3, "exploration_final_eps", "objective.values.last"),
    _other(SB3, "train_freq gradient_steps", "--store.ratio 1.0", "gradients per fresh decision"),
    _other(SB3, "exploration_fraction", "--objective.values.over 5000", "decisions, not a share of them"),
    _other(SB3, "action_noise", "--objective.values.noise 0.1", "a standard deviation"),
    _other(SB3, "replay_buffer_class", "--store.take prioritised"),
    # ---------------------------------------------------------------- CleanRL
    _same(CLEANRL, "env_id", "task", form="gym:{}"),
    _same(CLEANRL, "learning_rate", "update.lr"),
    _other(CLEANRL, "total_timesteps", "--steps", "a step is a batch of whole episodes"),
    _other(CLEANRL, "num_envs num_steps", "--curriculum.prompts", EPISODES),
    _same(CLEANRL, "anneal_lr", "update.schedule", values={"true": "linear", "false": "constant"}),
    _same(CLEANRL, "gamma", "credit.gamma", instead="--credit.gamma, with a recipe such as ppo or ppo-rlhf"),
    _same(CLEANRL, "gae_lambda", "credit.lam", instead="--credit.lam, with a recipe such as ppo or ppo-rlhf"),
    _same(CLEANRL, "num_minibatches", "update.minibatches"),
    _same(CLEANRL, "update_epochs", "update.epochs", **PASSES),
    _same(
        CLEANRL,
        "norm_adv",
        "credit.whiten",
        note="over the batch",
        instead="--credit.whiten, with a recipe such as ppo or ppo-rlhf",
    ),
    _same(CLEANRL, "clip_coef", "objective.low", **CLIP),
    _other(CLEANRL, "clip_vloss", "--regularisers.0.clip 0.2", "the range: CleanRL takes clip_coef"),
    _same(CLEANRL, "ent_coef", f"{ENTROPY}.coefficient", **NO_BONUS),
    _other(CLEANRL, "vf_coef", "--regularisers.0.coefficient", "half of it: its loss is half the square"),
    _same(CLEANRL, "max_grad_norm", "update.clip_norm"),
    _other(CLEANRL, "target_kl", "--update.target_kl", "checked after each mini-batch, not after each epoch"),
    _same(CLEANRL, "seed", "seed"),
    _same(CLEANRL, "exp_name", "run", note="the name of the run folder"),
    _other(CLEANRL, "track", "--track wandb", "or mlflow, tensorboard"),
    _other(CLEANRL, "wandb_project_name wandb_entity", "--track wandb", "WANDB_PROJECT and WANDB_ENTITY name them"),
    _other(CLEANRL, "cuda", "--device cuda", "or cpu"),
    _none(CLEANRL, "torch_deterministic", "every run repeats bit for bit"),
    _none(CLEANRL, "capture_video", "the report shows episodes"),
    _none(CLEANRL, "save_model upload_model", "weights are always saved"),
)
