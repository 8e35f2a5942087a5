"""What calibrators share whose map is linear in its parameters: rows, likelihood, minimum, components and stack."""
