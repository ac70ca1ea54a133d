"""How good is a model, and how soon: metrics on held-out users, rounds to a target."""
