"""Notebooks, kept without outputs, and what they share."""
