"""Which policy plays a role, and with what settings."""

from __future__ import annotations

from hocket.core.casting import Cast
from hocket.core.errors import ConfigurationError
from hocket.train.settings import Config, RoleSettings

POLICY = "policy"
"""The name of the only policy, when roles do not name others."""


def policy_of(role: str, settings: RoleSettings, cast: Cast) -> str:
    """Roles share one policy unless they name another, bring a model or recipe of their own, are frozen, or the
    recipe's cast gives each its own."""
    if settings.policy:
        return settings.policy
    own = settings.model or settings.recipe or settings.frozen
    return role if own else cast.policy(role) or POLICY


def settings_by_policy(config: Config) -> dict[str, RoleSettings]:
    """The settings of each policy that some role names or needs."""
    cast = config.phases[0][0].cast
    return {policy_of(role, settings, cast): settings for role, settings in config.roles.items()}


def refuse_strays(role: str, settings: RoleSettings) -> None:
    """Settings of an endpoint without one would be ignored.

    Raises:
        ConfigurationError: naming the first.
    """
    for name in ("tokenizer", "key_variable"):
        if getattr(settings, name) is not None:
            raise ConfigurationError(f"roles.{role}.{name} is for an endpoint; set roles.{role}.endpoint or drop it")
