"""Checkpoints made by hand: what is wrong with them, whose they are, and their repair."""

import json
from pathlib import Path

import pytest

from dwh_pipeline.errors import CheckpointError
from dwh_pipeline.lake.checkpoint import (
    Problem,
    Repair,
    entries,
    keep_passport,
    last_batches,
    passport_problems,
    problems,
    read_passport,
    repair,
    require_usable,
    start_new_generation,
)

_OFFSET, _COMMIT = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":0}', 'v1\n{"nextBatchWatermarkMs":0}'


def checkpoint_of(root: Path, offsets: range, commits: range) -> Path:
    """A checkpoint as Spark leaves it, with the log files of these micro-batches."""
    path = root / "kna1"
    for folder, batches, text in (("offsets", offsets, _OFFSET), ("commits", commits, _COMMIT)):
        (path / folder).mkdir(parents=True)
        for batch in batches:
            (path / folder / str(batch)).write_text(text, encoding="utf-8")
            (path / folder / f".{batch}.crc").write_bytes(b"crc")
    (path / "metadata").write_text('{"id":"q1"}', encoding="utf-8")
    return path


def test_a_checkpoint_that_is_not_there_yet_is_sound(tmp_path: Path) -> None:
    assert problems(tmp_path / "kna1") == ()
    assert entries(tmp_path / "kna1") == {}
    assert last_batches(tmp_path / "kna1") == (None, None)


@pytest.mark.parametrize(
    ("offsets", "commits"), [(range(3), range(3)), (range(4), range(3)), (range(7, 9), range(7, 9))]
)
def test_a_checkpoint_may_have_one_open_batch_and_need_not_begin_at_0(
    tmp_path: Path, offsets: range, commits: range
) -> None:
    path = checkpoint_of(tmp_path, offsets, commits)
    assert problems(path) == ()
    assert entries(path) == {"metadata": 1, "offsets": len(offsets), "commits": len(commits)}
    assert last_batches(path) == (max(offsets), max(commits))


def test_c05_an_open_offset_that_was_cut_off_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(4), range(3))
    (path / "offsets" / "3").write_text("", encoding="utf-8")
    found = problems(path)
    assert found == (Problem("offsets/3 is empty or cut off", Repair.REMOVE_OFFSET),)
    with pytest.raises(CheckpointError, match=r"offsets/3 is empty .* dwh recover-stream customers --apply"):
        require_usable(path, feed="customers", target_id="t1")
    assert repair(path, found) == ["removed offsets/3"]
    assert problems(path) == ()
    assert sorted(file.name for file in (path / "offsets").iterdir()) == [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"]


def test_a_last_commit_that_was_cut_off_is_removed_so_that_its_batch_comes_again(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(3), range(3))
    (path / "commits" / "2").write_text("v1\n{", encoding="utf-8")
    assert problems(path) == (Problem("commits/2 is empty or cut off", Repair.REMOVE_COMMIT),)
    assert repair(path, problems(path)) == ["removed commits/2"]
    assert problems(path) == ()


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        ("metadata", "metadata is missing or cannot be read"),
        ("offsets/1", "offsets/1 is missing"),
        ("commits/1", "commits/1 is missing"),
        ("offsets/2", "commit 2 has no offset"),
    ],
)
def test_what_cannot_be_mended_starts_a_new_checkpoint_and_the_old_one_is_kept(
    tmp_path: Path, lost: str, what: str
) -> None:
    path = checkpoint_of(tmp_path, range(3), range(3))
    (path / lost).unlink()
    found = problems(path)
    assert found == (Problem(what, Repair.NEW_GENERATION),)
    (line,) = repair(path, found)
    assert "kna1.generation-1" in line
    assert not path.exists()
    assert (tmp_path / "kna1.generation-1" / "commits").is_dir()


def test_a_committed_offset_that_was_cut_off_cannot_be_mended(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(3), range(3))
    (path / "offsets" / "2").write_text("v1\n", encoding="utf-8")
    (path / "offsets" / "1").write_text("", encoding="utf-8")
    assert [problem.repair for problem in problems(path)] == [Repair.NEW_GENERATION]


def test_a_passport_says_whose_the_checkpoint_is(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(1), range(1))
    assert passport_problems(path, feed="customers", target_id="t1") == ()
    keep_passport(path, feed="customers", source="/landing/customers", target_id="t1")
    passport = read_passport(path)
    assert passport is not None
    assert (passport.feed, passport.query_id, passport.generation) == ("customers", "q1", 1)
    assert passport_problems(path, feed="customers", target_id="t1") == ()
    other_feed = passport_problems(path, feed="partners", target_id="t1")
    assert [problem.what for problem in other_feed] == ["it belongs to the feed customers"]
    other_table = passport_problems(path, feed="customers", target_id="t2")
    assert ["bronze table that is no longer there" in problem.what for problem in other_table] == [True]
    (path / "metadata").write_text('{"id":"q2"}', encoding="utf-8")
    other_query = passport_problems(path, feed="customers", target_id="t1")
    assert [problem.what for problem in other_query] == ["its query is another one than its passport says"]


def test_a_landing_area_that_has_moved_gets_a_new_passport(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(1), range(1))
    keep_passport(path, feed="customers", source="/landing/customers", target_id="t1")
    keep_passport(path, feed="customers", source="/new/customers", target_id="t1")
    passport = read_passport(path)
    assert passport is not None
    assert passport.source == "/new/customers"


def test_a_new_generation_is_counted_and_takes_its_passport_along(tmp_path: Path) -> None:
    for generation in (1, 2):
        path = checkpoint_of(tmp_path, range(1), range(1))
        keep_passport(path, feed="customers", source="/landing/customers", target_id="t1")
        passport = read_passport(path)
        assert passport is not None
        assert passport.generation == generation
        start_new_generation(path)
        kept = tmp_path / f"kna1.generation-{generation}.passport.json"
        assert json.loads(kept.read_text(encoding="utf-8"))["generation"] == generation


def test_a_passport_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = checkpoint_of(tmp_path, range(1), range(1))
    (tmp_path / "kna1.passport.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"passport\.json cannot be read"):
        require_usable(path, feed="customers", target_id="t1")
