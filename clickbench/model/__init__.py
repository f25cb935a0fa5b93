"""The rows: a pure function of (number of rows, seed, block), with no Spark and no files in it.

`plan` lays out which counters have how many rows, on which dates, in which order. `visits` cuts
a block of rows into visits of users. `users`, `searches`, `pages` and `rest` give the columns,
`hits` puts them together. Everything random is a hash of (seed, purpose, thing) from `noise`, so
any block can be made alone, on any worker, in any order.
"""
