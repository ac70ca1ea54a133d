"""From a source to a data folder: what was read, kept in a workshop, put in order by user."""
