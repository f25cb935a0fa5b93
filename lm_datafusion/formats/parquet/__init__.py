"""Parquet: footer, page index, page headers, bloom filters, and the splicing of pages."""
