"""A kernel that was talked to, and the app that shows it to an operator: no server, no clock."""

import asyncio
import json
from contextlib import asynccontextmanager

from tests.asgi_client import Exchange, scope_of

from headway.core import TierName
from headway.frontends import AdminRest, Insight, Viewers
from headway.observe import About, Board, JournalHeader, RecentSteps, Sources, TierGoal
from headway.testing import a_kernel
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Shown", "events", "until"]


class Shown:
    """A kernel that was talked to, and the app that shows it."""

    def __init__(self, *, door=None, viewers_max=4, period_s=0.0, requests=20, **app) -> None:
        self.talk = a_kernel(slots=2)
        self.recent = RecentSteps(1000)
        for index in range(1, requests + 1):
            self.talk.arrives(index, at=index * 100 * NS_PER_MS)
            self.talk.finishes(index, at=(index * 100 + 10) * NS_PER_MS)
        self.tell()
        about = About(
            version="1", policy="fifo", predictor="fixed", is_emulated=False, can_load=True
        )
        goals = {TierName("normal"): TierGoal(priority=1, budget_ns=NS_PER_S, target_ratio=0.99)}
        sources = Sources(self.talk.kernel, self.now_ns, dict, list)
        self.viewers = Viewers(
            Board(about, goals, self.recent, sources), viewers_max=viewers_max, period_s=period_s
        )
        self.header = JournalHeader(
            headway="1", started_at="now", params=self.talk.kernel.params, policy={"kind": "fifo"}
        )
        self.drawn = []
        self.app = AdminRest(
            Insight(self.recent, self.header, self.now_ns, self.draw, self.viewers),
            door=door,
            **app,
        )

    def tell(self) -> None:
        """Show the steps that are new."""
        for record in self.talk.records[self.recent.next_seq :]:
            self.recent(record.now_ns, record.event, record.commands)

    def now_ns(self) -> int:
        return self.talk.now_ns

    def draw(self, held, from_ns) -> bytes:
        self.drawn.append((len(held), from_ns))
        return b'{"traceEvents": []}'

    def get(self, path, headers=None, method="GET"):
        """The answer to a request."""
        return asyncio.run(self.ask(path, headers, method))

    async def ask(self, path, headers=None, method="GET"):
        path, _, query = path.partition("?")
        exchange = Exchange()
        scope = scope_of(method, path, headers) | {"query_string": query.encode()}
        await self.app(scope, exchange.receive, exchange.send)
        return exchange.response

    @asynccontextmanager
    async def watching(self, count=1):
        """So many that watch, as tasks with what each has received; they hang up at the end."""
        exchanges = [Exchange() for _ in range(count)]
        async with asyncio.TaskGroup() as tasks:
            for each in exchanges:
                scope = scope_of("GET", "/admin/events")
                tasks.create_task(self.app(scope, each.receive, each.send))
            yield exchanges
            for each in exchanges:
                each.hung_up.set()


def events(body: bytes):
    """Name and value of each event."""
    found = []
    for text in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in text.splitlines())
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def until(is_so) -> None:
    """Let others work until something is so."""
    while not is_so():  # noqa: ASYNC110 (it may be anything)
        await asyncio.sleep(0)
