"""What `hocket COMMAND --help` says at length."""

from __future__ import annotations

DESCRIPTION = """hocket trains language models, teams of agents and other decision-makers by reinforcement
learning.

  hocket train                                      GRPO makes a small model better, in a minute
  hocket train --task reasoning-gym:chain_sum       another task (see `hocket tasks`)
  hocket train --recipe dapo                        another method (see `hocket recipes`)
  hocket train --task data.jsonl --reward my.py:fn  your own data and reward
  hocket train --model PATH_OR_NAME --lora.rank 16  your own model, with adapters
  hocket train --engine vllm                        sampled by vLLM (see docs/engines.md)
  hocket train --cluster local --samplers 2         on several processes (see docs/cluster.md)
  hocket report RUN                                 one page with everything about a run"""

TRAIN = """Trains a policy. Without arguments: GRPO on sums with the shipped nano model, about a
minute on one core.

Settings come from defaults < recipe < CONFIG.yaml < flags. Beside the flags below, every
setting of the run and of the recipe is a flag by its dotted key:

  --rollout.samples 16 --curriculum.prompts 8      samples per prompt, prompts per step
  --update.lr 5e-5 --update.warmup 10              learning rate and warm-up steps
  --objective.high 0.28 --credit.scale null        the recipe's own (see `hocket recipes NAME`)
  --decoding.temperature 0.9 --decoding.max_tokens 96
  --evaluation.every 25 --evaluation.n 1000        unseen problems, measured greedily
  --checkpoint.seconds 60 --checkpoint.steps 25    whichever comes first
  --lora.rank 16 --track wandb --threads 1         or mlflow, tensorboard
  --roles.worker.frozen true                       settings of one role of a workflow"""


STUDY = """Compares recipes on the same tasks, base, budget and seeds, in parallel; docs/studies.md says how.
What is finished stays in the study's folder, and the same command goes on from there.

  hocket study --recipes grpo,dapo,gspo --task sums --seeds 5
  hocket study benchmarks/studies/group_relative.yaml --dry-run
  hocket study STUDY.yaml --update.epochs 2 --measure.n 400   settings of all runs, of the study"""


MICROSCOPE = """what recipes make of one recorded batch, in float64 and without a model

A batch is one JSON object: {"version": 1, "trajectories": [..], "state": {..}}. A trajectory has
  group, scores {name: number}, logp [..]                 and what it has of
  per decision: logp_behaviour, logp_proximal, logp_ref, entropy, value, score, trained, segment,
                turn, tokens, token_scores {name: [..]}
  per turn:     turn_scores, agent, state
  id, source ("own", "baseline", "expert"), truncated, final_value, parent {id, length}
  what stages read besides: text, label, embedding, history, info {pieces, tool_calls, ..}
state holds step and progress (the share of the run that lies before, for schedules), and what
stages remember. Where order matters (ties, pairs, serial groups) rows are ordered by id.
"""


EVAL = """Measures a run or a model on unseen scenarios.

  hocket eval RUN                              greedy accuracy; held-out pairs where it has such
  hocket eval RUN --samples 8                  also pass@1, 2, 4, 8
  hocket eval RUN --against RUN2 --judge X     how often RUN's answers win over RUN2's
                                               (docs/judges.md)
  hocket eval RUN --against nano               against a model, by the task's verdicts
  hocket eval RUN --search beam                answers that its value chose (docs/search.md)"""


EXPORT = """Writes the policy of a run's newest checkpoint where other programs read it.

  hocket export RUN                        the adapter of a run with LoRA, else the whole model
  hocket export RUN --merge                a plain model folder; adapters are added to the weights
  hocket export RUN --average RUN2         the mean of two models' weights
  hocket export RUN --gguf                 one file for llama.cpp (Llama with a byte-level tokenizer)
  hocket export RUN --merge --push ME/NAME also sends the folder to the Hugging Face hub"""


SERVE = """Offers a run's newest checkpoint, or a model, as an OpenAI-compatible endpoint: chat completions
(streaming too) under /v1, its description at /openapi.json. When a newer checkpoint appears, it
is loaded between answers. docs/serving.md says more.

  hocket serve RUN                                   on this machine alone, no key needed
  hocket serve RUN --host 0.0.0.0 --key-variable KEY   for others, who must send the key"""


SWARM = """Trains several nodes, each with a model, prompts and a folder of its own, that learn from each other's
answers. Nodes tell each other text, never weights or rewards; with --average they tell each other how far
their weights have come, every few steps, and end with the same. docs/cluster.md says more.

  hocket swarm --nodes 8 --own 4 --shared 4               half of a step's groups are others'
  hocket swarm --nodes 4 --attackers 1                    the last node slips a trigger into answers
  hocket swarm --nodes 4 --attackers 1 --defence likelihood
  hocket swarm --nodes 4 --average 10 --recipe dr-grpo     alone for 10 steps, then the mean of all weights
  hocket swarm --nodes 4 --average 10 --outer-lr 0.7 --outer-momentum 0.9   as in DiLoCo
  hocket swarm --listen 127.0.0.1:7000                     one node; each in a terminal, or on a machine, of its own
  hocket swarm --listen 127.0.0.1 --join 127.0.0.1:7000 --number 1
  hocket swarm --nodes 4 --rollout.samples 4 --update.lr 5e-5   settings of every node's run"""


OPTIMISE = """Searches for better prompts, lessons or connections between agents; no weight changes. Development cases
choose, and the evaluation split is opened once, at the end. docs/search.md says more.

  hocket optimise --list                                       the searchers
  hocket optimise --task sums --searcher reflective --budget 400 --model smollm2
  hocket optimise --task sums --searcher mars-prompt --model nano --reflector http://HOST:PORT/v1#NAME
  hocket optimise --task conventions --searcher training-free-grpo   lessons first: a small model in all seats
  hocket optimise --resume runs/optimise-001
  hocket optimise --task sums --searcher training-free-grpo --searcher.samples 8   settings of searcher and run"""


SOLVE = """Solves a small world exactly: states, actions and probabilities are arrays, every step's value is computed,
and the regret with it. docs/exact.md says more.

  hocket solve --list                                methods and worlds
  hocket solve --method psrl --world river:6 --steps 300
  hocket solve --method value-iteration --world mine.npz
  hocket solve --resume runs/solve-001 --steps 600   settings of the method: --method.NAME VALUE"""


PLAY = """Talks to a trained agent in the terminal. A run with a workflow or an environment is played: you
take one of its seats, the agent the others.

  hocket play RUN                                    /help lists what can be typed
  hocket play RUN --seat player_1 --temperature 1
  hocket play nano --logp                            how likely each token was"""


ARENA = """Plays episodes of a joint world with anybody in its seats: `run:RUN` (a trained policy), `model:NAME` (a
language model that is told in words what it sees), `FILE.py:NAME` (a function of yours), `exec:COMMAND` (any
program that speaks the protocol of hocket.apps.play.worker), `person` and `random`. Lineups play the same seeds.

  hocket arena --task dilemma:prisoners --agents row=run:RUN,column=random
  hocket arena --task mpe:spread --agents random --agents run:RUN --episodes 100
  hocket arena --task dilemma:prisoners --agents row=person,column=model:nano --episodes 1"""
