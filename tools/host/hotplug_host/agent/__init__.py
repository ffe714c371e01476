"""The steps that the playbooks do on a host; each answers with one JSON object."""
