"""The method: PPO with another discount. `hocket recipes ppo` shows all its settings."""

from hocket.recipes import PPO

RECIPE = PPO.but(name="mine", **{"credit.gamma": 0.95})
