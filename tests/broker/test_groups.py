"""Classic groups in a live broker: their requests at every version, and what clients do that they should not."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sync_group import SyncGroupRequest
from support.broker import running_broker
from support.groups import GroupMember, commit, find_group, subscription
from support.wire import create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NUMBERS = itertools.count(1)


@pytest.fixture
def group_id():
    return f"group-{next(_NUMBERS)}"


async def described(client, group_id, version=5):
    answer = await client.call(DescribeGroupsRequest(groups=[group_id]), version)
    return answer.groups[0]


async def deleted(client, group_id, version=2):
    return (await client.call(DeleteGroupsRequest(groups_names=[group_id]), version)).results[0].error_code


@pytest.mark.parametrize("version", range(10))
async def test_all_requests_of_a_member_in_every_version(client, group_id, version):
    await find_group(client.call, group_id)
    member = GroupMember(client.call, group_id, topics=("t",))
    joined = await member.join(version)
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", member.member_id)
    assert [(one.member_id, one.metadata) for one in joined.members] == [(member.member_id, member.metadata)]
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    synced = await member.sync({member.member_id: b"assignment"}, min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, b"assignment")
    found = await described(client, group_id, min(version, 5))
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    (one,) = found.members
    assert (one.client_id, one.client_host, one.member_metadata, one.member_assignment) == (
        "wire",
        "/127.0.0.1",
        member.metadata,
        b"assignment",
    )
    assert await deleted(client, group_id) == ErrorCode.NON_EMPTY_GROUP
    assert await member.heartbeat(min(version, 4)) == 0
    assert await member.leave(min(version, 5)) == 0
    assert await member.leave(min(version, 5)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await described(client, group_id)).group_state == "Empty"
    assert await deleted(client, group_id, min(version, 2)) == 0
    assert await deleted(client, group_id, min(version, 2)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await described(client, group_id)).group_state == "Dead"


@pytest.mark.parametrize("version", range(10))
async def test_errors_are_returned_in_every_version(client, group_id, version):
    await find_group(client.call, group_id)
    member = GroupMember(client.call, group_id)
    member.member_id = "nobody"
    assert (await member.join_once(version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.generation = 3
    assert (await member.sync(version=min(version, 5))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await member.heartbeat(min(version, 4)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await member.leave(min(version, 5)) == ErrorCode.UNKNOWN_MEMBER_ID
    member.member_id, member.group_id = "", ""
    refused = await member.join_once(version)
    assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_GROUP_ID, "")
    assert refused.protocol_name == (None if version >= 7 else "")
    assert (await member.sync(version=min(version, 5))).error_code == ErrorCode.INVALID_GROUP_ID


async def test_sync_needs_the_protocol_from_version_5_on(client, group_id):
    await find_group(client.call, group_id)
    request = SyncGroupRequest(group_id=group_id, generation_id=1, member_id="m", protocol_type="consumer")
    assert (await client.call(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_groups_are_listed_by_state_and_type(client, group_id):
    await find_group(client.call, group_id)
    await create_topic(client, f"t-{group_id}")
    stable, empty = GroupMember(client.call, f"{group_id}-stable"), f"{group_id}-empty"
    await stable.settle()
    assert await commit(client.call, empty, f"t-{group_id}", 1) == 0

    async def listed(states=(), types=(), version=5):
        filters = {"states_filter": list(states)} if version >= 4 else {}
        filters |= {"types_filter": list(types)} if version >= 5 else {}
        answer = await client.call(ListGroupsRequest(**filters), version)
        assert answer.error_code == 0
        return {one.group_id: one for one in answer.groups if one.group_id.startswith(group_id)}

    for version in range(6):
        found = await listed(version=version)
        assert {name: one.protocol_type for name, one in found.items()} == {stable.group_id: "consumer", empty: ""}
        if version >= 4:
            assert {one.group_state for one in found.values()} == {"Stable", "Empty"}
        if version >= 5:
            assert {one.group_type for one in found.values()} == {"classic"}
    assert set(await listed(["stable"])) == {stable.group_id}
    assert set(await listed(["EMPTY", "dead"])) == {empty}
    assert set(await listed(["unheard-of"])) == set()
    assert set(await listed(types=["Classic"])) == {stable.group_id, empty}
    assert set(await listed(types=["consumer"])) == set()
    assert await stable.leave() == 0


async def test_two_members_share_partitions_and_one_session_expires(tmp_path, group_id):
    sessions = {"group_min_session_timeout_ms": "1500"}
    async with (
        running_broker(tmp_path / "data", **sessions) as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        await find_group(client.call, group_id)
        one = GroupMember(client.call, group_id)
        one.session_timeout_ms = 60_000  # longer than any pause of this machine
        await one.settle()
        async with wire_client(broker.bootstrap_servers) as other:
            two = GroupMember(other.call, group_id)
            two.session_timeout_ms = 1_500
            joining = asyncio.create_task(two.join())
            await one.until_rebalance()
            led = await one.join()
            followed = await joining
            assert (led.generation_id, followed.generation_id) == (2, 2)
            assert len(led.members) == 2
            assert followed.members == []
            waiting = asyncio.create_task(two.sync())
            assert (await one.sync({one.member_id: b"1", two.member_id: b"2"})).assignment == b"1"
            assert (await waiting).assignment == b"2"
        await one.until_rebalance()  # after the other's session timeout
        assert len((await one.join()).members) == 1
        assert await one.leave() == 0


async def test_several_members_leave_at_once(client, group_id):
    await find_group(client.call, group_id)
    member = GroupMember(client.call, group_id, instance_id="i")
    await member.settle()
    leaving = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="", group_instance_id="i", reason="told to"),
        MemberIdentity(member_id="", group_instance_id="unknown"),
    ]
    answer = await client.call(LeaveGroupRequest(group_id=group_id, members=leaving), 5)
    assert answer.error_code == 0
    assert [one.error_code for one in answer.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


async def test_a_static_member_keeps_its_assignment_over_a_restart(client, group_id):
    await find_group(client.call, group_id)
    first = GroupMember(client.call, group_id, instance_id="i")
    await first.settle()
    again = GroupMember(client.call, group_id, instance_id="i")
    back = await again.join()
    assert (back.generation_id, back.skip_assignment) == (1, True)
    assert (await again.sync()).assignment == b"mine"
    assert await first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert await first.leave() == ErrorCode.FENCED_INSTANCE_ID
    assert await again.leave() == 0


# -- broken input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0", b"\xff" * 100, b"\0\3\xff\xff\xff\xff", subscription()[:-1]])
async def test_metadata_and_assignments_may_be_anything(client, group_id, metadata):
    await find_group(client.call, group_id)
    topic = f"t-{group_id}"
    await create_topic(client, topic)
    member = GroupMember(client.call, group_id)
    member.metadata = metadata
    joined = await member.join()
    assert joined.members[0].metadata == metadata
    assert (await member.sync({member.member_id: b"\xff\0garbage"})).assignment == b"\xff\0garbage"
    assert (await described(client, group_id)).members[0].member_assignment == b"\xff\0garbage"
    assert await member.commit(topic, 5) == 0
    assert await member.leave() == 0


async def test_an_assignment_that_the_log_refuses_affects_only_its_group(client, group_id):
    await find_group(client.call, group_id)
    other = GroupMember(client.call, f"{group_id}-other")
    await other.settle()
    member = GroupMember(client.call, group_id)
    await member.join()
    refused = await member.sync({member.member_id: b"x" * 2_000_000})
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka says it
    await member.settle()
    assert await other.heartbeat() == 0
    assert await member.leave() == await other.leave() == 0


async def test_sessions_out_of_bounds_are_refused(client, group_id):
    await find_group(client.call, group_id)
    member = GroupMember(client.call, group_id)
    for timeout_ms in (-1, 0, 5_999, 1_800_001, 2**31 - 1):
        member.session_timeout_ms = timeout_ms
        assert (await member.join_once()).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    member.session_timeout_ms, member.rebalance_timeout_ms = 6_000, -5
    await member.join()  # who has no time to sync is soon out
    member.member_id, member.rebalance_timeout_ms = "", 6_000
    await member.settle()
    assert await member.leave() == 0


async def test_group_ids_and_member_ids_of_any_kind(client):
    for group_id in ("a b/c%\n", "ü" * 100, "x" * 32_000, "..", "__consumer_offsets"):
        await find_group(client.call, group_id)
        member = GroupMember(client.call, group_id)
        await member.settle()
        assert (await described(client, group_id)).group_state == "Stable"
        assert await member.leave() == 0
        assert await deleted(client, group_id) == 0


async def test_requests_that_need_a_member_are_refused(client, group_id):
    await find_group(client.call, group_id)
    member, pretender = GroupMember(client.call, group_id), GroupMember(client.call, group_id)
    await member.settle()
    pretender.member_id, pretender.generation = member.member_id, member.generation + 1
    assert await pretender.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    pretender.generation, pretender.instance_id = member.generation, "i"
    assert await pretender.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    pretender.instance_id, pretender.protocol_type = None, "connect"
    assert (await pretender.sync()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    pretender.member_id = ""
    assert (await pretender.join_once()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await member.leave() == 0
