"""Files of profiles: their places, their formats, and helpers shared by readers of several frameworks.

A new format is a module in `saved` of its framework and a line in `formats.FORMATS`. It imports `profile` and the
packages below it, no framework and no backend. The module has

- ``TITLE``: the program that wrote it, as people call it;
- ``recognises(place)``: whether this file (or folder, for formats of several files) has the format. It decides by the
  content, and reads no more than the head of a file;
- ``read(place, options)``: the `SavedProfile`; raises TraceError, and nothing else, for a broken file;
- if a place can hold several ranks, or names its rank: ``ranks(place)``;
- if a folder has a program at several stages of its compiler: ``stages(place, stage)``, the files of each program at
  the requested stage, which ``read`` gets in ``options.files``;
- if the reader was written without a recording to test it: ``AS_DOCUMENTED``;
- if the profiler writes the same data into several files of a folder: ``repeats(place)``, whether another file of the
  folder already has the data of this one;
- if the profiler writes files without ops: ``explains(place)``, a description of such a file, and the file to give
  instead.
"""
