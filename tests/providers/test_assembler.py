import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.chat import ToolCall, ToolCallDelta
from nanobee.errors import MalformedAnswerError
from nanobee.providers.assembler import CallFragment, ToolCallAssembler

A = '{"path": "a.txt"}'
B = '{"path": "b.txt"}'
TWO_READS = [("read_file", A), ("read_file", B)]


def assemble(*fragments: CallFragment) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in collect(*fragments)]


def collect(*fragments: CallFragment) -> tuple[ToolCall, ...]:
    assembler = ToolCallAssembler()
    for fragment in fragments:
        assembler.feed(fragment)
    return tuple(assembler.calls().values())


def in_bytes(index: int | None, call_id: str, arguments: str) -> list[CallFragment]:
    return [CallFragment(index, call_id, arguments=char) for char in arguments]


@pytest.mark.parametrize("repeats_id", [True, False])
def test_o02a_two_ids_under_one_index_are_two_calls(repeats_id: bool) -> None:
    fragments: list[CallFragment] = []
    for call_id, arguments in (("call_a", A), ("call_b", B)):
        fragments.append(CallFragment(0, call_id, "read_file"))
        fragments += in_bytes(0, call_id if repeats_id else "", arguments)
    assert assemble(*fragments) == TWO_READS


def test_o02a_two_ids_under_one_index_may_alternate() -> None:
    pairs = zip(in_bytes(0, "call_a", A), in_bytes(0, "call_b", B), strict=True)
    pieces = [piece for pair in pairs for piece in pair]
    heads = [CallFragment(0, "call_a", "read_file"), CallFragment(0, "call_b", "read_file")]
    assert assemble(*heads, *pieces) == TWO_READS


def test_o02b_two_indexes_without_ids_are_two_calls() -> None:
    calls = collect(
        CallFragment(0, "", "read_file"),
        *in_bytes(0, "", A),
        CallFragment(1, "", "read_file"),
        *in_bytes(1, "", B),
    )
    assert [(call.name, call.arguments) for call in calls] == TWO_READS
    assert len({call.id for call in calls} - {""}) == 2


def test_o02c_an_empty_id_later_on_belongs_to_the_call_of_its_index() -> None:
    calls = collect(
        CallFragment(0, "call_a", "read_file"),
        *in_bytes(0, "", A),
        CallFragment(1, "call_b", "read_file"),
        *in_bytes(1, "", B),
    )
    assert calls == (ToolCall("call_a", "read_file", A), ToolCall("call_b", "read_file", B))


@pytest.mark.parametrize("arguments", ["", " ", "\n"])
def test_o02d_empty_arguments_are_an_empty_object(arguments: str) -> None:
    assert assemble(CallFragment(0, "call_a", "list_dir", arguments)) == [("list_dir", "{}")]


@pytest.mark.parametrize("ids", [("call_a", "call_b"), ("", "")])
def test_o02e_interleaved_indexes_stay_apart(ids: tuple[str, str]) -> None:
    assert (
        assemble(
            CallFragment(0, ids[0], "read_file", A[:4]),
            CallFragment(1, ids[1], "read_file", B[:4]),
            CallFragment(0, "", "", A[4:]),
            CallFragment(1, "", "", B[4:]),
        )
        == TWO_READS
    )


def test_o02_whole_calls_under_one_index_without_ids_are_two_calls() -> None:
    assert assemble(CallFragment(0, "", "read_file", A), CallFragment(0, "", "read_file", B)) == TWO_READS
    assert assemble(CallFragment(0, "", "a"), CallFragment(0, "", "b")) == [("a", "{}"), ("b", "{}")]


def test_o02_whole_calls_without_index_and_id_are_two_calls() -> None:
    assert assemble(CallFragment(None, "", "read_file", A), CallFragment(None, "", "read_file", B)) == TWO_READS


def test_o02_one_id_under_two_indexes_with_names_is_two_calls() -> None:
    calls = collect(
        CallFragment(0, "call", "read_file"),
        CallFragment(1, "call", "read_file"),
        CallFragment(0, "call", "", A),
        CallFragment(1, "call", "", B),
    )
    assert [(call.name, call.arguments) for call in calls] == TWO_READS
    assert len({call.id for call in calls}) == 2


def test_o02_one_whole_call_after_another_with_the_same_id_and_index_is_two_calls() -> None:
    calls = collect(CallFragment(0, "call", "read_file", A), CallFragment(0, "call", "read_file", B))
    assert [call.arguments for call in calls] == [A, B]
    assert len({call.id for call in calls}) == 2


def test_a_server_that_counts_fragments_by_index_makes_one_call() -> None:
    pieces = [CallFragment(at + 1, "call_a", "", char) for at, char in enumerate(A)]
    assert assemble(CallFragment(0, "call_a", "read_file"), *pieces) == [("read_file", A)]


@pytest.mark.parametrize("call_id", ["call_a", ""])
def test_a_name_with_every_fragment_makes_one_call(call_id: str) -> None:
    pieces = [CallFragment(0, call_id, "read_file", char) for char in A]
    assert assemble(*pieces, CallFragment(0, call_id, "read_file", "")) == [("read_file", A)]


def test_an_id_that_comes_late_is_kept() -> None:
    assert collect(CallFragment(0, "", "read_file"), CallFragment(0, "late", "", A)) == (
        ToolCall("late", "read_file", A),
    )


def test_a_made_id_does_not_take_a_later_ones_place() -> None:
    calls = collect(CallFragment(0, "", "a"), CallFragment(1, "call_0", "b"), CallFragment(2, "call_0", "c"))
    assert len({call.id for call in calls}) == 3


def test_a_call_without_a_name_is_no_answer() -> None:
    with pytest.raises(MalformedAnswerError):
        collect(CallFragment(0, "call_a", "", A))


def test_deltas_tell_the_calls_apart_and_give_the_name_once() -> None:
    assembler = ToolCallAssembler()
    fragments = [CallFragment(0, "a", "x", "1"), CallFragment(0, "b", "y"), CallFragment(0, "a", "x", "2")]
    assert [assembler.feed(fragment) for fragment in fragments] == [
        ToolCallDelta(0, "x", "1"),
        ToolCallDelta(1, "y", ""),
        ToolCallDelta(0, "", "2"),
    ]


@pytest.mark.parametrize(
    ("arguments", "clean"),
    [
        ('{"a": "\ud83d\ude00"}', '{"a": "😀"}'),
        ('{"a": "\ud83d"}', '{"a": "\ufffd"}'),
        (r'{"a": "\ud83d\ude00"}', '{"a": "😀"}'),
        (r'{"a": "\ud83d"}', '{"a": "\ufffd"}'),
        (r'{"a": "\ud83d', r'{"a": "\ud83d'),
    ],
)
def test_halves_of_characters_do_not_survive_in_arguments(arguments: str, clean: str) -> None:
    assert assemble(CallFragment(0, "c", "x"), *in_bytes(0, "c", arguments)) == [("x", clean)]


@given(st.data())
def test_any_interleaving_of_numbered_calls_gives_each_its_own_arguments(data: st.DataObject) -> None:
    wanted = [("read_file", A), ("write_file", '{"path": "c", "content": "{}"}'), ("list_dir", "{}")]
    with_ids = data.draw(st.booleans())
    streams = [
        [CallFragment(at, f"id{at}" if with_ids else "", name), *in_bytes(at, "", arguments)]
        for at, (name, arguments) in enumerate(wanted)
    ]
    heads = [stream.pop(0) for stream in streams]
    order = data.draw(st.permutations([at for at, stream in enumerate(streams) for _ in stream]))
    assert assemble(*heads, *(streams[at].pop(0) for at in order)) == wanted
