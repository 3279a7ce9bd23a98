"""The state of a stream and its repair: what `dwh recover-stream` shows and does, and what the checks of bronze ask."""

from dataclasses import dataclass
from pathlib import Path

from dwh_pipeline.errors import FeedError
from dwh_pipeline.lake import catalog, checkpoint
from dwh_pipeline.lake.checkpoint import Passport, Problem
from dwh_pipeline.lake.landing import FEEDS_FILE, LandingFile, complete_files, read_feeds
from dwh_pipeline.lake.lease import lease
from dwh_pipeline.lake.stream import changed_files, held_files, new_files
from dwh_pipeline.loads.place import Place
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.tables import bronze, skipped_file


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as it is: what its checkpoint holds, whose it is, what is wrong, and what is not loaded.

    `entries` counts the files of each part of the checkpoint; `begun` and `done` are the last micro-batches; `backlog`
    names complete files that bronze neither holds nor skips.
    """

    feed: Feed
    checkpoint: Path
    entries: dict[str, int]
    begun: int | None
    done: int | None
    passport: Passport | None
    problems: tuple[Problem, ...]
    backlog: tuple[str, ...]


def feed_named(place: Place, name: str) -> Feed:
    """The feed of that name.

    Raises:
        FeedError: there is none; names those that there are.
    """
    feeds = {feed.name: feed for feed in read_feeds(place.landing)}
    if name not in feeds:
        raise FeedError(name, "section", f"is not in {FEEDS_FILE}; the feeds are {', '.join(feeds)}")
    return feeds[name]


def state_of(place: Place, feed: Feed) -> StreamState:
    """Look at a stream. Nothing is changed."""
    path = place.checkpoint_of(feed.sap_table)
    begun, done = checkpoint.last_batches(path)
    return StreamState(
        feed=feed,
        checkpoint=path,
        entries=checkpoint.entries(path),
        begun=begun,
        done=done,
        passport=checkpoint.read_passport(path),
        problems=problems_of(place, feed),
        backlog=tuple(file.relative for file in backlog(place, feed)),
    )


def recover(place: Place, feed: Feed, *, new_generation: bool = False) -> list[str]:
    """Repair what is wrong with a stream, or start a new checkpoint in any case; what was done, in words.

    Raises:
        LeaseHeldError: a run is using the checkpoint.
    """
    path = place.checkpoint_of(feed.sap_table)
    with lease(place.lease_of(bronze.contract_of(feed.sap_table)), is_load=False):
        if new_generation and path.is_dir():
            return [checkpoint.start_new_generation(path)]
        return checkpoint.repair(path, problems_of(place, feed))


def problems_of(place: Place, feed: Feed) -> tuple[Problem, ...]:
    """What is wrong with the checkpoint of a stream, and what its passport says against it."""
    path = place.checkpoint_of(feed.sap_table)
    target = place.name(bronze.contract_of(feed.sap_table))
    # Bronze that is gone has no id: then the checkpoint is of no use to the table that takes its place.
    target_id = catalog.table_id(place.spark, target) if catalog.exists(place.spark, target) else ""
    owner = checkpoint.passport_problems(path, feed=feed.name, target_id=target_id)
    return (*checkpoint.problems(path), *owner)


def backlog(place: Place, feed: Feed) -> tuple[LandingFile, ...]:
    """Complete files that bronze neither holds nor skips."""
    return new_files(_held(place, feed), complete_files(place.landing, feed))


def changed(place: Place, feed: Feed) -> tuple[LandingFile, ...]:
    """Files that were changed in place after bronze took them."""
    return changed_files(_held(place, feed), complete_files(place.landing, feed))


def _held(place: Place, feed: Feed) -> dict[str, int | None]:
    target = place.name(bronze.contract_of(feed.sap_table))
    return held_files(place.spark, target, place.name(skipped_file.CONTRACT))
