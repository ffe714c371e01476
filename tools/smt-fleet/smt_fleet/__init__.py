"""smt-fleet: one flow for changes of many hosts, over the playbooks of this project."""
