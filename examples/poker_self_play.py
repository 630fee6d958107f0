"""Kuhn poker by self-play: one small language model in both seats, from random legal moves towards equilibrium.

Run `python examples/poker_self_play.py [SEED]`.
"""

import sys

import hocket
from hocket.agents.environments.openspiel import OpenSpiel, PlainWords
from hocket.agents.workflows import Chat
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.keys import Key
from hocket.lab.exploitability import assess, language_model, situations
from hocket.objectives import ExactKL
from hocket.recipes import MARS_SELF_PLAY, SFT
from hocket.tasks.environment import EnvironmentTask
from hocket.train.config import configure
from hocket.types import Scenario


class Brief(PlainWords):
    """`pbK`: the moves so far and the own card. A move repeats it (`pbKb`), so that the card is read first."""

    def situation(self, state, player):
        card, *moves = state.information_state_string(player)
        return "".join([*moves, "JQK"[int(card)]])

    def move(self, state, player, action):
        return self.situation(state, player) + "pb"[action]


GAME = PlayEnvironment(OpenSpiel("kuhn_poker", words=Brief()), memory=False, own_chance=True, instruct=False)
LESSONS = SFT.but({"update.lr": 1e-3, "curriculum.prompts": 48})
NEAR = ExactKL(coefficient=0.3, aggregate="turn-mean")  # to the even play of the lessons: no running in circles
SETTINGS = {"update.lr": 2e-4, "update.betas": (0.9, 0.95), "curriculum.prompts": 4, "rollout.samples": 64}
SELF_PLAY = MARS_SELF_PLAY.but(SETTINGS, regularisers=(NEAR,))


class Poker(EnvironmentTask):
    """Deals by seed. Each scenario also shows a random legal move somewhere in the game, for the lessons."""

    def scenario(self, split, number):
        rng, places = Key.of(number).derive(split).numpy(), situations(GAME)
        place = places[rng.integers(len(places))]
        shown = {"demonstration": str(rng.choice(place.replies))}
        return Scenario(f"{split}/{number}", place.messages, metadata=shown, seed=2 * number + (split == "eval"))


if __name__ == "__main__":  # prints seed, step, NashConv (0 where neither seat could gain, exact), illegal moves met
    seed, task = int((sys.argv[1:] or [0])[0]), Poker(GAME)
    plan = [{"recipe": f"{__file__}:{name}", "steps": 60} for name in ("LESSONS", "SELF_PLAY")]
    settings = {"plan": plan, "seed": seed, "decoding.max_tokens": 16, "evaluation.n": 20, "evaluation.every": 0}
    trainer = hocket.Trainer(configure(list(settings.items()), task), task=task)
    for step in range(-60, 61):
        trainer.step()
        if step >= 0 and step % 10 == 0:
            policy = trainer.parts.lead.policy
            found = assess(GAME, language_model(policy, Chat(policy.tokenizer)))
            print(f"{seed},{step},{found.nash_conv:.4f},{found.illegal_met:.4f}", flush=True)
