"""Shared by the calibrators whose map is linear in its parameters: rows, likelihood, minimum, components and stack."""
