"""The JSON schemas of results and of the history."""

from hotplug_common.schemacheck import Schema

RESULT = Schema(__name__, "result-v3.schema.json")
#: Of earlier versions, which are still read: what hotplug-timer wrote, and clock-check.
RESULT_2 = Schema(__name__, "result-v2.schema.json")
CLOCK_CHECK_1 = Schema(__name__, "clock-check-v1.schema.json")
HISTORY = Schema(__name__, "history-v2.schema.json")
