"""Generators of pictures, of filled-in text, and of actions by denoising."""
