"""The bus's tables. Plain SQL: PostgreSQL will hold the same."""

import sqlite3

VERSION = 1

TABLES = """
create table session(
    key text primary key,
    next_seq integer not null,
    next_row integer not null default 1,
    owner text,
    epoch integer not null default 0,
    settings text not null default '{}',
    lease_until real
);
create table inbox(
    id integer primary key,
    session text not null references session(key),
    seq integer not null,
    lane integer not null,
    kind text not null,
    dedupe text unique,
    source_id text,
    group_key text,
    parent integer,
    turn text,
    payload text not null,
    message text,
    reply text not null default 'send',
    state text not null,
    reason text,
    attempts integer not null default 0,
    crashes integer not null default 0,
    progress integer,
    is_told integer not null default 0,
    not_before real,
    created_at real not null,
    changed_at real not null
);
create index inbox_session on inbox(session, state, lane, seq);
create index inbox_turn on inbox(turn, state);
create index inbox_state on inbox(state, lane, id);
create table suspension(
    id text primary key,
    session text not null references session(key),
    turn text not null,
    call text not null,
    tool text not null,
    arguments text not null,
    question text not null,
    choices text not null,
    state text not null,
    answer text,
    created_at real not null,
    changed_at real not null
);
create index suspension_session on suspension(session, state);
create index suspension_turn on suspension(turn, state);
create table outbox(
    id integer primary key,
    address text not null,
    seq integer not null,
    turn text,
    part integer not null,
    parts integer not null,
    kind text not null,
    reply_to text,
    payload text not null,
    idempotency_key text not null unique,
    handle text,
    platform_ids text,
    owner text,
    state text not null,
    reason text,
    attempts integer not null default 0,
    not_before real,
    created_at real not null,
    changed_at real not null
);
create index outbox_open on outbox(address, id) where state in ('ready', 'sending', 'unknown');
create index outbox_kind on outbox(address, kind, created_at);
create index outbox_dead on outbox(address) where state = 'dead';
create index outbox_stream on outbox(address) where kind = 'stream' and state = 'sent';
create index outbox_turn on outbox(turn, state);
create table consolidation(
    session text primary key,
    through integer,
    wanted integer not null default 0,
    answer text
);
create index consolidation_open on consolidation(session) where answer is not null or wanted > coalesce(through, 0);
create table consolidation_calls(
    day text primary key,
    calls integer not null
);
create table journal(
    session text not null,
    seq integer not null,
    turn text,
    epoch integer not null,
    line text not null,
    primary key (session, seq)
) without rowid;
"""

PRAGMAS = """
pragma journal_mode = wal;
pragma synchronous = full;
pragma foreign_keys = on;
pragma busy_timeout = 5000;
"""


def prepare(db: sqlite3.Connection) -> None:
    """Set the connection up and create the tables where they are not yet there.

    Raises:
        ValueError: the file was written by a later version.
    """
    found = int(db.execute("pragma user_version").fetchone()[0])
    if found > VERSION:
        raise ValueError(f"it was written by a later version of nanobee (schema {found}, this one knows {VERSION})")
    db.executescript(PRAGMAS)
    if found == 0:
        db.executescript(f"begin immediate; {TABLES} pragma user_version = {VERSION}; commit;")
