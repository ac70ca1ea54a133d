"""How the class embeddings, the rows of the last layer, are merged."""
