"""An algorithm is four choices: what a client minimises, how it steps, how bodies are merged, how heads are merged."""
