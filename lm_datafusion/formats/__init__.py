"""File formats: how to read the bytes of a file. One folder each; none imports another."""
