"""Vehicles that serve different customers and earn more at different places: CAMP (arXiv:2501.02977).

Every customer has an embedding for each vehicle, from what is common and what is that vehicle's own (`Profiles`); the
vehicles' queries read each other's, and all choose at once, as in PARCO. The world is `routes:profiles`, whose masks
keep a vehicle from customers that are closed to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.policy_parts import PolicyPart
from hocket.methods.applications.parco import PARCO
from hocket.policies.control_pointer import Communication, Profiles
from hocket.stages import Hook


@dataclass(frozen=True)
class ProfileEncoding(Hook):
    """Rows are encoded once for each pointer, by its own profile; pointers read each other's queries."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (Profiles(), Communication())


CAMP_PVRP = PARCO.but(
    name="camp-pvrp",
    title="CAMP: embeddings of customers by each vehicle's profile",
    source="CAMP: Collaborative Attention Model with Profiles for Vehicle Routing Problems, arXiv:2501.02977",
    catalogue_ids=("camp-pvrp",),
    axes=("policy", "team", "environment"),
    formula="as parco,  h_mn = Encoder([x_n, p_mn])_n  for vehicle m,  u_mn = 10 tanh(q_m h_mn / sqrt(D))",
    conventions={
        **PARCO.conventions,
        "profile": "a number for each vehicle and customer: what it earns there, or -1 where it may not go",
        "objective": "the length of all routes less what is earned",
    },
    task="routes:profiles",
    hooks=(ProfileEncoding(),),
)
