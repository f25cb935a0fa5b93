"""File formats: what the bytes of a file mean. One folder each; they never import each other."""
