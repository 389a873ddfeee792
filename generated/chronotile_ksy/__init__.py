"""Parsers generated from ksy/ by `make ksy`. Never edited by hand."""
