"""A session's history as a tree of segments, and what follows from it: its branches, and what is dead. Pure.

A *segment* is whole turns that one machine recorded and published together. A *branch* is the way from the session's
beginning to a segment without children: one conversation. Several branches mean that machines continued the session at
the same time; each is a session of its own in a list.

The other words name places in the tree by the id of a segment, or by the session's uid for its very beginning:

- *leaf*: the end of a branch, as all machines know it;
- *tip*: the end of what a file here has (``LocalSession.tip``), which may be short of the leaf;
- *anchor*: where a title or an archive state begins to count (``records.Label``): the nearest one before a tip wins;
- *root*: from where on everything is deleted for good (``records.Death``).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

UNPLACED = -1
"""``Segment.skip``, as long as nobody knows how much of the segment its parent has already."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's place. ``parent``: the segment that it follows. ``skip``: bytes at its start that the parent has
    already, or ``UNPLACED``.

    ``size``: bytes of its data. ``digest``: of its data, as it should be in a file. ``is_blank``: the data is gone.
    """

    id: str
    parent: str
    machine: str
    number: int
    size: int = 0
    skip: int = 0
    digest: str = ""
    is_blank: bool = False

    @property
    def is_placed(self) -> bool:
        """Whether the segment has its place in the tree."""
        return self.skip != UNPLACED

    @property
    def known_skip(self) -> int:
        """``skip``, as far as that is known: of a segment without a place, all data count."""
        return self.skip if self.is_placed else 0

    @property
    def length(self) -> int:
        """The bytes that it adds to its parent's. Only of a segment that has its place."""
        return self.size - self.skip


@dataclass(frozen=True, slots=True)
class Tree:
    """All that is known of one session. ``deaths``: by the segment from which everything is deleted, the segments that
    must be known before that is judged. ``unplaced``: segments that have no place yet."""

    uid: str
    segments: Mapping[str, Segment] = field(default_factory=dict)
    deaths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unplaced: Mapping[str, Segment] = field(default_factory=dict)

    def find_path(self, id: str) -> list[Segment] | None:
        """The segments from the first to this one; None if one of them is unknown."""
        path: list[Segment] = []
        seen: set[str] = set()
        while id != self.uid:
            segment = self.segments.get(id)
            if segment is None or id in seen:
                return None
            seen.add(id)
            path.append(segment)
            id = segment.parent
        return path[::-1]

    def is_dead(self, id: str) -> bool:
        """Whether what ends with this segment is deleted. ``id``: a segment, or the session's uid."""
        return not self._roots.isdisjoint(self.list_ids(id))

    def list_children(self, id: str) -> list[Segment]:
        """The segments that follow this one, in an order that is the same on every machine."""
        return sorted(
            (segment for segment in self.segments.values() if segment.parent == id), key=lambda segment: segment.id
        )

    def list_leaves(self) -> list[str]:
        """The last segments of all branches that can be shown, in an order that is the same on every machine."""
        parents = {segment.parent for segment in self.segments.values()}
        leaves = []
        for id in sorted(self.segments):
            path = self.find_path(id) if id not in parents else None
            if path is not None and not any(segment.is_blank for segment in path) and not self.is_dead(id):
                leaves.append(id)
        return leaves

    def find_anchor(self, tip: str, other_tips: Iterable[str]) -> str | None:
        """The first segment on the way to ``tip`` that is on the way to none of the other tips; None: there is none.

        If there are no other tips, the session's uid.
        """
        shared_ids = {id for other_tip in other_tips for id in self.list_ids(other_tip)}
        return next((id for id in self.list_ids(tip) if id not in shared_ids), None)

    def find_nearest(self, tip: str, anchors: Collection[str]) -> str | None:
        """The last of the anchors on the way to ``tip``: its label is the one that counts. None: there is none."""
        return next((id for id in reversed(self.list_ids(tip)) if id in anchors), None)

    def list_ids(self, tip: str) -> list[str]:
        """The ids on the way to a tip: the session's uid, and those of the segments."""
        return [self.uid, *(segment.id for segment in self.find_path(tip) or ())]

    @property
    def _roots(self) -> set[str]:
        return {
            root
            for root, survivors in self.deaths.items()
            if all(id in self.segments or id in self.unplaced for id in survivors)
        }
