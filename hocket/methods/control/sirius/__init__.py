"""Sirius: learning on the job from deployments in which a person takes over."""
