"""What the waits for RCU grace periods cost CPU hotplug: four variants, next to the published figures."""
