"""Pages to read in a browser: of a run, a saved profile, a comparison, a history. Each is one file that loads nothing.

A page is a pure function from typed results to text. What it says stands in tables of its own HTML, so that it can be
read without scripts and without styles; the script only sorts, filters and opens what is there. What is drawn and in
which colour stands in `marks`; a new part of a page is a dataclass in its module and a section of its template.
"""
