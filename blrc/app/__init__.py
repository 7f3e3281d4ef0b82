"""Offer the public functions: export, verify, evaluate, compile, inspect, train and anytime prediction.

Each one takes what a user writes, checks it, and calls the packages below. The command line and Python call the same
functions. May import every room but `blrc.cli` and `blrc.benchmark`.
"""
