"""`chronotile.spark.register`, where earlier versions had it."""

from chronotile.fleet import register

__all__ = ["register"]
