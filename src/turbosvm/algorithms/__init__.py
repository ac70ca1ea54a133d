"""An algorithm is three choices: what a client minimises, how bodies are merged, how heads are merged."""
