"""The report: one HTML file that says all there is to say about some runs, and needs nothing else."""
