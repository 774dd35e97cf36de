"""What several readers need: files, tables, events, times. The formats themselves are in the other packages."""
