#!/usr/bin/env python3
"""hermesd with a real `hermes-acp` as its agent: an agent that keeps sessions of its own in the same database.

    answers_acp.py DIRECTORY-OF-THE-BINARIES PYTHON-OF-A-VENV-WITH-HERMES
"""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from answers import PYTHON, House, main, same, words
from fake_model import until

ACP = str(Path(PYTHON).parent / "hermes-acp")


class AcpHouse(House):
    PROCESS = b"hermes-acp"

    def __init__(self):
        super().__init__()
        self.settings = {"HERMESD_AGENT_DEFAULT": "acp", "HERMESD_AGENTS_ACP_COMMAND": ACP}

    def asked(self, text):
        """What the model was given when these words came last."""
        found = [r["messages"] for r in self.model.requests if str(r["messages"][-1].get("content")).endswith(text)]
        return found[-1]

    def sources(self):
        with sqlite3.connect(self.home / "state.db", timeout=30) as db:
            return dict(db.execute("SELECT id, source FROM sessions").fetchall())

    def speak_to_acp(self, text):
        """A conversation with hermes-acp that hermesd has no part in; the id of its session."""
        process = subprocess.Popen(
            [ACP], env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )

        def call(number, method, params):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                answer = json.loads(line)
                if answer.get("id") == number and "method" not in answer:
                    assert "error" not in answer, answer
                    return answer["result"]
            raise AssertionError(f"no answer to {method}")

        call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = call(2, "session/new", {"cwd": str(self.home), "mcpServers": []})["sessionId"]
        call(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        process.stdin.close()
        process.wait(30)
        return session


def user_words(rows):
    return [content for role, content, _ in rows if role == "user" and "[Handoff]" not in content]


def a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once(house):
    house.start()
    # A history from elsewhere: hermes-acp has never heard of it.
    opened, *_ = house.chat("One\nTwo\n", "--title", "Talk", "--agent", "echo")
    session = opened["session"]["id"]
    house.chat("Three\n", "--resume", "Talk", "--agent", "acp")
    assert "One" in str(house.asked("Three")), "the history is not given"
    house.ctl("handoff", "local", "--session", "Talk")
    said = house.ctl("attach", "local/1", words="Four\n").stdout
    assert "Well: I have seen" in said, said
    seen = len(house.asked("Four"))
    house.stop()
    until("hermes-acp ends with the daemon", lambda: not house.hermes())
    # It finds its own session again: nothing is told twice.
    house.start()
    house.ctl("resume", "Talk", "--no-chat")
    _, five = house.chat("Five\n", "--resume", "Talk")
    same("error", five["error"], None)
    same("messages that the model saw", len(house.asked("Five")), seen + 2)
    same("how often the history was told", str(house.asked("Five")).count("begun elsewhere"), 1)
    rows = house.rows(session)
    same("roles", [role for role, _, _ in rows], ["user", "assistant"] * 6)
    same("words", user_words(rows), ["One", "Two", "Three", "Four", "Five"])
    same("the last reply", rows[-1][1].strip(), five["reply"].strip())
    # Its own session beside ours, and no other.
    same("sessions", sorted(house.sources().values()), ["acp", "cli"])
    house.stop()


def a_session_that_hermes_acp_began_goes_on_with_each_message_once(house):
    session = house.speak_to_acp("One")
    same("source", house.sources(), {session: "acp"})
    house.start()
    _, two = house.chat("Two\n", "--resume", session)
    same("error", two["error"], None)
    _, three = house.chat("Three\n", "--resume", session)
    same("error", three["error"], None)
    rows = house.rows(session)
    same("words", words(rows), [
        ("user", "One"), ("assistant", rows[1][1]), ("user", "Two"), ("assistant", two["reply"]),
        ("user", "Three"), ("assistant", three["reply"]),
    ])
    same("roles that the model saw", [m["role"] for m in house.asked("Three") if m["role"] != "system"],
         ["user", "assistant"] * 2 + ["user"])
    same("sessions", list(house.sources()), [session])
    house.stop()
    house.start()
    _, four = house.chat("Four\n", "--resume", session)
    same("error", four["error"], None)
    same("words", user_words(house.rows(session)), ["One", "Two", "Three", "Four"])
    same("rows", len(house.rows(session)), 8)
    house.stop()


def a_session_that_hermes_acp_began_moves_with_each_message_once(house):
    session = house.speak_to_acp("One")
    house.start()
    house.chat("Two\n", "--resume", session)
    house.ctl("handoff", "local", "--session", session)
    said = house.ctl("attach", "local/1", words="Three\n").stdout
    assert "Well: I have seen" in said, said
    same("words", user_words(house.rows(session)), ["One", "Two", "Three"])
    same("roles", [role for role, _, _ in house.rows(session)], ["user", "assistant"] * 4)
    house.ctl("resume", session, "--no-chat")
    house.stop()
    house.start()
    house.chat("Four\n", "--resume", session)
    same("words", user_words(house.rows(session)), ["One", "Two", "Three", "Four"])
    same("roles", [role for role, _, _ in house.rows(session)], ["user", "assistant"] * 5)
    house.stop()


def what_another_agent_says_in_a_session_of_hermes_acp_is_not_put_into_the_persons_mouth(house):
    session = house.speak_to_acp("One")
    house.start()
    house.chat("Two\n", "--resume", session)
    house.chat("Aside\n", "--resume", session, "--agent", "echo")
    _, three = house.chat("Three\n", "--resume", session, "--agent", "acp")
    same("error", three["error"], None)
    assert "Aside" in str(house.asked("Three")), "hermes-acp does not know of it"
    same("words", user_words(house.rows(session)), ["One", "Two", "Aside", "Three"])
    same("roles", [role for role, _, _ in house.rows(session)], ["user", "assistant"] * 4)
    house.stop()


def a_handoff_that_fails_leaves_a_session_of_hermes_acp_as_it_was(house):
    session = house.speak_to_acp("One")
    # Long enough for a busy machine; only the handoff uses it up.
    house.settings["HERMESD_AGENT_TIMEOUT"] = "15s"
    house.start()
    house.chat("Two\n", "--resume", session)
    before = words(house.rows(session))
    ran = house.ctl("handoff", "local", "--session", session, "--note", "slowly", check=False)
    assert ran.returncode != 0, ran
    same("rows", words(house.rows(session)), before)
    house.model.go_on.set()
    house.stop()


def an_interrupted_answer_is_kept_once_and_the_next_one_comes(house):
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    session = opened["session"]["id"]
    talking = house.begin("Tell me slowly\n", "--resume", "Talk")
    until("the answer streams", lambda: "Well" in (house.partial() or ""))
    talking.kill()
    talking.wait()
    until("the session is finalised", lambda: house.row(session)["ended_at"])
    house.model.go_on.set()
    _, after = house.chat("And now?\n", "--resume", "Talk")
    same("error", after["error"], None)
    rows = house.rows(session)
    same("words", user_words(rows), ["One", "Tell me slowly", "And now?"])
    same("rows", len(rows), 6)
    assert "Well" in rows[3][1], rows
    house.stop(signal.SIGKILL)
    until("no hermes-acp outlives it", lambda: not house.hermes())


TESTS = [
    a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once,
    a_session_that_hermes_acp_began_goes_on_with_each_message_once,
    a_session_that_hermes_acp_began_moves_with_each_message_once,
    what_another_agent_says_in_a_session_of_hermes_acp_is_not_put_into_the_persons_mouth,
    a_handoff_that_fails_leaves_a_session_of_hermes_acp_as_it_was,
    an_interrupted_answer_is_kept_once_and_the_next_one_comes,
]

if __name__ == "__main__":
    sys.exit(main(TESTS, AcpHouse))
