"""The ways to read the tables of a query; each looks at a query and offers, or declines."""
