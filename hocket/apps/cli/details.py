"""The long descriptions of `hocket COMMAND --help`."""

from __future__ import annotations

START = """hocket trains language models, teams of agents and controllers. Begin with one of these:

  hocket train                                        GRPO improves a small model, in a minute
  hocket train --task gym:CartPole-v1 --recipe ppo    a controller, in seconds
  hocket train --task data.jsonl --reward my.py:fn --model PATH --lora.rank 16    all your own
  hocket report RUN                                   a web page about a run

`hocket --help` lists all commands, `hocket recipes` the methods, `hocket tasks` the tasks."""


OVERVIEW = """usage: hocket COMMAND ...  COMMAND --help explains it, --debug shows tracebacks
or:    hocket --version
{commands}"""


TRAIN = """Trains a policy. Without arguments: GRPO on sums with the shipped model, a minute on
one core. Flags override CONFIG.yaml, which overrides the recipe. Every setting is a flag
by its dotted key, or by its last part where only one has it:

  --rollout.samples 16 --curriculum.prompts 8    samples per prompt, prompts per step
  --update.lr 5e-5 --decoding.max_tokens 96      learning rate, length of a response
  --evaluation.every 25 --lora.rank 16 --track wandb
  --recipe dpo --list-flags                      list all settings of a run with dpo

`hocket recipes`, `hocket tasks` and `hocket workflows` list what there is. Flags of TRL,
verl, OpenRLHF, Stable-Baselines3 and CleanRL are understood: docs/known-flags.md."""


STUDY = """Compares recipes on the same tasks, model, budget and seeds, in parallel (docs/studies.md).
Finished runs stay in the study's folder; the same command again continues the study.

  hocket study --recipes grpo,dapo,gspo --task sums --seeds 5
  hocket study benchmarks/studies/group_relative.yaml --dry-run
  hocket study STUDY.yaml --update.epochs 2 --measure.n 400   settings of all runs, of the study"""


MICROSCOPE = """Shows what recipes compute from one recorded batch, in float64 and without a model.

A batch is one JSON object: {"version": 1, "trajectories": [..], "state": {..}}. A trajectory has
  group, scores {name: number}, logp [..]                 and, where it has them,
  per decision: logp_behaviour, logp_proximal, logp_ref, entropy, value, score, trained, segment,
                turn, tokens, token_scores {name: [..]}
  per turn:     turn_scores, agent, state
  id, source ("own", "baseline", "expert"), truncated, final_value, parent {id, length}
  what else stages read: text, label, embedding, history, info {pieces, tool_calls, ..}
state holds step, progress (the share of the run that is done, for schedules) and the memory of
stages. Where order matters (ties, pairs, serial groups) rows are ordered by id.
"""


EVAL = """Measures a run or a model on unseen scenarios.

  hocket eval RUN                              greedy accuracy; held-out pairs if it has any
  hocket eval RUN --samples 8                  also pass@1, 2, 4, 8
  hocket eval RUN --format lm-eval --out DIR   also the files of lm-evaluation-harness
  hocket eval RUN --against RUN2 --judge X     how often RUN's answers win over RUN2's
                                               (docs/judges.md)
  hocket eval RUN --against nano               against a model, by the task's verdicts
  hocket eval RUN --blind                      with grey pictures, or silence (docs/media.md)
  hocket eval RUN --search beam                answers found with its value function
                                               (docs/search.md)"""


EXPORT = """Writes the policy of a run's newest checkpoint in a form that other programs read.

  hocket export RUN                        the adapter of a run with LoRA, else the whole model
  hocket export RUN --merge                a plain model folder; adapters are added to the weights
  hocket export RUN --average RUN2         the mean of two models' weights
  hocket export RUN --gguf                 one file for llama.cpp (Llama with a byte-level tokenizer)
  hocket export RUN --onnx                 a controller as ONNX, which takes raw observations
  hocket export RUN --merge --push ME/NAME also uploads the folder to the Hugging Face hub"""


SERVE = """Serves a run's newest checkpoint, or a model, as an OpenAI-compatible endpoint: chat completions
(streaming too) under /v1, described at /openapi.json. A newer checkpoint is loaded between
answers when it appears. See docs/serving.md.

  hocket serve RUN                                   for this machine alone, without a key
  hocket serve RUN --host 0.0.0.0 --key-variable KEY   for others, who must send the key
  hocket serve smollm2 --tinker                      Tinker's training API; see docs/from-tinker.md"""


SWARM = """Trains several nodes, each with its own model, prompts and folder, that learn from each other's answers.
Nodes send text to each other, never weights or rewards. With --average they exchange the changes of their
weights every few steps instead, and end with equal weights. See docs/cluster.md.

  hocket swarm --nodes 8 --own 4 --shared 4               half of a step's groups come from others
  hocket swarm --nodes 4 --attackers 1                    the last node puts a trigger into its answers
  hocket swarm --nodes 4 --attackers 1 --defence likelihood
  hocket swarm --nodes 4 --average 10 --recipe dr-grpo     alone for 10 steps, then the mean of all weights
  hocket swarm --nodes 4 --average 10 --outer-lr 0.7 --outer-momentum 0.9   as in DiLoCo
  hocket swarm --listen 127.0.0.1:7000                     one node; start each in its own terminal or machine
  hocket swarm --listen 127.0.0.1 --join 127.0.0.1:7000 --number 1
  hocket swarm --nodes 4 --rollout.samples 4 --update.lr 5e-5   settings of every node's run"""


OPTIMISE = """Searches for better prompts, lessons or connections between agents; weights stay as they are. The best
proposal is chosen on development cases and measured once, at the end, on the evaluation split. See
docs/search.md.

  hocket optimise --list                                       list the searchers
  hocket optimise --task sums --searcher reflective --budget 400 --model smollm2
  hocket optimise --task sums --searcher mars-prompt --model nano --reflector http://HOST:PORT/v1#NAME
  hocket optimise --task conventions --searcher training-free-grpo   lessons first: a small model in all seats
  hocket optimise --resume runs/optimise-001
  hocket optimise --task sums --searcher training-free-grpo --searcher.samples 8   settings of searcher and run"""


SOLVE = """Solves a small world exactly: states, actions and probabilities are arrays, and the value and the regret of
every step are computed. See docs/exact.md.

  hocket solve --list                                list the methods and worlds
  hocket solve --method psrl --world river:6 --steps 300
  hocket solve --method value-iteration --world mine.npz
  hocket solve --resume runs/solve-001 --steps 600   settings of the method: --method.NAME VALUE"""


DOCTOR = """Checks the installation, with a ten-second self-test. With --model it says instead what a model
takes, in full and with an adapter, and which sequences fit; only the model's configuration is read.
Settings of `hocket train` change the plan (--rollout.samples, --curriculum.prompts, --lora.*,
--recipe).

  hocket doctor                                               packages, cores, memory
  hocket doctor --model Qwen/Qwen3-4B --memory 24GiB          on a card of this size
  hocket doctor --model FOLDER --lora.rank 32 --context 4096  on this machine"""


PLAY = """Opens a chat with a trained agent in the terminal. In a run with a workflow or an environment you
take one of the seats, and the agent takes the others. The episodes of a controller are stepped through.

  hocket play RUN                                    /help lists what can be typed
  hocket play RUN --seat player_1 --temperature 1
  hocket play nano --logp                            how likely each token was"""


ARENA = """Plays episodes of a joint world, with any player in each seat: `run:RUN` (a trained policy), `model:NAME` (a
language model that reads a description of what it sees), `FILE.py:NAME` (your function), `exec:COMMAND` (a
program that speaks the protocol of hocket.apps.play.worker), `person` or `random`. All lineups play the same seeds.

  hocket arena --task dilemma:prisoners --agents row=run:RUN,column=random
  hocket arena --task mpe:spread --agents random --agents run:RUN --episodes 100
  hocket arena --task dilemma:prisoners --agents row=person,column=model:nano --episodes 1"""
