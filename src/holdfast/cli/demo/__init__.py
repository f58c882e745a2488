"""`holdfast demo`: workers crash and freeze, and the work gets done once."""
