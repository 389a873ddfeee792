"""Checks: what is wrong with an array, and what to do about it.

In: a history and its rules, and a store for checks that look beyond the log. Out: findings.
Changes nothing.
"""
