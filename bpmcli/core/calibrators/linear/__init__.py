"""What the calibrators whose map is linear in its parameters have in common: rows, likelihood, solver, components."""
