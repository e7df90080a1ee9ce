"""Formats of records, under PyFlink's paths."""
