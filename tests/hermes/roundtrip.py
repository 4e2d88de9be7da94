#!/usr/bin/env python3
"""Look at hermesd's work through the eyes of Hermes itself.

Run it with the interpreter of a venv that has hermes-agent==0.19.0:

    roundtrip.py --home DIR seed
    roundtrip.py --home DIR request --session ID --platform local
    roundtrip.py --home DIR verify  --session ID --platform local [--inbound]

`seed` makes state.db with two CLI sessions. `request` asks for a handoff the way
the Python CLI does and waits for its end. `verify` opens the home with Hermes'
own classes and checks what the daemon left behind; with --inbound it also lets
Hermes route a message from the chat (this writes, so only with the daemon
stopped). Every command prints one JSON object; the exit status is 1 on failure.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

TITLE = "Roundtrip"
TITLED = "20260110_090000_a1b2c3"
UNTITLED = "20260111_090000_d4e5f6"
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.5

CALL = {
    "id": "call_roundtrip_1",
    "type": "function",
    "function": {"name": "list_files", "arguments": '{"path": "."}'},
}
SEEDS = {
    TITLED: [
        {"role": "user", "content": "Which files are here? Größe egal, 目录 too."},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "finish_reason": "tool_calls"},
        {
            "role": "tool",
            "content": '{"files": ["alpha.txt", "beta.txt"]}',
            "tool_call_id": CALL["id"],
            "tool_name": "list_files",
        },
        {"role": "assistant", "content": "Two: alpha.txt and beta.txt.", "finish_reason": "stop"},
    ],
    UNTITLED: [
        {"role": "user", "content": "Remember the number forty-two."},
        {"role": "assistant", "content": "Noted.", "finish_reason": "stop"},
    ],
}


class Mismatch(Exception):
    """What Hermes sees is not what it should see."""


def check(holds, message):
    if not holds:
        raise Mismatch(message)


def same(what, found, expected):
    check(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def open_db(home):
    from hermes_state import SessionDB

    return SessionDB(home / "state.db")


def seed(home, args):
    db = open_db(home)
    try:
        for session_id, messages in SEEDS.items():
            check(db.get_session(session_id) is None, f"{session_id} exists already")
            db.create_session(
                session_id, "cli", model="example/model-1", system_prompt="You are helpful."
            )
            if session_id == TITLED:
                db.set_session_title(session_id, TITLE)
            for message in messages:
                db.append_message(session_id, **message)
    finally:
        db.close()
    return {"sessions": list(SEEDS), "title": TITLE}


def request(home, args):
    db = open_db(home)
    try:
        check(
            db.request_handoff(args.session, args.platform),
            f"Hermes refused the request for {args.session}: {db.get_handoff_state(args.session)}",
        )
        begun = time.monotonic()
        seen = ["pending"]
        while True:
            state = db.get_handoff_state(args.session) or {}
            if state.get("state") != seen[-1]:
                seen.append(state.get("state"))
            waited = time.monotonic() - begun
            if state.get("state") in ("completed", "failed") or waited > WAIT_SECONDS:
                break
            time.sleep(POLL_SECONDS)
    finally:
        db.close()
    result = {**state, "seen": seen, "seconds": round(waited, 2)}
    if state.get("state") != "completed":
        raise Mismatch(f"the handoff did not complete: {json.dumps(result)}")
    return result


def without_time(message):
    return {key: value for key, value in message.items() if key != "timestamp"}


def telling_word(reply, earlier):
    """A word of the reply to search for, one that stands nowhere else if possible."""
    whole = r"(?<![^\W_])[A-Za-z]{4,}(?![^\W_])"  # what the tokenizer takes as one word
    words = sorted(set(re.findall(whole, reply)), key=lambda w: (-len(w), w))
    check(words, f"the reply has no word to search for: {reply!r}")
    return next((w for w in words if w.lower() not in earlier.lower()), words[0])


def verify_transcript(db, session_id, row):
    old = SEEDS.get(session_id)
    check(old is not None, f"{session_id} is not a session that seed made")
    found = [without_time(m) for m in db.get_messages_as_conversation(session_id)]
    for place, expected in enumerate(old):
        check(place < len(found), f"message {place} of the old transcript is gone")
        same(f"old message {place}", found[place], expected)
    check(
        len(found) >= len(old) + 2,
        f"notice and reply missing: {len(found)} messages, {len(old)} were there before",
    )
    notice, reply = found[len(old)], found[len(old) + 1]
    name = row["title"] or session_id[:8]
    same("role of the notice", notice["role"], "user")
    check(name in str(notice["content"]), f"the notice does not name {name!r}: {notice['content']!r}")
    same("role of the reply", reply["role"], "assistant")
    check(
        isinstance(reply["content"], str) and reply["content"].strip(),
        f"the reply is empty: {reply['content']!r}",
    )
    same("finish_reason of the reply", reply.get("finish_reason"), "stop")
    check(not reply.get("tool_calls"), "the reply still asks for tools")

    # What goes to the model on the next turn must need no repair.
    live = [
        without_time(m)
        for m in db.get_messages_as_conversation(session_id, repair_alternation=True)
    ]
    same("the transcript as repaired for the model", live, found)

    same("message_count", row["message_count"], db.message_count(session_id))
    same("message_count", row["message_count"], len(found))
    calls = sum(len(m.get("tool_calls") or []) for m in found)
    same("tool_call_count", row["tool_call_count"], calls)
    return found, reply["content"]


def verify_search(db, session_id, found, reply):
    earlier = json.dumps([m for m in found if m["content"] != reply], ensure_ascii=False)
    word = telling_word(reply, earlier)
    hits = db.search_messages(word, limit=50)
    check(
        any(h["session_id"] == session_id and h["role"] == "assistant" for h in hits),
        f"Hermes' search for {word!r} does not find the reply: {hits!r}",
    )
    return word


def verify_routing(home, session_id, platform, row, inbound):
    from gateway.config import GatewayConfig
    from gateway.session import SessionStore, build_session_key

    sessions_dir = home / "sessions"
    store = SessionStore(sessions_dir, GatewayConfig())
    check(store._db is not None, "Hermes' SessionStore could not open state.db")
    try:
        raw = store._db.load_gateway_routing_entries(scope=str(sessions_dir.resolve()))
        check(raw, f"no routing entries in the scope {sessions_dir.resolve()}")
        entries = [e for e in store.list_sessions() if e.session_id == session_id]
        same("number of routing entries for the session", len(entries), 1)
        entry = entries[0]
        key = entry.session_key
        check(key in raw, f"{key} stands in sessions.json only, not in the table")
        check(
            key.startswith(f"agent:main:{platform}:"),
            f"the key {key!r} does not begin with agent:main:{platform}:",
        )
        check(entry.origin is not None, f"the entry of {key} has no origin")
        origin = entry.origin
        same("the key Hermes builds from the origin", build_session_key(origin), key)
        same("origin.platform", origin.platform.value, row["source"])
        same("entry.platform", entry.platform and entry.platform.value, row["source"])
        for field in ("chat_id", "thread_id", "chat_type", "user_id"):
            same(f"origin.{field}", getattr(origin, field), row[field])
        same("entry.chat_type", entry.chat_type, row["chat_type"])
        same("session_key of the row", row["session_key"], key)
        same("origin_json of the row", json.loads(row["origin_json"] or "null"), origin.to_dict())
        for field in ("created_at", "updated_at"):
            check(getattr(entry, field).tzinfo is None, f"{field} is not naive local time")
        check(not entry.suspended, "the entry is suspended: the next message would reset it")
        same("session that the key leads to", store.peek_session_id(key), session_id)

        mirror = sessions_dir / "sessions.json"
        if mirror.exists():
            mirrored = json.loads(mirror.read_text(encoding="utf-8")).get(key)
            same("the entry in sessions.json", mirrored, json.loads(raw[key]))
        if inbound:
            landed = store.get_or_create_session(origin).session_id
            same("session where the next message lands", landed, session_id)
        return key, origin.to_dict()
    finally:
        store._db.close()


def verify(home, args):
    db = open_db(home)
    try:
        row = db.get_session(args.session)
        check(row is not None, f"no session {args.session}")
        state = db.get_handoff_state(args.session)
        same("handoff", state, {"state": "completed", "platform": args.platform, "error": None})
        same("ended_at", row["ended_at"], None)
        same("end_reason", row["end_reason"], None)
        same("source", row["source"], args.platform)
        check(row["chat_id"], "the session row has no chat_id")
        found, reply = verify_transcript(db, args.session, row)
        word = verify_search(db, args.session, found, reply)
    finally:
        db.close()
    key, origin = verify_routing(home, args.session, args.platform, row, args.inbound)
    return {
        "ok": True,
        "session": args.session,
        "session_key": key,
        "origin": origin,
        "messages": len(found),
        "reply": reply,
        "searched": word,
    }


def verify_home(home, args):
    """The session is back in the terminal, as Hermes sees it: live, nobody's chat, and its transcript needs no repair."""
    from gateway.config import GatewayConfig
    from gateway.session import SessionStore

    db = open_db(home)
    try:
        row = db.get_session(args.session)
        same("source", row["source"], "cli")
        same("ended_at", row["ended_at"], None)
        for field in ("session_key", "chat_id", "chat_type", "thread_id", "user_id", "origin_json"):
            same(field, row[field], None)
        found = db.get_messages_as_conversation(args.session)
        live = db.get_messages_as_conversation(args.session, repair_alternation=True)
        same("the transcript as repaired for the model", live, found)
        check(
            any(s["id"] == args.session for s in db.list_sessions_rich(source="cli", limit=50)),
            "Hermes does not list the session among those of the terminal",
        )
    finally:
        db.close()
    store = SessionStore(home / "sessions", GatewayConfig())
    try:
        bound = [e.session_key for e in store.list_sessions() if e.session_id == args.session]
        same("chats that are on the session", bound, [])
    finally:
        store._db.close()
    return {"ok": True, "session": args.session, "messages": len(found)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", required=True, type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("seed").set_defaults(run=seed)
    for name, run in (("request", request), ("verify", verify), ("verify-home", verify_home)):
        command = commands.add_parser(name)
        command.add_argument("--session", required=True)
        command.add_argument("--platform", required=run is not verify_home)
        command.set_defaults(run=run)
        if run is verify:
            command.add_argument("--inbound", action="store_true")
    args = parser.parse_args()

    home = args.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    os.environ["HERMES_HOME"] = str(home)  # before any import of Hermes
    try:
        result = args.run(home, args)
    except Mismatch as reason:
        print(json.dumps({"ok": False, "error": str(reason)}, ensure_ascii=False))
        print(f"roundtrip {args.command}: {reason}", file=sys.stderr)
        return 1
    print(json.dumps(result, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
