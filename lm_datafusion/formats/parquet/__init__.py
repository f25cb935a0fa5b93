"""Parquet: footer, page index, page headers, bloom filters, and the splice of chosen pages."""
