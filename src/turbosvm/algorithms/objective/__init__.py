"""What a client minimises."""
