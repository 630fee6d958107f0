"""BREEZE: goals are named after training; forward-backward representations, in-sample values and a denoiser."""
