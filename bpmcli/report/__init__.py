"""Reports: one self-contained HTML page about the calibration of one or more models."""
