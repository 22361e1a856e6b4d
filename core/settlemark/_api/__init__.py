"""The public face: a settlement, its transactions, holds and operators."""
