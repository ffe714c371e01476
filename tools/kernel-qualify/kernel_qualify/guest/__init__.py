"""Scripts that run inside a guest, from an archive that the controller packs (see `main`)."""
