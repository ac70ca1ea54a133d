"""Models of the paper's tasks, a small one for the built-in data, and the body/head contract."""
