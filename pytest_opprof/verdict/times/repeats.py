"""How often a test is measured again: for a baseline, to confirm a worse result, and of two revisions; and how long."""

# The number of processes in which calls for a baseline are measured, to see whether they vary.
CALL_PROCESSES = 3
# The number of processes for varying calls. Of tests of uniform draws, 15 of 100 leave the range of three at some time
# in 40 runs, as does a second draw that should confirm it, that of eight 0.2; of normal draws it is 18 and 0.6.
VARYING_PROCESSES = 8
# The number of processes for a baseline with judged times, if they are steady.
BASE_PROCESSES = 5
# The most time that a run spends on confirming counts; extra work after that fails unconfirmed.
CONFIRMING_S = 60
# The number of fresh processes that must exceed the limit of a coarse time, and of pairs of two revisions; the fastest
# of three is compared with the fastest of three.
COARSE_PROCESSES = 3
# The number of processes that must agree that a window is slower than its stored baseline. With 5, 0.42 % of unchanged
# tests were called slower under load against a baseline recorded in quiet; with 6 0.20 %, and power fell by 0.1 points.
# Processes without clean rounds do not count; 12 is the maximum.
TIMED_PROCESSES, MOST_TIMED_PROCESSES = 6, 12
# With fewer clean processes there is no verdict.
LEAST_TIMED_PROCESSES = 3
# The most time that a run spends on re-measuring judged times, and as much for coarse ones; slower tests after that get
# no verdict.
TIMES_S = 300
# The number of pairs of two revisions that show whether extra calls vary.
CALL_PAIRS = 3
# Without marks so few tests are measured as closely as marked ones: a lost cache and 9 ms of plain
# Python pass in a first run (e3nn-jax, tomlkit), and counting takes up to three times the body.
FEW_TESTS = 20
# Of more tests without marks those are counted that run no op and take less. A longer one that takes twice as long
# fails for its coarse time.
SHORT_NS = 20_000_000
# The number of pairs after which judged times are decided; the second look is for suspicious cases of the first.
TIMED_PAIRS = (5, 9)
# The number of pairs that judge a test without rounds that seems slower, and how many of them must be clean.
ROUND_PAIRS, CLEAN_PAIRS = 5, 3
# Its rounds; of a body that takes longer fewer are enough.
SHORT_ROUNDS, SHORT_BODY_NS = 30, 20_000_000
# The most time that all of these tests take in all pairs; most of them drop out after the first.
ROUNDS_NS = 60_000_000_000
# Fewer pairs have no interval of 94 %.
LEAST_TIMED_PAIRS = 5
