"""Trained agents for others to talk to, and others' agents to be trained, over OpenAI's protocol."""
