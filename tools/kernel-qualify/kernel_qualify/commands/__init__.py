"""One module for each subcommand: its options, its runs, and how a run finds its problems."""
