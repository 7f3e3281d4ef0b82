"""Offer the command line: parse, call, print.

Options and files come in. Exit statuses and text go out. No logic lives here. May import every room.
"""
