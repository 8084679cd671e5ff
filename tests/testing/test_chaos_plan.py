"""The plan of chaos: the same for the same seed, and fair to every checkpoint and mode."""

from collections import Counter

import pytest

from nanobee.bus.checkpoints import NAMES
from nanobee.testing.chaos.modes import NEVER_PASSED, POINTS, Mode
from nanobee.testing.chaos.plan import KillKind, RoundPlan, build_plan
from nanobee.testing.chaos.script import Wait


def targets(plans: list[RoundPlan]) -> Counter[tuple[Mode, str]]:
    return Counter((plan.mode, kill.point) for plan in plans for kill in plan.kills if kill.kind is KillKind.POINT)


def test_every_checkpoint_belongs_to_a_mode_or_is_known_as_never_passed() -> None:
    passed = {point for points in POINTS.values() for point in points}
    assert passed | set(NEVER_PASSED) == set(NAMES)
    assert not passed & set(NEVER_PASSED)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert list(build_plan(30, 40, 7)) == list(build_plan(30, 40, 7))
    assert list(build_plan(30, 40, 7)) != list(build_plan(30, 40, 8))


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    assert list(build_plan(40, 40, 7))[:15] == list(build_plan(15, 40, 7))


def test_four_runs_of_200_rounds_aim_at_every_checkpoint_in_every_mode_at_least_8_times() -> None:
    hits: Counter[tuple[Mode, str]] = Counter()
    for seed in range(1, 5):
        hits += targets(list(build_plan(200, 40, seed)))
    aims = [(mode, point) for mode in Mode for point in POINTS[mode]]
    assert min(hits[aim] for aim in aims) >= 8


def test_twenty_rounds_show_every_mode_and_kill_twice_each() -> None:
    plans = list(build_plan(20, 40, 1))
    assert {plan.mode for plan in plans} == set(Mode)
    assert all(len(plan.kills) == 2 for plan in plans)


@pytest.mark.parametrize("messages", [1, 2, 7, 40, 123])
def test_each_round_has_the_messages_that_were_asked_for_under_marks_of_their_own(messages: int) -> None:
    plans = list(build_plan(14, messages, 3))
    steps = [step for plan in plans for script in plan.scripts for step in script.steps]
    assert len({step.mark for step in steps}) == len(steps) == 14 * messages
    assert len({script.chat_id for plan in plans for script in plan.scripts}) == sum(len(p.scripts) for p in plans)


def test_marks_rise_in_each_chat_so_that_order_can_be_read_from_them() -> None:
    for plan in build_plan(14, 40, 5):
        for script in plan.scripts:
            found = [step.mark for step in script.steps]
            assert found == sorted(found)


def test_about_half_of_a_chat_comes_after_the_first_kill_and_questions_are_answered_after_one() -> None:
    for plan in build_plan(28, 40, 5):
        for script in plan.scripts:
            waits = [step.wait in (Wait.KILL, Wait.UP) for step in script.steps]
            assert sum(waits) <= 1
            early = script.steps[: waits.index(True)] if True in waits else script.steps
            assert all(step.after_kill for step in early if step.wait is Wait.QUESTION)


def test_only_the_modes_that_are_asked_for_occur() -> None:
    plans = list(build_plan(30, 10, 1, [Mode.TOOLS, Mode.PLAIN]))
    assert {plan.mode for plan in plans} == {Mode.TOOLS, Mode.PLAIN}
