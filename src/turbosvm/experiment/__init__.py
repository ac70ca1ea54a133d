"""From a config to a folder of records."""
