"""The queue that vLLM looks at: taken from the front, and from anywhere."""

from types import SimpleNamespace

from headway.generate.vllm_queue import Waiting


def test_queue_gives_in_order_and_loses_whom_it_is_told():
    """What vLLM does with a queue of its own works with this one."""
    a, b, c, d = (SimpleNamespace(request_id=name) for name in "abcd")
    queue = Waiting([a, b])
    queue.add_request(c)
    queue.prepend_request(d)
    assert [each.request_id for each in queue] == ["a", "b", "c", "d"]
    queue.remove_requests([b, b])
    assert queue.peek_request() is a
    assert queue.pop_request() is a
    queue.prepend_requests([b])
    assert len(queue) == 3
    queue.remove_requests([b, c, d])
    assert not queue
