"""Long runs of one queue or log in slices of an hour, and their verdict on what grows: see `bench/README.md`.

parts.py       the parts, their sizes, and the SQL of their set-up, load and accounts
numbers.py     tally of numbered messages, and counters that processes read from files
handlers.py    the app of the worker
child.py       producer, consumers, updates and probe, each in a process of its own
processes.py   start and stop of these processes and of maintenance
sampling.py    what is read from server, disk and processes at each sample
slices.py      one slice: load, held snapshot, crash restart, drain, accounts
verdict.py     throughput, latency, disk, memory and rows at the end compared with the beginning
running.py     one invocation: continue the run, write its result file
plots.py       the series of the newest results as SVG
"""
