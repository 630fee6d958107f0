"""DMOSpeech 2: reinforcement learning of how long an utterance is to be."""
