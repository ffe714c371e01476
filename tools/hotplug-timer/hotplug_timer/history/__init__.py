"""The history of runs: what was measured night after night, and since when it is slower."""
