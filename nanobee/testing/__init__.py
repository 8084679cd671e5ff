"""Test doubles that ship with nanobee: real parts to run against, for our tests and yours.

Import from the modules themselves, so that each costs only what it needs.
"""
