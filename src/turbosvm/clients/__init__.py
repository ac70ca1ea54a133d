"""Who takes part in a round, and how they train."""
