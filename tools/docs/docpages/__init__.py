"""What the documentation is generated from: parsers, schemas, role options, kept results."""
