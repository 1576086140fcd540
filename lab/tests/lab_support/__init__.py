"""Shared by the tests of the lab."""
