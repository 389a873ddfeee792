"""Maintenance over a fleet, by policy.

In: arrays and a policy. Out: what was done to each. `whole_fleet` is its door.
"""
