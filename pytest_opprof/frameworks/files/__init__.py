"""Files of profiles: where one lies, which format it has, and what readers of several frameworks need.

A new format is a module in `saved` of its framework and a line in `formats.FORMATS`. It imports `profile` and what is
below, no framework and no backend. The module has

- ``TITLE``: what wrote it, as people say it;
- ``recognises(place)``: whether this file (or folder, for formats of several files) has the format. It decides by the
  content, and reads no more than the head of a file;
- ``read(place, options)``: the `SavedProfile`; raises TraceError, and nothing else, for a file that is broken;
- where a place can hold several ranks, or names its rank: ``ranks(place)``;
- where a folder has a program at several stages of its compiler: ``stages(place, stage)``, the files to read of each
  program at the stage that is asked for, which ``read`` gets in ``options.files``;
- where no recording was at hand to test the reader: ``AS_DOCUMENTED``;
- where the profiler writes the same data into several files of a folder: ``repeats(place)``, whether another file of
  the folder already has the data of this one;
- where the profiler writes files that hold no ops: ``explains(place)``, what such a file is, and what to give instead.
"""
