"""How a client steps along its gradient."""
