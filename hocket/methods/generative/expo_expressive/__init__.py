"""EXPO: a policy that chooses on the fly among samples of a cloned flow and edits of them."""
