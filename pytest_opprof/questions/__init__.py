"""Answers about saved profiles: which ops, how long, how ranks differ. Pure functions of the profiles.

A new filter or aggregate is a field of `question.Question`, which `query` answers; `spread` compares ranks.
"""
