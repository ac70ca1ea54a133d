"""Readers of the files that people hold: LEAF, the hub, NIST, CelebA, the Gutenberg text, tables of one's own."""
