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
    named = settings.model or settings.recipe or settings.frozen
    return role if named else cast.policy(role) or POLICY


def settings_by_policy(config: Config) -> dict[str, RoleSettings]:
    """The settings of each policy that some role names or needs."""
    cast = config.phases[0][0].cast
    return {policy_of(role, settings, cast): settings for role, settings in config.roles.items()}


def learners_by_policy(config: Config) -> dict[str, int]:
    """How many processes learn each policy that has a number of its own.

    Raises:
        ConfigurationError: when roles of one policy name two, or nothing of a policy is learnt.
    """
    cast, of_policy, learners = config.phases[0][0].cast, settings_by_policy(config), dict[str, int]()
    for role, settings in config.roles.items():
        if settings.learners is None:
            continue
        name = policy_of(role, settings, cast)
        if settings.endpoint is not None or of_policy[name].frozen:
            why = "an endpoint plays it" if settings.endpoint is not None else f"policy {name!r} is frozen"
            raise ConfigurationError(f"roles.{role}.learners = {settings.learners}: {why} and learns nothing; drop it")
        if learners.setdefault(name, settings.learners) != settings.learners:
            raise ConfigurationError(
                f"roles.{role}.learners = {settings.learners}, and {learners[name]} for another role of policy "
                f"{name!r}, which one group learns; set one of them"
            )
    return learners


def learning(config: Config) -> int:
    """About how many processes learn, as far as settings tell: who shares weights or is unnamed they do not."""
    numbers = learners_by_policy(config)
    if not numbers:
        return config.learners
    by_policy = settings_by_policy(config).items()
    trained = [name for name, settings in by_policy if not settings.frozen and settings.endpoint is None]
    rest = 0 if len(trained) > 1 and numbers.keys() >= set(trained) else config.learners
    return max(numbers.values()) if config.lora is not None else sum(numbers.values()) + rest


def refuse_strays(role: str, settings: RoleSettings) -> None:
    """Settings of an endpoint without one would be ignored.

    Raises:
        ConfigurationError: naming the first.
    """
    for name in ("tokenizer", "key_variable"):
        if getattr(settings, name) is not None:
            raise ConfigurationError(f"roles.{role}.{name} is for an endpoint; set roles.{role}.endpoint or drop it")
