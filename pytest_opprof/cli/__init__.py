"""The ``opprof`` command, a module for each of its commands. It imports everything but `pytest_plugin` and `processes`.

Never imports pytest: it works on files, wherever they came from. A new command is a module with `add` and a line in
`main`; `inputs.opened` reads its files, by their content, and `report.tables` writes its tables.
"""
