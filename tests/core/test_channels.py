"""A channel keeps every version, refuses what was made from another one, and pinned to its primary never splits."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.history import naive
from tests.extent import examples

from settlemark import PayloadError, SettlemarkError, UsageError
from settlemark.channels import PRIMARY, HeadMoved, Versioned, VersionedChannel
from settlemark.history import ReplicaRead, ReplicaReadFile, replica_reads, split_view

REPLICAS = ["eu", "us"]
values = st.sampled_from([None, "v0", "v1", 0, 1, True, [1], {"a": [1]}])


def state(channel):
    """All that is to stay as it is when something is refused."""
    return [channel.read(version) for version in range(channel.head + 1)]


class Channels(RuleBasedStateMachine):
    """Writers and readers of one channel, against a list of what was written."""

    @initialize(pinned=st.booleans())
    def begin(self, pinned):
        self.pinned = pinned
        self.told = []
        self.channel = VersionedChannel("plan", pinned=pinned, log=self.told.append)
        self.written = [None]
        self.copied = dict.fromkeys(REPLICAS, 0)
        self.expected_log = []
        self.last = 0

    @property
    def head(self):
        return len(self.written) - 1

    def saw(self, replica, version):
        """Note what is to be in the log, and return what is to be read."""
        value = copy.deepcopy(self.written[version])
        self.expected_log.append(ReplicaRead(cell="plan", replica=replica, version=version, value=value))
        return Versioned(version, value)

    @rule(value=values, expected=st.integers(-1, 6))
    def write(self, value, expected):
        if expected != self.head:
            with pytest.raises(HeadMoved) as refused:
                self.channel.write(value, expected=expected)
            assert refused.value.data == {"channel": "plan", "expected": expected, "head": self.head}
        else:
            self.written.append(value)
            assert self.channel.write(value, expected=expected) == self.head

    @rule(value=values)
    def write_from_what_stands(self, value):
        self.written.append(value)
        assert self.channel.write(value, expected=self.channel.head) == self.head

    @rule(version=st.none() | st.integers(0, 6))
    def read(self, version):
        if version is not None and version > self.head:
            with pytest.raises(UsageError):
                self.channel.read(version)
        else:
            read = self.channel.read(version)
            assert read == self.saw(PRIMARY, self.head if version is None else version)
            self.meddle(read.value)

    @rule(replica=st.sampled_from(REPLICAS), to=st.none() | st.integers(0, 6))
    def catch_up(self, replica, to):
        wanted = self.head if to is None else to
        if self.copied[replica] <= wanted <= self.head:
            self.copied[replica] = wanted
            assert self.channel.replica(replica).catch_up(to) == wanted
        else:
            with pytest.raises(UsageError):
                self.channel.replica(replica).catch_up(to)

    @rule(replica=st.sampled_from(REPLICAS))
    def read_a_replica(self, replica):
        read = self.channel.replica(replica).read()
        expected = self.saw(PRIMARY, self.head) if self.pinned else self.saw(replica, self.copied[replica])
        assert read == expected
        assert not self.pinned or read.version >= self.last  # whichever replica was asked before
        self.last = read.version
        self.meddle(read.value)

    def meddle(self, value):
        """What a reader does to its own answer is nobody else's."""
        for inside in (value, *(value.values() if isinstance(value, dict) else ())):
            if isinstance(inside, list):
                inside.append("mine")

    @invariant()
    def nothing_but_what_was_accepted_and_copied_is_there(self):
        assert self.channel.head == self.head
        assert {name: self.channel.replica(name).version for name in REPLICAS} == self.copied
        assert self.told == self.expected_log

    @invariant()
    def two_reads_of_the_primary_at_one_version_give_one_value(self):
        seen = {}
        for read in self.told:
            if read.replica == PRIMARY:
                assert naive.same(seen.setdefault(read.version, read.value), read.value)

    @invariant()
    def pinned_no_view_splits_and_unpinned_it_does_when_the_definition_says_so(self):
        assert split_view(self.told).count == len(naive.a4(self.told))
        assert not (self.pinned and naive.a4(self.told))


TestChannels = Channels.TestCase
TestChannels.settings = settings(max_examples=examples(100), stateful_step_count=25)


def test_versions_seen_by_a_pinned_reader_never_go_back_whichever_replica_it_asks():
    channel = VersionedChannel("plan")
    seen = []
    for n, name in enumerate(["eu", "us", "eu", "primary", "us", "eu"]):
        if n % 2:
            channel.write(n, expected=channel.head)
        seen.append((channel.read() if name == PRIMARY else channel.replica(name).read()).version)
    assert seen == [0, 1, 1, 2, 2, 3]


def test_a_secondary_that_lags_splits_the_view_and_pinned_it_cannot():
    found = {}
    for pinned in (False, True):
        told = []
        channel = VersionedChannel("plan", pinned=pinned, log=told.append)
        channel.write("fly", expected=0)
        channel.replica("eu").catch_up()
        channel.write("drive", expected=1)
        answers = channel.read(agent="ada"), channel.replica("eu").read(agent="bob")
        found[pinned] = [answer.value for answer in answers], [w.sentence for w in split_view(told).witnesses]
    assert found == {
        False: (
            ["drive", "fly"],
            ["bob read plan = 'fly' from eu (version 1), and ada read plan = 'drive' from primary (version 2)"],
        ),
        True: (["drive", "drive"], []),
    }


def test_a_write_made_from_another_version_is_refused_with_what_to_do_and_nothing_changed():
    channel = VersionedChannel("plan")
    channel.write("fly", expected=0)
    before = state(channel)
    for expected in (0, 2):
        with pytest.raises(HeadMoved) as refused:
            channel.write("drive", expected=expected)
        assert str(refused.value) == (
            f"plan is at version 1, and the write was based on version {expected}: nothing was written; read it again,"
            " make a new value from it, and write that with expected=1"
        )
        assert state(channel) == before


def test_a_value_that_came_back_is_another_version():
    channel = VersionedChannel("plan")
    for expected, value in enumerate(["v0", "v1", "v0"]):
        channel.write(value, expected=expected)
    with pytest.raises(HeadMoved):
        channel.write("made from the first v0", expected=1)
    assert [read.value for read in state(channel)] == [None, "v0", "v1", "v0"]


def test_a_value_that_is_no_json_is_refused_and_nothing_changed():
    channel = VersionedChannel("plan")
    with pytest.raises(PayloadError):
        channel.write({"when": {1, 2}}, expected=0)
    assert state(channel) == [(0, None)]


def test_what_a_writer_does_to_its_value_afterwards_changes_no_version():
    channel, value = VersionedChannel("plan"), ["fly"]
    channel.write(value, expected=0)
    value.append("drive")
    assert channel.read() == (1, ["fly"])


@pytest.mark.parametrize("version", [-1, 2])
def test_a_version_that_is_not_there_is_refused_and_no_read_is_told(version):
    told = []
    channel = VersionedChannel("plan", log=told.append)
    channel.write("fly", expected=0)
    with pytest.raises(UsageError, match=f"plan has no version {version}: it is at version 1") as refused:
        channel.read(version)
    assert (refused.value.data, told) == ({"channel": "plan", "version": version, "head": 1}, [])


@pytest.mark.parametrize(("to", "choices"), [(0, "from 1 to 2"), (3, "from 1 to 2")])
def test_a_replica_goes_neither_back_nor_ahead_of_what_is_there_and_nothing_changed(to, choices):
    channel = VersionedChannel("plan")
    channel.write("fly", expected=0)
    replica = channel.replica("eu")
    replica.catch_up()
    channel.write("drive", expected=1)
    with pytest.raises(UsageError, match=f"eu is at version 1 of plan and cannot catch up to {to}: .* {choices}"):
        replica.catch_up(to)
    assert (replica.version, channel.replica("eu") is replica) == (1, True)


def test_a_replica_cannot_pass_for_the_primary():
    with pytest.raises(UsageError, match="cannot be called 'primary'"):
        VersionedChannel("plan").replica(PRIMARY)


def test_of_threads_that_write_at_once_from_one_version_one_is_accepted():
    channel, barrier, won = VersionedChannel("count"), threading.Barrier(4), []

    def add_to_it(name):
        barrier.wait()
        for _ in range(200):
            while True:
                version, value = channel.read()
                try:
                    channel.write((value or 0) + 1, expected=version)
                except HeadMoved:
                    continue
                won.append(name)
                break

    threads = [threading.Thread(target=add_to_it, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (channel.read(), len(won)) == ((800, 800), 800)
    assert [read.value for read in state(channel)][1:] == list(range(1, 801))


def test_reads_go_to_a_file_that_is_checked_afterwards(tmp_path):
    path = tmp_path / "reads.jsonl"
    with ReplicaReadFile(path) as log:
        channel = VersionedChannel("plan", pinned=False, log=log)
        channel.write("fly", expected=0)
        channel.read(agent="ada")
        channel.replica("eu").read()
    assert list(replica_reads(path)) == [
        ReplicaRead(cell="plan", replica="primary", version=1, value="fly", agent="ada"),
        ReplicaRead(cell="plan", replica="eu", version=0, value=None),
    ]
    assert split_view(replica_reads(path)).count == 2


def test_the_refusal_survives_a_journey_with_its_data():
    sent = HeadMoved("moved", channel="plan", expected=1, head=2)
    back = pickle.loads(pickle.dumps(sent))
    assert (type(back), back.data, isinstance(back, SettlemarkError)) == (HeadMoved, sent.data, True)


@pytest.mark.parametrize("to", [1.5, 1.0, True, "1"])
def test_a_version_that_is_no_whole_number_is_refused_and_nothing_changed(to):
    channel = VersionedChannel("plan", pinned=False)
    for expected in (0, 1):
        channel.write("fly", expected=expected)
    replica = channel.replica("eu")
    with pytest.raises(UsageError, match=f"cannot catch up to {to}: choose a version from 0 to 2"):
        replica.catch_up(to)
    with pytest.raises(UsageError, match=f"plan has no version {to}"):
        channel.read(to)
    assert (replica.version, replica.read(), state(channel)) == (0, (0, None), [(0, None), (1, "fly"), (2, "fly")])
