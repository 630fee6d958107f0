"""Kuhn poker by self-play: one small language model in both seats, from random legal moves towards equilibrium.

    python examples/poker_self_play.py [SEED]

The first phase shows legal moves, each as often as the other. The second is self-play by MARS, held near that even play,
which keeps moves legal and play from going round in circles. Printed are seed, step of self-play, NashConv (what both
seats could gain by playing their best against the other, exact) and the share of illegal moves.
"""

import sys

import hocket
from hocket.environments.exploitability import assess, language_model, situations
from hocket.environments.openspiel import OpenSpiel, PlainWords
from hocket.keys import Key
from hocket.objectives import ExactKL
from hocket.recipes import MARS_SELF_PLAY, SFT
from hocket.tasks.environment import EnvironmentTask
from hocket.train.config import configure
from hocket.types import Scenario
from hocket.workflows import Chat
from hocket.workflows.environment import PlayEnvironment


class Brief(PlainWords):
    """Moves so far and the own card, as `pbK`. A move repeats it (`pbKb`), so that the card is read before it is played."""

    def situation(self, state, player):
        card, *moves = state.information_state_string(player)
        return "".join([*moves, "JQK"[int(card)]])

    def move(self, state, player, action):
        return self.situation(state, player) + "pb"[action]


GAME = PlayEnvironment(OpenSpiel("kuhn_poker", words=Brief()), memory=False, own_chance=True, instruct=False)
LESSONS = SFT.but({"update.lr": 1e-3, "curriculum.prompts": 48})
SETTINGS = {"update.lr": 2e-4, "update.betas": (0.9, 0.95), "curriculum.prompts": 4, "rollout.samples": 64}
SELF_PLAY = MARS_SELF_PLAY.but(SETTINGS, regularisers=(ExactKL(coefficient=0.3, aggregate="turn-mean"),))


class Poker(EnvironmentTask):
    """Deals by seed. Each scenario also shows a random legal move somewhere in the game, for the first phase."""

    def scenario(self, split, number):
        rng = Key.of(number).derive(split).numpy()
        places = situations(GAME)
        place = places[rng.integers(len(places))]
        shown = {"demonstration": str(rng.choice(place.replies))}
        return Scenario(f"{split}/{number}", place.messages, metadata=shown, seed=2 * number + (split == "eval"))


def main(seed=0, lessons=60, steps=60):
    plan = [{"recipe": f"{__file__}:LESSONS", "steps": lessons}, {"recipe": f"{__file__}:SELF_PLAY", "steps": steps}]
    settings = {"plan": plan, "seed": seed, "decoding.max_tokens": 16, "evaluation.n": 20, "evaluation.every": 0}
    trainer = hocket.Trainer(configure(list(settings.items()), Poker(GAME)), task=Poker(GAME))
    while not trainer.done:
        step = trainer.step()["step"] - lessons
        if step >= 0 and step % 10 == 0:
            policy = trainer.parts.lead.policy
            found = assess(GAME, language_model(policy, Chat(policy.tokenizer)))
            print(f"{seed},{step},{found.nash_conv:.4f},{found.illegal_met:.4f}", flush=True)
    trainer.finish("finished")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
