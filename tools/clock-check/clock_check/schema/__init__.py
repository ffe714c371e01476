"""The JSON schema of audits."""

from hotplug_common.schemacheck import Schema

AUDIT = Schema(__name__, "clock-audit-v1.schema.json")
