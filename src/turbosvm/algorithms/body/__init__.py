"""How the clients' weights are merged."""
