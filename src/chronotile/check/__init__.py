"""Checks: what is wrong with an array, and what to do about it.

In: a history and its rules, and a store where more than the log is looked at. Out: findings.
Changes nothing.
"""
