"""FISOR: safe actions from recorded ones, by the largest region that the record shows to be safe."""
