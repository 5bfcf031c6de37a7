"""The states of a load (a request to load, resume or fork a session, or a prompt that is sent again in a new one), and
the table of its transitions.

``load.py`` says who may change a load.

A *replay* is what the agent sends of the past. The client is *shown* the past: the agent's replay, or the transcript.

A load has three phases, and then is over (``LoadPhase``). Most go ``HOLDING_REPLAY`` → ``CHOOSING_PAST`` →
``BEFORE_PROMPT`` → ``IN_FIRST_TURN`` → ``OVER``: the agent answers, the past is shown, the client prompts, and that
turn ends.

**Asked.** The agent has the request, and what it sends about the session may be the past. It is held back, since only
all of it shows whose past the client should see (``HOLDING_REPLAY``). Where nothing is to be decided, or too much is
held, it passes to the client at once (``PASSING``), and the agent's answer opens it. Too much of a replay that the
client is not to get is dropped instead (``DROPPING_REPLAY``). The client may cancel, and agents then answer, or replay
and answer, or never do either; so what comes for a cancelled request must not be taken for the next one
(``CANCELLING``, ``CANCELLED``, ``ABANDONED``, and two ``PASSING_…``).

**Showing the past.** The agent has answered with a result. ``relay/`` compares what it sent with the transcript, on a
thread of its own, and sends the transcript if that is to be shown (``CHOOSING_PAST``, or ``CANCELLING_WHILE_SHOWING``
if the client cancels). What the agent sends meanwhile is held, and leaves after the answer.

**Opened.** The client has its answer, too. Agents replay the rest of the past after it, so everything is compared until
the next prompt (``BEFORE_PROMPT``). What is new then is recorded. In the turn that follows, everything is new except a
replay that still runs (``IN_FIRST_TURN``).

A load for which the agent is not asked begins with showing the past, and is over with its answer. A fork begins as
opened. The client may prompt at any time, so a turn may be under way in any state (``SessionStates.is_in_turn``).

The other ways through the states, where the agent or the client does something else::

    HOLDING_REPLAY → DROPPING_REPLAY → CHOOSING_PAST       too much of a replay that the client is not to get
    HOLDING_REPLAY → PASSING → BEFORE_PROMPT               too much waits, or a prompt or the agent's request comes
    HOLDING_REPLAY → CANCELLING → CANCELLED → ABANDONED    the client cancels; the agent goes on without an answer
    PASSING → PASSING_CANCELLING → PASSING_ABANDONED       the same
    CHOOSING_PAST → CANCELLING_WHILE_SHOWING → BEFORE_PROMPT

In a state with *CANCELLING*, the client has no answer to its cancelled request yet.

Until they are opened, loads are *pending* in ``CurrentLoads``, cancelled ones too until the agent has answered. The
first state is chosen in ``Load``. What is opened may end before its first turn has, with ``MUST_END``, ``DROPPED`` or
``AGENT_ENDED``.

What becomes of an update of the conversation in each state is in ``LoadLineHandler.handle_update``. In a turn, the
state hardly matters: ``LoadLineHandler._handle_update_in_turn``.

An event that a state has no row for changes nothing. The transcript is sent to its end, for example, even if the agent
ends.
"""

import enum
from typing import NamedTuple


class LoadPhase(enum.Enum):
    """How far a load has come."""

    ASKED = "the agent has not answered; a client that has cancelled may have its answer"
    SHOWING_PAST = "the agent has agreed, or is not asked; the past is chosen, and sent if it is the transcript"
    OPENED = "the client has its answer, too"
    OVER = "nothing that comes belongs to it"


class LoadState(enum.Enum):
    """The state of a load."""

    # Asked
    HOLDING_REPLAY = "the agent was asked; what it sends is held"
    DROPPING_REPLAY = (
        "as before, but its replay is too large, and not for the client: it is dropped whenever too much is held"
    )
    PASSING = "the agent was asked; what it sends goes to the client if the load shows the past, and is compared later"
    PASSING_CANCELLING = "what the agent sends goes to the client, which has cancelled; the agent may answer or not"
    PASSING_ABANDONED = "cancelled; the agent has answered a later request, so nothing is expected for this one"
    CANCELLING = "the agent was asked; the client has cancelled, and its answer waits for the client's output"
    CANCELLED = "the agent was asked; the client has its answer, and gets nothing of what the agent sends"
    ABANDONED = (
        "cancelled, and the client has its error; the agent has answered a later request, or worked through a turn"
    )
    # Showing the past
    CHOOSING_PAST = (
        "the agent has agreed, or is not asked; ``relay/`` chooses the past, and sends it if it is the transcript"
    )
    CANCELLING_WHILE_SHOWING = (
        "the agent has agreed, or is not asked; the client has cancelled, and its answer waits for the client's output"
    )
    # Opened
    BEFORE_PROMPT = "the client has its answer; what the agent sends until the next prompt is compared"
    IN_FIRST_TURN = "the first turn of the client after the load; everything is new except a replay that still runs"

    OVER = "nothing that comes belongs to it"


class LoadEvent(enum.Enum):
    """What can happen to a load. The comments say who brings it. Some come only under a condition:

    - ``PROMPTED``: not to a load in ``HOLDING_REPLAY`` that holds nothing yet (``LoadMachine.handle_prompt``)
    - ``CANNOT_WAIT``, for a request of the agent: only if a replay is held, and the client may get that
      (``LoadLineHandler.send_agents_request``)
    - ``CANCEL_REQUESTED``: not to one that sends a refused prompt again (``LoadMachine.cancel``)
    - ``NEEDS_NEW_SESSION`` instead of ``REFUSED`` (``Continuations.needs_new_session``)

    Neither ``REFUSED`` nor ``NEEDS_NEW_SESSION`` comes for an error of the agent if it is asked again with an earlier
    id (``LoadStarter.retry_with_earlier_id``).
    """

    # ``LoadMachine.handle_agents_answer`` or, except ``NEEDS_NEW_SESSION``, ``LoadMachine.handle_new_session_answer``;
    # ``REFUSED`` also ``LoadMachine._open_new_session``
    AGREED = "the agent has answered with a result"
    REFUSED = "the agent has answered with an error, or no session was opened that somebody wants"
    NEEDS_NEW_SESSION = "the agent does not know the session, or refuses it, and it can continue in a new one"
    # ``LoadLineHandler._keep_within_limits``; ``CANNOT_WAIT`` also ``LoadLineHandler.send_agents_request``
    CANNOT_WAIT = "too much waits, or the agent asks something before it answers"
    REPLAY_TOO_LARGE = "too much of a replay waits that the client is not to get"
    # ``LoadMachine.handle_agents_answer``, for earlier loads
    OVERTAKEN = "the agent has answered a later request for the session"
    # ``LoadMachine.cancel``
    CANCEL_REQUESTED = "the client has cancelled its request"
    # ``LoadMachine.handle_output_reserved``
    OUTPUT_RESERVED = "the client's output is reserved"
    # ``LoadMachine.handle_past_chosen``, or ``CHOOSE_AND_SHOW_PAST`` without a transcript
    PAST_CHOSEN = "it is decided whose past is shown, and the transcript was sent if it is that"
    # ``LoadMachine.handle_prompt``, and ``LoadMachine._apply_postponed_events`` if the prompt came before the client's
    # answer
    PROMPTED = "the client has sent a prompt"
    # ``LoadMachine.end_opened_load``; ``LoadMachine._await_prompt_or_end``, if nothing that comes can be of its past;
    # for the previous load of the session, ``LoadMachine.end_or_carry_over_previous`` or
    # ``LoadMachine._end_carried_over``
    MUST_END = (
        "a request of the client ends it, such as a close or a load, or too many are opened, or nothing that comes can "
        "be of its past"
    )
    # ``LoadMachine.delete_session``, ``LoadMachine._end_carried_over``, ``LoadMachine._await_prompt_or_end``
    DROPPED = "the session was deleted, or what is not recorded yet is left to its next load"
    # ``LoadMachine.handle_turn_end``
    TURN_ENDED = "no prompt of this session is open any more"
    # ``LoadMachine.handle_agent_end``, or ``LoadMachine._apply_postponed_events`` if the client gets its answer later
    AGENT_ENDED = "the agent has ended"


class Action(enum.Enum):
    """What a transition does. Three actions may bring the next event of their load themselves, so they come last:

    - ``CHOOSE_AND_SHOW_PAST`` brings ``PAST_CHOSEN``, if there is no transcript.
    - ``OPEN_NEW_SESSION`` brings ``REFUSED``, if no session can be asked for.
    - ``AWAIT_PROMPT_OR_END`` brings what has happened before: ``MUST_END``, ``DROPPED``, ``PROMPTED`` or
      ``AGENT_ENDED``. It also ends other opened loads, if there are too many, or if they are of the same session.
    """

    RECORD_OPENED = (
        "record that the session was opened, with the replay if that is imported, and the session's state; have the "
        "answer name our id"
    )
    CHOOSE_AND_SHOW_PAST = (
        "have ``relay/`` choose whose past is shown, and send it if it is the transcript; without one, decide by "
        "``NOT_RECORDED``"
    )
    CLOSE_TRANSCRIPT = "close the transcript that was looked up"
    STOP_SHOWING_PAST = "have ``relay/`` send nothing more of the transcript"
    RESERVE_OUTPUT = "reserve the client's output"
    START_PASSING = "decide by ``PASSES``, and send what is held if the load shows the past; it is compared later"
    DECIDE_AS_PLANNED = "decide as planned, before the agent has answered"
    SEND_HELD_REPLAY = "send the client what the agent sent, which may say why it refuses"
    DROP_REPLAY = "drop what the agent sent"
    DROP_IMPORT = "drop what the agent sent, and begin no transcript with what it sends"
    RELEASE_HELD_LINES = "send the client the lines that wait for its answer"
    ANSWER = "send the client its answer: the agent's, or an error; a refused prompt is answered with its refusal"
    FINISH_PAST_AND_ANSWER = (
        "note whose past it was; send the agent's replay if that was chosen, or its tail after the transcript; then "
        "the answer and the session's state, or to the agent the prompt that is sent again"
    )
    ANSWER_CANCELLED = "decide by ``CANCELLED``, and answer the client that its request was cancelled"
    OPEN_NEW_SESSION = "plan to decide by ``HANDED_OVER``, and ask the agent for a new session instead"
    AWAIT_PROMPT_OR_END = (
        "wait for the next prompt, since what comes may be past, or end the load if none can come, or only that of "
        "another load; go on with what has happened before"
    )
    SETTLE = "record what is new, and send what waits unless the client has it"
    BEGIN_UPDATES_IN_TURN = "only a replay that still runs is past from now on"
    RELEASE_UPDATES_IN_TURN = "send and record the updates that wait in the turn"
    FORGET = "the load is over"


Transitions = dict[LoadEvent, tuple[LoadState, tuple[Action, ...]]]


class StateDefinition(NamedTuple):
    """What holds in a state.

    ``transitions``: by event, the next state and what is done. ``holds_lines``: the session's lines wait for the answer
    to the client.
    """

    phase: LoadPhase
    transitions: Transitions
    holds_lines: bool = False


_DROPPED_TRANSITION = (LoadState.OVER, (Action.FORGET,))
"""Nothing is settled."""
_CANCEL_ACTIONS = (Action.ANSWER_CANCELLED, Action.DROP_REPLAY, Action.RELEASE_HELD_LINES)

_REFUSED_OR_ENDED_TRANSITION = (
    LoadState.OVER,
    (
        Action.SEND_HELD_REPLAY,
        Action.RELEASE_HELD_LINES,
        Action.ANSWER,
        Action.CLOSE_TRANSCRIPT,
        Action.FORGET,
    ),
)
_HOLDING_TRANSITIONS: Transitions = {
    # Nothing is sent yet: whose past is shown is known when ``relay/`` has compared.
    LoadEvent.AGREED: (LoadState.CHOOSING_PAST, (Action.RECORD_OPENED, Action.CHOOSE_AND_SHOW_PAST)),
    LoadEvent.REFUSED: _REFUSED_OR_ENDED_TRANSITION,
    LoadEvent.REPLAY_TOO_LARGE: (LoadState.DROPPING_REPLAY, (Action.DROP_REPLAY, Action.DECIDE_AS_PLANNED)),
    # The client's thread decides this, while the agent's may be sending lines that were decided on before. So the
    # answer waits until the output is free, and nothing older can come after it.
    LoadEvent.CANCEL_REQUESTED: (LoadState.CANCELLING, (Action.CLOSE_TRANSCRIPT, Action.RESERVE_OUTPUT)),
    LoadEvent.AGENT_ENDED: _REFUSED_OR_ENDED_TRANSITION,
}
_PASSING_TRANSITIONS: Transitions = {
    LoadEvent.AGREED: (
        LoadState.BEFORE_PROMPT,
        (Action.RECORD_OPENED, Action.ANSWER, Action.CLOSE_TRANSCRIPT, Action.AWAIT_PROMPT_OR_END),
    ),
    LoadEvent.REFUSED: (LoadState.OVER, (Action.ANSWER, Action.CLOSE_TRANSCRIPT, Action.FORGET)),
    LoadEvent.AGENT_ENDED: (LoadState.OVER, (Action.ANSWER, Action.CLOSE_TRANSCRIPT, Action.FORGET)),
}
"""Nothing is chosen for a load that passes, so the agent's answer is the client's, even if that has cancelled."""
_CANCELLED_TRANSITIONS: Transitions = {
    LoadEvent.AGREED: (LoadState.BEFORE_PROMPT, (Action.DROP_REPLAY, Action.RECORD_OPENED, Action.AWAIT_PROMPT_OR_END)),
    LoadEvent.REFUSED: (LoadState.OVER, (Action.FORGET,)),
    LoadEvent.AGENT_ENDED: (LoadState.OVER, (Action.FORGET,)),
}
"""The client has its answer, but an agent that answers all the same has opened the session."""

STATES: dict[LoadState, StateDefinition] = {
    LoadState.HOLDING_REPLAY: StateDefinition(
        phase=LoadPhase.ASKED,
        holds_lines=True,
        transitions={
            **_HOLDING_TRANSITIONS,
            # The new session has no past, so what came until now was no replay. The client still gets one answer.
            LoadEvent.NEEDS_NEW_SESSION: (LoadState.HOLDING_REPLAY, (Action.DROP_REPLAY, Action.OPEN_NEW_SESSION)),
            # Sent is sent: from here on the client sees the agent's replay, whatever it lacks. For a request from the
            # agent, this comes only if it may get one that waits (``LoadLineHandler.send_agents_request``).
            LoadEvent.CANNOT_WAIT: (LoadState.PASSING, (Action.START_PASSING, Action.RELEASE_HELD_LINES)),
            # If part of a replay is held, it passes: nobody could tell the turn from it. If none is,
            # ``LoadMachine.handle_prompt`` does not bring this event, and the turn's updates wait for the answer.
            LoadEvent.PROMPTED: (
                LoadState.PASSING,
                (Action.START_PASSING, Action.RELEASE_HELD_LINES, Action.DROP_IMPORT),
            ),
        },
    ),
    LoadState.DROPPING_REPLAY: StateDefinition(
        phase=LoadPhase.ASKED,
        holds_lines=True,
        transitions={
            # What was dropped can never pass, so neither a prompt nor the agent's request lets the rest pass. The past
            # is not in these lines: it is shown after the agent's answer.
            **_HOLDING_TRANSITIONS,
            LoadEvent.NEEDS_NEW_SESSION: (LoadState.DROPPING_REPLAY, (Action.DROP_REPLAY, Action.OPEN_NEW_SESSION)),
        },
    ),
    LoadState.PASSING: StateDefinition(
        phase=LoadPhase.ASKED,
        transitions={
            **_PASSING_TRANSITIONS,
            # What comes in the turn is recorded as the turn's, and must not be recorded as a replay again.
            LoadEvent.PROMPTED: (LoadState.PASSING, (Action.DROP_IMPORT,)),
            # The agent answers cancelled requests that pass, as it would without us.
            LoadEvent.CANCEL_REQUESTED: (LoadState.PASSING_CANCELLING, ()),
        },
    ),
    LoadState.PASSING_CANCELLING: StateDefinition(
        phase=LoadPhase.ASKED,
        transitions={
            **_PASSING_TRANSITIONS,
            LoadEvent.PROMPTED: (LoadState.PASSING_CANCELLING, (Action.DROP_IMPORT,)),
            # Agents answer in order, so it has left this one out.
            LoadEvent.OVERTAKEN: (LoadState.PASSING_ABANDONED, (Action.DROP_REPLAY,)),
        },
    ),
    LoadState.PASSING_ABANDONED: StateDefinition(phase=LoadPhase.ASKED, transitions=_PASSING_TRANSITIONS),
    LoadState.CANCELLING: StateDefinition(
        phase=LoadPhase.ASKED,
        holds_lines=True,
        transitions={
            # What came is kept: it belongs to the next request if the agent does not answer this one.
            LoadEvent.OUTPUT_RESERVED: (LoadState.CANCELLED, (Action.ANSWER_CANCELLED, Action.RELEASE_HELD_LINES)),
            # The agent's own thread decides this, and has written all older lines, so the client's answer need not
            # wait for the output.
            LoadEvent.AGREED: (
                LoadState.BEFORE_PROMPT,
                (Action.RECORD_OPENED, *_CANCEL_ACTIONS, Action.AWAIT_PROMPT_OR_END),
            ),
            LoadEvent.REFUSED: (LoadState.OVER, (*_CANCEL_ACTIONS, Action.FORGET)),
            LoadEvent.AGENT_ENDED: (LoadState.OVER, (*_CANCEL_ACTIONS, Action.FORGET)),
        },
    ),
    LoadState.CANCELLED: StateDefinition(
        phase=LoadPhase.ASKED,
        transitions={
            **_CANCELLED_TRANSITIONS,
            LoadEvent.OVERTAKEN: (LoadState.ABANDONED, (Action.DROP_REPLAY,)),
            # An agent that has worked through a whole turn does not replay for this any more.
            LoadEvent.TURN_ENDED: (LoadState.ABANDONED, (Action.DROP_REPLAY,)),
        },
    ),
    LoadState.ABANDONED: StateDefinition(phase=LoadPhase.ASKED, transitions=_CANCELLED_TRANSITIONS),
    LoadState.CHOOSING_PAST: StateDefinition(
        phase=LoadPhase.SHOWING_PAST,
        holds_lines=True,
        transitions={
            # ``AWAIT_PROMPT_OR_END`` brings a prompt that has come meanwhile, and ends the load if the agent was not
            # asked.
            LoadEvent.PAST_CHOSEN: (
                LoadState.BEFORE_PROMPT,
                (Action.FINISH_PAST_AND_ANSWER, Action.RELEASE_HELD_LINES, Action.AWAIT_PROMPT_OR_END),
            ),
            # ``relay/`` may be within a write; once the output is reserved, it sends nothing more.
            LoadEvent.CANCEL_REQUESTED: (
                LoadState.CANCELLING_WHILE_SHOWING,
                (Action.STOP_SHOWING_PAST, Action.RESERVE_OUTPUT),
            ),
        },
    ),
    LoadState.CANCELLING_WHILE_SHOWING: StateDefinition(
        phase=LoadPhase.SHOWING_PAST,
        holds_lines=True,
        transitions={
            # Whichever comes first answers the client. If the agent was asked, it has opened the session, so it is
            # open.
            LoadEvent.OUTPUT_RESERVED: (LoadState.BEFORE_PROMPT, (*_CANCEL_ACTIONS, Action.AWAIT_PROMPT_OR_END)),
            LoadEvent.PAST_CHOSEN: (LoadState.BEFORE_PROMPT, (*_CANCEL_ACTIONS, Action.AWAIT_PROMPT_OR_END)),
        },
    ),
    LoadState.BEFORE_PROMPT: StateDefinition(
        phase=LoadPhase.OPENED,
        transitions={
            LoadEvent.PROMPTED: (LoadState.IN_FIRST_TURN, (Action.SETTLE, Action.BEGIN_UPDATES_IN_TURN)),
            LoadEvent.MUST_END: (LoadState.OVER, (Action.SETTLE, Action.FORGET)),
            LoadEvent.DROPPED: _DROPPED_TRANSITION,
            LoadEvent.AGENT_ENDED: (LoadState.OVER, (Action.SETTLE, Action.FORGET)),
        },
    ),
    LoadState.IN_FIRST_TURN: StateDefinition(
        phase=LoadPhase.OPENED,
        transitions={
            # After a whole turn, no replay runs any more: the session is as if it had been opened new.
            LoadEvent.TURN_ENDED: (LoadState.OVER, (Action.RELEASE_UPDATES_IN_TURN, Action.FORGET)),
            LoadEvent.MUST_END: (LoadState.OVER, (Action.RELEASE_UPDATES_IN_TURN, Action.FORGET)),
            LoadEvent.DROPPED: _DROPPED_TRANSITION,
            LoadEvent.AGENT_ENDED: (LoadState.OVER, (Action.RELEASE_UPDATES_IN_TURN, Action.FORGET)),
        },
    ),
    LoadState.OVER: StateDefinition(phase=LoadPhase.OVER, transitions={}),
}

HOLDING_UNTIL_AGENT_ANSWERS = frozenset({LoadState.HOLDING_REPLAY, LoadState.DROPPING_REPLAY})
"""States in which what the agent sends waits until it answers, for a client that has not cancelled. Fewer than those
with ``holds_lines``."""
OVERTAKABLE_STATES = frozenset({LoadState.PASSING_CANCELLING, LoadState.CANCELLED})
"""States of cancelled requests that the agent may leave out, but for which it may still replay."""
ABANDONED_STATES = frozenset({LoadState.PASSING_ABANDONED, LoadState.ABANDONED})
"""States of cancelled requests for which nothing of the agent is expected any more; a late answer still counts."""
UNWANTED_STATES = frozenset({LoadState.CANCELLING, LoadState.CANCELLED, LoadState.ABANDONED})
"""States in which nobody wants a new session any more that the agent was asked for."""
