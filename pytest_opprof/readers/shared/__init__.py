"""What several readers need: files, tables, events, times. A format of its own does not belong here."""
