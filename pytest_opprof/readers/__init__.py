"""Readers of saved profiles, a package for each family of tools. They import `profile` and what is below, no backend.

A new format is a module here and a line in `formats.FORMATS`. The module has

- ``TITLE``: what wrote it, as people say it;
- ``recognises(place)``: whether this file (or folder, for formats of several files) is one, by its content, reading no
  more than its head;
- ``read(place, options)``: the `SavedProfile`; raises TraceError, and nothing else, for a file that is broken;
- where one place can hold several ranks or tell which it is, ``ranks(place)``;
- where no recording of it was at hand, ``AS_DOCUMENTED``;
- where the profiler writes the same into several files of a folder, ``repeats(place)``: whether this is one that is not
  needed beside another;
- where the profiler writes files that hold no ops, ``explains(place)``: what such a file is, and what to give instead.
"""
