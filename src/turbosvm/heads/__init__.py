"""TurboSVM's head step for anyone's federation: class embeddings in, one merged head out. It needs no other part."""
