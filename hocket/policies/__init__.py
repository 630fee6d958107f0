"""Who decides. Import a policy from its module: each brings its own library."""

from hocket.policies.settings import LoraSettings

__all__ = ["LoraSettings"]
