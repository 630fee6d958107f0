"""A person in the terminal, talking to a trained agent or taking a seat beside it."""
