"""A timeline as tables: what a viewer makes of the trace event format, for SQL.

Follows the format's rules, as Perfetto's trace processor does, with that one's names of tables and
columns, so that one query can be asked of both: instants are slices without length; an arrow is
joined to the slice that began last on its thread; spans off the threads are slices of a process.
Knows nothing of headway.
"""

import sqlite3
from itertools import count

_SCHEMA = """
create table process (upid integer primary key, pid integer, name text);
create table thread (utid integer primary key, tid integer, upid integer, name text);
create table thread_track (id integer primary key, utid integer);
create table process_track (id integer primary key, upid integer);
create table process_counter_track (id integer primary key, upid integer, name text);
create table slice (id integer primary key, ts integer, dur integer, track_id integer,
                    category text, name text, arg_set_id integer);
create table flow (id integer primary key, slice_out integer, slice_in integer);
create table counter (id integer primary key, ts integer, track_id integer, value real);
"""


class TraceTables:
    """One trace, to be asked."""

    def __init__(self, trace):
        self._ids = count(1)
        self._args = {}
        self._rows = {}
        """What was made once, by what it is: threads, processes and their tracks."""
        self._last = {}
        """Slice that began last, by track."""
        self._arrows = {}
        self._open = {}
        self.sql = sqlite3.connect(":memory:")
        self.sql.executescript(_SCHEMA)
        self.sql.create_function("extract_arg", 2, self._extract)
        take = {
            "M": self._take_name,
            "X": self._take_span,
            "i": self._take_instant,
            "C": self._take_counter,
            "s": self._take_arrow_start,
            "t": self._take_arrow_step,
            "f": self._take_arrow_end,
            "b": self._take_begin,
            "e": self._take_end,
        }
        events = trace["traceEvents"]
        for event in sorted(events, key=lambda event: (event["ph"] != "M", event.get("ts", 0.0))):
            take[event["ph"]](event, round(event.get("ts", 0.0) * 1_000))

    def ask(self, query):
        """All rows."""
        return [tuple(row) for row in self.sql.execute(query)]

    def close(self):
        """Nothing more is asked."""
        self.sql.close()

    def _extract(self, arg_set_id, key):
        value = self._args[arg_set_id]
        for word in key.split(".")[1:]:
            value = value.get(word) if isinstance(value, dict) else None
        return value

    def _once(self, table, key, **columns):
        if (table, key) not in self._rows:
            self._rows[table, key] = self._insert(table, **columns)
        return self._rows[table, key]

    def _insert(self, table, **columns):
        number = next(self._ids)
        names = ", ".join(["rowid", *columns])
        marks = ", ".join("?" * (len(columns) + 1))
        self.sql.execute(
            f"insert into {table} ({names}) values ({marks})", (number, *columns.values())
        )
        return number

    def _process(self, event):
        return self._once("process", event["pid"], pid=event["pid"])

    def _thread_track(self, event):
        key = (event["pid"], event["tid"])
        utid = self._once("thread", key, tid=event["tid"], upid=self._process(event))
        return self._once("thread_track", key, utid=utid)

    def _slice(self, event, at_ns, track, dur_ns):
        number = self._insert(
            "slice",
            ts=at_ns,
            dur=dur_ns,
            track_id=track,
            category=event.get("cat"),
            name=event["name"],
            arg_set_id=len(self._args),
        )
        self._args[len(self._args)] = event.get("args", {})
        self._last[track] = number
        return number

    def _take_name(self, event, _):
        if event["name"] == "process_name":
            self.sql.execute(
                "update process set name = ? where upid = ?",
                (event["args"]["name"], self._process(event)),
            )
        elif event["name"] == "thread_name":
            self._thread_track(event)
            self.sql.execute(
                "update thread set name = ? where tid = ?", (event["args"]["name"], event["tid"])
            )

    def _take_span(self, event, at_ns):
        self._slice(event, at_ns, self._thread_track(event), round(event["dur"] * 1_000))

    def _take_instant(self, event, at_ns):
        if event["s"] == "t":
            self._slice(event, at_ns, self._thread_track(event), 0)
        else:
            upid = self._process(event)
            track = self._once("process_track", ("instants", event["pid"]), upid=upid)
            self._slice(event, at_ns, track, 0)

    def _take_counter(self, event, at_ns):
        for key, value in event["args"].items():
            name = f"{event['name']} {key}"
            upid = self._process(event)
            track = self._once("process_counter_track", (upid, name), upid=upid, name=name)
            self._insert("counter", ts=at_ns, track_id=track, value=value)

    def _take_arrow_start(self, event, _):
        self._arrows[event["cat"], event["id"]] = self._last[self._thread_track(event)]

    def _take_arrow_step(self, event, _):
        key, here = (event["cat"], event["id"]), self._last[self._thread_track(event)]
        self._insert("flow", slice_out=self._arrows[key], slice_in=here)
        self._arrows[key] = here

    def _take_arrow_end(self, event, at_ns):
        assert event["bp"] == "e"
        self._take_arrow_step(event, at_ns)
        del self._arrows[event["cat"], event["id"]]

    def _take_begin(self, event, at_ns):
        key = (event["cat"], event["id"])
        track = self._once("process_track", key, upid=self._process(event))
        number = self._slice(event, at_ns, track, -1)
        self._open.setdefault(key, []).append((event["name"], number, at_ns))

    def _take_end(self, event, at_ns):
        name, number, begun_at_ns = self._open[event["cat"], event["id"]].pop()
        assert name == event["name"]
        self.sql.execute("update slice set dur = ? where id = ?", (at_ns - begun_at_ns, number))
