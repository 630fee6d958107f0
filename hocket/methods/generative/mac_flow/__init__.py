"""MAC-Flow: the joint behaviour of a recorded team as a flow, and policies of one step that are distilled from it."""
