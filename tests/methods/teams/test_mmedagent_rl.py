"""MMedAgent-RL's curriculum."""

from __future__ import annotations

from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.methods.teams.mmedagent_rl import AdviceStages
from hocket.train.ledger import Ledger
from hocket.zoo.tasks.referral import Referral


def test_a_case_is_the_first_of_its_stage_among_the_next_or_the_last_where_none_fits() -> None:
    task, none, ledger, key, tries = Referral(), 0, Ledger(), Key.of(2), 3
    made = AdviceStages(prompts=8, per_stage=24, tries=tries)
    for position in range(80):
        (found,) = made(task, position, 1, ledger, key)
        stage, way = position // 24, key.derive("advice") if position < 72 else key
        places = range(position * tries, position * tries + tries) if position < 72 else [position]
        looked = [Shuffled(8)(task, place, 1, ledger, way)[0] for place in places]
        fits = [one for one in looked if {1.0: 0, 0.0: 2}.get(float(one.metadata["advice"]), 1) == stage]
        assert found.id == (fits or looked[-1:])[0].id
        none += not fits and stage < 3
    assert none > 0
