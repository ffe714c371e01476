"""Whether a host is fit for what is planned."""
