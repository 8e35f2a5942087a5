"""The normal distribution's constants."""

Z95 = 1.959963984540054
"""A normal variable lies within ± this many standard deviations in 95 % of the cases."""
