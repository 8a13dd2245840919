"""What operators ask for over HTTP: records, timelines, the board, its events, and the page."""

import asyncio
import json

import pytest
from tests.admin_rig import Shown, events, until
from tests.asgi_client import Exchange, scope_of

from headway.frontends import Access, DisconnectWatch, Door
from headway.observe import read_journal
from headway.tenancy import KeyParams, hash_of
from headway.units import NS_PER_S

ADMIN = {"headway-key": "hwk_admin"}
FOREIGN = {"origin": "https://evil.example.com", "host": "127.0.0.1:8000"}
PATHS = ("/admin/board", "/admin/events", "/admin/records", "/admin/timeline")


def test_records_are_a_journal(tmp_path):
    """A file of them is read as one that a server wrote, and holds the same steps."""
    shown = Shown()
    answer = shown.get("/admin/records")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    path = tmp_path / "run.journal"
    path.write_bytes(answer.body)
    header, records = read_journal(path)
    assert header == shown.header
    assert list(records) == shown.talk.records


def test_records_of_some_seconds_are_the_last(tmp_path):
    """Those since so many seconds before now."""
    shown = Shown()
    lines = shown.get("/admin/records?seconds=0.5").body.splitlines()[1:]
    from_ns = shown.now_ns() - NS_PER_S // 2
    assert [json.loads(line)["seq"] for line in lines] == [
        record.seq for record in shown.talk.records if record.now_ns >= from_ns
    ]


def test_records_come_in_pieces_while_the_server_works():
    """Steps made meanwhile are not among them, and others have their turn between the pieces."""
    shown = Shown(requests=400)
    turns = []

    async def play():
        exchange = Exchange()
        sent = exchange.send

        async def send(message):
            turns.append(message["type"])
            shown.talk.arrives(1000 + len(turns), at=shown.now_ns() + 1)
            shown.tell()
            await sent(message)

        await shown.app(scope_of("GET", "/admin/records"), exchange.receive, send)
        return exchange.response

    before = len(shown.talk.records)
    body = asyncio.run(play()).body
    assert len(body.splitlines()) == before + 1
    assert len(turns) > 5


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1_0", "nan", "1e99", "true", "1&seconds=2"])
@pytest.mark.parametrize("path", ["/admin/records", "/admin/timeline"])
def test_seconds_that_are_none_are_refused(path, text):
    """With a word of what they should be."""
    answer = Shown().get(f"{path}?seconds={text}")
    assert (answer.status, answer.json["code"]) == (400, "invalid_request")
    assert "seconds" in answer.json["error"]


def test_timeline_is_drawn_of_all_that_is_kept_from_an_instant_on():
    """What runs or waits at its beginning began before."""
    shown = Shown()
    answer = shown.get("/admin/timeline?seconds=1")
    assert (answer.status, answer.json) == (200, {"traceEvents": []})
    assert shown.drawn == [(len(shown.recent), shown.now_ns() - NS_PER_S)]


@pytest.mark.parametrize("path", [*PATHS, "/ui", "/ui/app.js"])
def test_page_by_a_stranger_s_name_is_told_nothing(path):
    """Its own name leads here, so the browser takes all for one origin; the name gives it away."""
    shown = Shown(door=Door(names=["gpu-1.example.com"]))
    answer = shown.get(path, {"host": "evil.example.com:8000"})
    assert (answer.status, "evil.example.com" in answer.json["error"]) == (403, True)
    for host in ("localhost:8000", "192.0.2.7:8000", "gpu-1.example.com"):
        assert shown.get(path, {"host": host}, "HEAD").status == 200, host


def test_few_timelines_are_drawn_at_once():
    """One after another, each of the steps at its turn; of many that ask, the last are refused."""
    shown = Shown()

    async def play():
        return await asyncio.gather(*[shown.ask("/admin/timeline") for _ in range(6)])

    answers = asyncio.run(play())
    assert sorted(answer.status for answer in answers) == [200] * 4 + [503] * 2
    assert len(shown.drawn) == 4
    assert shown.get("/admin/timeline").status == 200, "there is room again"


def test_board_is_what_the_page_shows():
    """Once, as JSON."""
    answer = Shown().get("/admin/board")
    assert answer.json["tiers"][0]["minute"] == {"ended": 20, "in_time": 20}
    assert answer.headers["cache-control"] == "no-store"


def test_viewers_get_all_first_and_then_what_is_new():
    """The same events for each of them; when the last leaves nothing goes on."""
    shown = Shown()

    async def play():
        async with shown.watching(3) as viewers:
            await until(lambda: all(b"event: next" in each.response.body for each in viewers))
            shown.talk.arrives(100, at=shown.now_ns() + 1)
            shown.talk.finishes(21, at=shown.now_ns() + 1)
            shown.tell()
            await until(
                lambda: all(
                    any(e[1]["ended"] for e in events(v.response.body)[1:]) for v in viewers
                )
            )
        assert len(shown.viewers) == 0
        assert shown.viewers._pump is None
        return [events(each.response.body) for each in viewers]

    found = asyncio.run(play())
    for each in found:
        assert [name for name, _ in each][:2] == ["whole", "next"]
        assert len(each[0][1]["ended"]) == 20
        new = [batch for _, glance in each[1:] for batch in glance["ended"]]
        assert len(new) == 1
        assert new[0][0] >= each[0][1]["step"]


def one_more(shown, request):
    """A batch that is run and ends, all at once."""
    shown.talk.arrives(request, at=shown.now_ns() + 1)
    shown.talk.finishes(max(shown.talk.kernel.fleet.batches), at=shown.now_ns() + 1)
    shown.tell()


def test_nothing_is_lost_between_the_whole_and_what_is_new():
    """A batch that ends while the whole glance is on its way is in the first event after it."""
    shown = Shown()
    viewer = Exchange()
    sent = viewer.send

    async def send(message):
        if b"event: whole" in message.get("body", b""):
            one_more(shown, 100)
        await sent(message)

    async def play():
        scope = scope_of("GET", "/admin/events")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(shown.app(scope, viewer.receive, send))
            await until(lambda: b"event: next" in viewer.response.body)
            viewer.hung_up.set()

    asyncio.run(play())
    (_, whole), (_, first), *_ = events(viewer.response.body)
    assert (len(whole["ended"]), len(first["ended"])) == (20, 1)


def test_whole_glance_is_never_followed_by_an_older_one():
    """What the others are sent while the whole is being made is not sent after it."""
    shown = Shown()
    whole = shown.viewers.look

    async def look():
        for viewer in shown.viewers._viewers:
            viewer.put(b'event: next\ndata: {"step": 0}\n\n')
        return await whole()

    async def play():
        async with shown.watching(1) as (first,):
            await until(lambda: b"event: next" in first.response.body)
            shown.viewers.look = look
            async with shown.watching(1) as (late,):
                await until(lambda: len(events(late.response.body)) > 2)
        return events(late.response.body)

    steps = [glance["step"] for _, glance in asyncio.run(play())]
    assert steps == sorted(steps)


def test_viewers_beyond_the_limit_are_refused():
    """With a word of how to have more; one that leaves makes room."""
    shown = Shown(viewers_max=2)

    async def play():
        async with shown.watching(2) as viewers:
            await until(lambda: all(each.response.body for each in viewers))
            refused = await shown.ask("/admin/events")
        assert (refused.status, "viewers_max" in refused.json["error"]) == (503, True)
        async with shown.watching(1) as viewers:
            await until(lambda: viewers[0].response.body)

    asyncio.run(play())


def test_viewer_that_does_not_read_is_let_go():
    """Its stream ends, and the others go on."""
    shown = Shown()

    async def play():
        stuck, free = Exchange(), asyncio.Event()
        sent = stuck.send

        async def send(message):
            if b"event: next" in message.get("body", b""):
                await free.wait()
            await sent(message)

        scope = scope_of("GET", "/admin/events")
        async with shown.watching(1) as (other,):
            async with asyncio.TaskGroup() as tasks:
                slow = tasks.create_task(shown.app(scope, stuck.receive, send))
                await until(lambda: len(shown.viewers) == 2)
                await until(lambda: len(events(other.response.body)) > 20)
                free.set()
                await slow
            assert len(shown.viewers) == 1
        return events(stuck.response.body)

    assert len(asyncio.run(play())) <= 3


def test_stream_ends_when_the_server_does():
    """Nobody waits for a stream that would never end, and no further one begins."""
    shown = Shown()

    async def play():
        async with shown.watching(1) as (viewer,):
            await until(lambda: viewer.response.body)
            shown.viewers.close()
            await until(lambda: len(shown.viewers) == 0)
        return await shown.ask("/admin/events")

    assert asyncio.run(play()).status == 503


def test_bug_of_the_board_ends_the_streams_and_nothing_else(caplog):
    """The server goes on, and its log says what happened."""
    shown = Shown()

    async def play():
        async with shown.watching(1) as (viewer,):
            await until(lambda: b"event: next" in viewer.response.body)
            shown.viewers._board.next = lambda: 1 // 0
            await until(lambda: len(shown.viewers) == 0)
        del shown.viewers._board.next
        async with shown.watching(1) as (viewer,):
            await until(lambda: b"event: next" in viewer.response.body)

    asyncio.run(play())
    assert "the page cannot be shown" in caplog.text


@pytest.mark.parametrize("path", PATHS)
def test_all_of_it_asks_for_what_management_asks_for(path):
    """Its key, and its port; and it is not for pages of somebody else's."""
    keyed = Shown(door=Door(Access(None, [KeyParams(key_hash=hash_of("hwk_admin"))])))
    assert keyed.get(path).status == 401
    assert keyed.get(path, {"headway-key": "hwk_wrong"}).status == 401
    assert keyed.get(path, ADMIN, "HEAD").status == 200
    elsewhere = Shown(door=Door(Access(None, has_admin_door=True)))
    assert elsewhere.get(path).status == 403
    assert Shown().get(path, FOREIGN).status == 403
    assert Shown().get(path, None, "POST").status == 405


def test_page_is_served_without_a_key_and_only_at_its_port():
    """A browser shows none before its user has typed it; what is on the page tells nothing."""
    keyed = Shown(door=Door(Access(None, [KeyParams(key_hash=hash_of("hwk_admin"))])))
    answer = keyed.get("/ui")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert keyed.get("/ui/").body == answer.body
    elsewhere = Shown(door=Door(Access(None, has_admin_door=True)))
    assert elsewhere.get("/ui").status == 403


def test_page_allows_nothing_from_elsewhere():
    """No script, style, picture or request but the server's own, and no frame around it."""
    policy = Shown().get("/ui").headers["content-security-policy"]
    found = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert found["default-src"] == "'none'"
    for kind in ("script-src", "style-src", "img-src", "connect-src"):
        assert found[kind] == "'self'"
    assert found["frame-ancestors"] == "'none'"
    assert Shown().get("/ui").headers["x-content-type-options"] == "nosniff"


def test_every_file_that_a_page_names_is_there():
    """And of its type; none is asked for elsewhere."""
    shown = Shown()
    page = shown.get("/ui").body.decode()
    names = [part.split('"')[0] for part in page.split('"/ui/')[1:]]
    assert {"app.js", "style.css", "theme.js"} <= set(names)
    assert "://" not in page.replace("http://www.w3.org", "")
    for name in names:
        answer = shown.get(f"/ui/{name}")
        assert answer.status == 200, name
        for module in answer.body.decode().split(' from "./')[1:]:
            assert shown.get(f"/ui/{module.split(chr(34))[0]}").status == 200


@pytest.mark.parametrize("name", ["nothing.js", "../pages.py", "..%2fpages.py", ".", "a/b.js"])
def test_file_that_is_none_of_the_page_is_not_found(name):
    """Whatever the path says, it opens nothing."""
    assert Shown().get(f"/ui/{name}").status == 404


def test_file_that_a_browser_has_is_not_sent_again():
    """It asks with the tag that it was given."""
    shown = Shown()
    tag = shown.get("/ui/style.css").headers["etag"]
    again = shown.get("/ui/style.css", {"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")
    assert shown.get("/ui/style.css", {"if-none-match": '"other"'}).status == 200


def test_client_that_leaves_the_records_is_noticed():
    """The rest is not written for nobody."""
    shown = Shown(requests=450, watch=DisconnectWatch(tick_s=0))

    async def play():
        exchange = Exchange()
        sent, count = exchange.send, 0

        async def send(message):
            nonlocal count
            count += 1
            exchange.hung_up.set()
            for _ in range(20):
                await asyncio.sleep(0)
            await sent(message)

        await shown.app(scope_of("GET", "/admin/records"), exchange.receive, send)
        return count

    whole = len(shown.talk.records) // 200 + 3
    assert asyncio.run(play()) < whole


def test_model_names_are_never_markup():
    """The page's scripts set texts as texts: none of them writes markup."""
    shown = Shown()
    for name in ("dom.js", "app.js", "tables.js", "models.js", "slots.js", "whatif.js", "tiers.js"):
        text = shown.get(f"/ui/{name}").body.decode()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (name, word)
