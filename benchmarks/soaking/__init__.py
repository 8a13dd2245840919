"""A server under everything at once, for long: who asks, who disturbs, and what is added up.

`subject.py` is the server and its full disk and stepped clock, `asks.py` requests whose answers can
be told apart, `wire.py` a client that notices an answer too many, `crowd.py` arrivals and tallies,
`trouble.py` all that goes wrong, `figures.py` slopes and verdicts.
"""
