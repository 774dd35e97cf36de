"""``opprof show``: `command` prints one answer: the list of `ops`, how `ranks` differ, or the `times` of steps."""
