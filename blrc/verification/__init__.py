"""Verification: one answer everywhere, at every layer."""
