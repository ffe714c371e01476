"""What several tools use: tables, records, paths, processes, kernels and guests."""
