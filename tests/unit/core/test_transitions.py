"""Both tables of states: each entry leads where it says, and nothing else leads anywhere."""

from itertools import product

import pytest

from headway.core import (
    REPLICA_TRANSITIONS,
    TRANSITIONS,
    ReplicaState,
    ReplicaStep,
    RequestState,
    RequestStep,
)
from headway.errors import InternalError, InvalidTransitionError
from headway.testing import a_kernel

R, S = RequestState, RequestStep
REQUEST_TABLE = {
    (R.ARRIVING, S.ADMIT): R.WAITING,
    (R.ARRIVING, S.REJECT): R.REJECTED,
    (R.WAITING, S.DISPATCH): R.RUNNING,
    (R.WAITING, S.DISPLACE): R.REJECTED,
    (R.WAITING, S.EXPIRE): R.EXPIRED,
    (R.WAITING, S.CANCEL): R.CANCELLED,
    (R.WAITING, S.FAIL): R.FAILED,
    (R.RUNNING, S.COMPLETE): R.COMPLETED,
    (R.RUNNING, S.CONTINUE): R.WAITING,
    (R.RUNNING, S.EXPIRE): R.EXPIRED,
    (R.RUNNING, S.CANCEL): R.CANCELLED,
    (R.RUNNING, S.FAIL): R.FAILED,
}
P, T = ReplicaState, ReplicaStep
REPLICA_TABLE = {
    (P.LOADING, T.LOAD): P.WARMING,
    (P.LOADING, T.FAIL): P.STOPPED,
    (P.LOADING, T.DRAIN): P.DRAINING,
    (P.LOADING, T.LOSE): P.LOST,
    (P.WARMING, T.WARM): P.READY,
    (P.WARMING, T.FAIL): P.STOPPED,
    (P.WARMING, T.DRAIN): P.DRAINING,
    (P.WARMING, T.LOSE): P.LOST,
    (P.READY, T.DRAIN): P.DRAINING,
    (P.READY, T.LOSE): P.LOST,
    (P.DRAINING, T.STOP): P.STOPPED,
    (P.DRAINING, T.LOSE): P.STOPPED,
    (P.LOST, T.RESTART): P.LOADING,
    (P.LOST, T.DRAIN): P.STOPPED,
}
REQUEST_REST = [pair for pair in product(R, S) if pair not in REQUEST_TABLE]
REPLICA_REST = [pair for pair in product(P, T) if pair not in REPLICA_TABLE]


def an_entry(state):
    """A waiting request whose state a test may set, in its kernel."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    entry = talk.kernel.ledger.live[2]
    entry.state = state
    return talk.kernel, entry


def a_replica(state):
    """A replica of model `m` whose state a test may set."""
    replica = a_kernel().kernel.fleet.replicas[1]
    replica.state = state
    return replica


def test_tables_are_as_written_here():
    """A change of a table is a change of the promise, and shows up in two places."""
    assert TRANSITIONS == REQUEST_TABLE
    assert REPLICA_TRANSITIONS == REPLICA_TABLE


def test_ends_have_no_way_out():
    """A request has exactly one end, and a stopped replica never comes back."""
    ends = {R.COMPLETED, R.REJECTED, R.EXPIRED, R.CANCELLED, R.FAILED}
    assert not ends & {state for state, _ in TRANSITIONS}
    assert P.STOPPED not in {state for state, _ in REPLICA_TRANSITIONS}


@pytest.mark.parametrize(("pair", "after"), REQUEST_TABLE.items(), ids=str)
def test_request_moves_along_its_table(pair, after):
    """Each entry of the request's table leads to the state it names."""
    _, entry = an_entry(pair[0])
    entry.step(pair[1])
    assert entry.state is after


@pytest.mark.parametrize("pair", REQUEST_REST, ids=str)
def test_request_off_its_table_raises_and_changes_nothing(pair):
    """Any other pair is our bug: it is told with the request's story, and the request stays."""
    _, entry = an_entry(pair[0])
    with pytest.raises(InvalidTransitionError, match=f"request 2 cannot {pair[1]}") as caught:
        entry.step(pair[1])
    assert entry.state is pair[0]
    assert caught.value.story == (entry.request, pair[0])


@pytest.mark.parametrize(("pair", "after"), REPLICA_TABLE.items(), ids=str)
def test_replica_moves_along_its_table(pair, after):
    """Each entry of the replica's table leads to the state it names."""
    replica = a_replica(pair[0])
    replica.step(pair[1])
    assert replica.state is after


@pytest.mark.parametrize("pair", REPLICA_REST, ids=str)
def test_replica_off_its_table_raises_and_changes_nothing(pair):
    """Any other pair is our bug: it is told with what is known, and the replica stays."""
    replica = a_replica(pair[0])
    with pytest.raises(InvalidTransitionError, match=f"cannot {pair[1]} while {pair[0]}") as caught:
        replica.step(pair[1])
    assert replica.state is pair[0]
    assert caught.value.story[0] == "version `1` on `cpu:0`"


def test_story_of_a_running_request_names_its_batch():
    """Whoever reads the report can find the batch in the journal."""
    talk = a_kernel()
    talk.arrives(1)
    entry = talk.kernel.ledger.live[1]
    with pytest.raises(InternalError) as caught:
        entry.step(S.ADMIT)
    assert caught.value.story == (entry.request, R.RUNNING, "in batch 1")
