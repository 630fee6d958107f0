"""A laboratory: worlds small enough to enumerate, where any recipe can be examined exactly.

A `World` asks a few questions; an answer is a short sequence over a few tokens. A `Tabular` policy holds a logit per
context and token, so success rates, entropies, divergences and expected gradients are sums over all answers. `Bench`
trains one with the same training step as any run, in milliseconds per step.

    world = World(questions=4, tokens=5, horizon=3, reward=lambda question, answer: float(sum(answer) % 5 == question))
    bench = Bench(world, GRPO, seed=0)
    bench.run(200)
    print(bench.success())
"""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
