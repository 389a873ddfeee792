"""Keeps the test collector out of the arrays: they are data, thousands of names of it."""

collect_ignore_glob = ["*/array"]
