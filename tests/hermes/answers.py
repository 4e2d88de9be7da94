#!/usr/bin/env python3
"""hermesd with a real Hermes as its agent, and a model of the tests' own behind that.

    answers.py DIRECTORY-OF-THE-BINARIES PYTHON-OF-A-VENV-WITH-HERMES
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fake_model import KEY, NAME, Model, until

BINARIES, PYTHON = Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).absolute())


class House:
    """A home, the model and a daemon."""

    PROCESS = b"tui_gateway.entry"

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="hermesd-hermes-")
        self.home = Path(self.directory.name)
        self.model = Model()
        (self.home / "config.yaml").write_text(
            f"model: {{default: {NAME}, provider: custom, base_url: '{self.model.url}', api_key: {KEY}}}\n"
        )
        self.daemon = None
        self.settings = {}

    def environment(self):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TZ", "SSL_CERT_FILE")}
        return {**keep, "HOME": str(self.home), "HERMES_HOME": str(self.home), "HERMESD_AGENTS_HERMES_PYTHON": PYTHON,
                "HERMESD_LOG_LEVEL": "info,hermesd::agent=debug,hermesd::turn=debug", **self.settings}

    def start(self):
        log = open(self.home / "test.log", "a")
        self.daemon = subprocess.Popen([BINARIES / "hermesd"], env=self.environment(), stderr=log, stdin=subprocess.DEVNULL)
        until("hermesd answers", lambda: self.ctl("status", check=False).returncode == 0)

    def stop(self, how=signal.SIGTERM):
        self.daemon.send_signal(how)
        self.daemon.wait(60)

    def ctl(self, *arguments, words=None, check=True):
        ran = subprocess.run(
            [BINARIES / "hermesctl", *arguments], env=self.environment(), input=words, text=True, capture_output=True, timeout=120,
        )
        if check and ran.returncode != 0:
            raise AssertionError(f"{arguments}: {ran}")
        return ran

    def chat(self, words, *arguments):
        lines = self.ctl("--json", "chat", *arguments, words=words).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def begin(self, words, *arguments):
        process = subprocess.Popen(
            [BINARIES / "hermesctl", "--json", "chat", *arguments], env=self.environment(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        process.stdin.write(words)
        process.stdin.flush()
        return process

    def rows(self, session):
        with sqlite3.connect(self.home / "state.db", timeout=30) as db:
            found = db.execute(
                "SELECT role, content, finish_reason FROM messages WHERE session_id = ? AND active = 1 ORDER BY id", (session,)
            )
            return found.fetchall()

    def row(self, session):
        with sqlite3.connect(self.home / "state.db", timeout=30) as db:
            db.row_factory = sqlite3.Row
            return dict(db.execute("SELECT * FROM sessions WHERE id = ?", (session,)).fetchone())

    def partial(self):
        with sqlite3.connect(self.home / "state.db", timeout=30) as db:
            found = db.execute("SELECT partial FROM hermesd_turns WHERE running").fetchone()
            return found and found[0]

    def hermes(self):
        """Process ids of Hermes' backends below this home."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if self.PROCESS in command and str(self.home).encode() in environment:
                    found.append(int(entry.name))
        return found


def same(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def words(rows):
    return [(role, content) for role, content, _ in rows]


def a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once(house):
    house.start()
    opened, one, two = house.chat("One\nTwo\n", "--title", "Talk")
    session = opened["session"]["id"]
    same("errors", [one["error"], two["error"]], [None, None])
    house.ctl("handoff", "local", "--session", "Talk")
    said = house.ctl("attach", "local/1", words="Three\n").stdout
    assert "Well: I have seen" in said, said
    house.ctl("resume", "Talk", "--no-chat")
    _, four = house.chat("Four\n", "--resume", "Talk")
    rows = house.rows(session)
    same("roles", [role for role, _, _ in rows], ["user", "assistant"] * 5)
    same("words", [content for role, content, _ in rows if role == "user" and "[Handoff]" not in content], ["One", "Two", "Three", "Four"])
    same("the last reply", rows[-1][1].strip(), four["reply"].strip())
    same("message_count", house.row(session)["message_count"], 10)
    assert house.row(session)["input_tokens"] >= 50, house.row(session)
    # By role, and whole: what the model saw last is what stands in the transcript.
    seen = [m for m in house.model.requests if m["messages"][-1].get("content") == "Four"][-1]["messages"]
    same("what the model saw", [m["role"] for m in seen if m["role"] != "system"], ["user", "assistant"] * 4 + ["user"])
    same("processes of Hermes", len(house.hermes()), 1)
    house.stop()
    until("Hermes ends with the daemon", lambda: not house.hermes())


def an_interrupted_answer_is_kept_once_and_the_next_one_comes(house):
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    session = opened["session"]["id"]
    talking = house.begin("Tell me slowly\n", "--resume", "Talk")
    until("the answer streams", lambda: "Well" in (house.partial() or ""))
    talking.kill()
    talking.wait()
    until("the session is finalised", lambda: house.row(session)["ended_at"])
    rows = house.rows(session)
    same("words", words(rows)[2], ("user", "Tell me slowly"))
    same("how often they stand there", [content for _, content, _ in rows].count("Tell me slowly"), 1)
    same("rows", len(rows), 4)
    assert "Well" in rows[3][1], rows
    house.model.go_on.set()
    _, after = house.chat("And now?\n", "--resume", "Talk")
    same("error", after["error"], None)
    rows = house.rows(session)
    same("the tail", words(rows)[-2:], [("user", "And now?"), ("assistant", after["reply"].strip())])
    house.stop()


def a_hermes_that_dies_fails_the_turn_and_is_started_anew(house):
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    session = opened["session"]["id"]
    talking = house.begin("Tell me slowly\n", "--resume", "Talk")
    until("the answer streams", lambda: "Well" in (house.partial() or ""))
    for pid in house.hermes():
        os.kill(pid, signal.SIGKILL)
    until("the turn has failed", lambda: len(house.rows(session)) == 4)
    talking.stdin.close()
    said = [json.loads(line) for line in talking.stdout.read().splitlines()]
    talking.wait()
    assert "Hermes has ended" in said[1]["error"], said
    house.model.go_on.set()
    _, after = house.chat("And now?\n", "--resume", "Talk")
    same("error", after["error"], None)
    same("words", [content for role, content, _ in house.rows(session) if role == "user"], ["One", "Tell me slowly", "And now?"])
    house.stop()


def nothing_is_lost_or_doubled_when_hermesd_is_killed(house):
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    session = opened["session"]["id"]
    talking = house.begin("Tell me slowly\n", "--resume", "Talk")
    until("the answer streams", lambda: "Well" in (house.partial() or ""))
    house.stop(signal.SIGKILL)
    talking.wait()
    until("no Hermes outlives it", lambda: not house.hermes())
    house.model.go_on.set()
    house.start()
    until("the session is finalised", lambda: house.row(session)["ended_at"])
    rows = house.rows(session)
    same("words", [content for role, content, _ in rows if role == "user"], ["One", "Tell me slowly"])
    same("rows", len(rows), 4)
    house.stop()


def a_dangerous_command_waits_for_the_persons_word(house):
    house.start()
    listening = subprocess.Popen(
        [BINARIES / "hermesctl", "--json", "events", "--follow", "--topic", "turn.question"], env=house.environment(),
        stdout=subprocess.PIPE, text=True,
    )
    for answer in ("4", "1"):
        talking = house.begin("Please delete it\n")
        session = json.loads(talking.stdout.readline())["session"]["id"]
        until("the person is asked", lambda: pending(house, session), 60)
        question = json.loads(listening.stdout.readline())
        assert "rm -rf" in json.dumps(question["subject"]), question
        talking.stdin.write(f"{answer}\n")
        talking.stdin.close()
        said = json.loads(talking.stdout.read().splitlines()[-1])
        same("error", said["error"], None)
        result = [content for role, content, _ in house.rows(session) if role == "tool"]
        same("tool results", len(result), 1)
        denied = "denied" in result[0].lower() or "block" in result[0].lower()
        same(f"denied with {answer}: {result}", denied, answer == "4")
        talking.wait()
    listening.kill()
    listening.wait()
    house.stop()


def a_question_of_hermes_is_answered_in_the_chat(house):
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    house.ctl("handoff", "local", "--session", "Talk")
    asked = house.ctl("attach", "local/1", words="Please ask me\n").stdout
    assert "Which colour?" in asked and "2. blue" in asked, asked
    said = house.ctl("attach", "local/1", words="2\n").stdout
    assert "Well: I have seen" in said.split("Which colour?")[1], said
    rows = house.rows(opened["session"]["id"])
    result = [content for role, content, _ in rows if role == "tool"]
    assert len(result) == 1 and "blue" in result[0], rows
    assert "2" not in [content for role, content, _ in rows if role == "user"], rows
    house.stop()


def whoever_leaves_while_hermes_asks_has_said_no(house):
    house.start()
    talking = house.begin("Please delete it\n")
    session = json.loads(talking.stdout.readline())["session"]["id"]
    until("the person is asked", lambda: pending(house, session))
    talking.kill()
    talking.wait()
    until("the session is finalised", lambda: house.row(session)["ended_at"])
    rows = house.rows(session)
    same("words", [content for role, content, _ in rows if role == "user"], ["Please delete it"])
    house.model.go_on.set()
    _, after = house.chat("And now?\n", "--resume", session)
    same("error", after["error"], None)
    same("how often", [c for _, c, _ in house.rows(session)].count("And now?"), 1)
    house.stop()


def pending(house, session):
    """The question that the daemon tells of; the chat's own connection has heard it by then."""
    log = (house.home / "test.log").read_text()
    found = [line for line in log.splitlines() if "asks the person" in line and session in line]
    return found[-1] if found else None


def a_session_that_hermes_lets_go_of_stays_open_while_a_chat_has_it(house):
    house.settings["HERMESD_AGENTS_IDLE_TIMEOUT"] = "1s"
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    session = opened["session"]["id"]
    house.ctl("handoff", "local", "--session", "Talk")
    until("Hermes ends: nobody needs it", lambda: not house.hermes())
    until("the row is open", lambda: house.row(session)["ended_at"] is None)
    log = (house.home / "test.log").read_text()
    assert "reopened" in log, "Hermes did not end the row, so nothing was shown"
    said = house.ctl("attach", "local/1", words="Two\n").stdout
    assert "Well: I have seen" in said, said
    same("words", [c for r, c, _ in house.rows(session) if r == "user"][0::2], ["One", "Two"])
    house.stop()


def only_a_few_sessions_stay_open_in_hermes(house):
    house.start()
    house.chat("One\n", "--title", "Talk 0")
    house.ctl("handoff", "local", "--session", "Talk 0")
    sessions = [house.chat("One\n", "--title", f"Talk {n}")[0]["session"]["id"] for n in range(1, 12)]
    log = house.home / "test.log"
    until("four are closed", lambda: log.read_text().count("closing a surplus session of Hermes") == 4)
    threads = max(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in house.hermes())
    assert threads < 60, threads
    # The chat's own session stays open in the database, and both go on where they were.
    said = house.ctl("attach", "local/1", words="Two\n").stdout
    assert "Well: I have seen" in said, said
    _, again = house.chat("Two\n", "--resume", "Talk 1")
    same("error", again["error"], None)
    same("words", [c for role, c, _ in house.rows(sessions[0]) if role == "user"], ["One", "Two"])
    house.stop()


SUMMARY = "[CONTEXT COMPACTION — REFERENCE ONLY] They counted to three."
# Hermes' own compaction of the live rows, of which the last few are kept, in a process of its own.
COMPACT = """
import sys
from pathlib import Path
from hermes_state import SessionDB
path, session, summary, first, last = sys.argv[1:]
db = SessionDB(Path(path))
live = db.get_messages_as_conversation(session)
kept = live[int(first):int(last) or None]
db.archive_and_compact(session, [{"role": "user", "content": summary}] + kept)
db.close()
"""


def compact_in_a_handoff(house, first, last):
    """Lets Hermes compact the session while it answers the notice of a handoff, which is then cancelled."""
    house.start()
    opened, *_ = house.chat("One\nTwo\nThree\n", "--title", "Talk")
    session = opened["session"]["id"]
    answer = house.rows(session)[-1][:2]
    house.ctl("handoff", "local", "--session", "Talk", "--note", "Answer slowly", "--no-wait")
    until("Hermes has written the notice", lambda: "[Handoff]" in house.rows(session)[-1][1])
    until("the model is asked", lambda: "Answer slowly" in str(house.model.requests[-1]["messages"][-1]))
    ran = subprocess.run(
        [PYTHON, "-c", COMPACT, house.home / "state.db", session, SUMMARY, str(first), str(last)],
        env=house.environment(), text=True, capture_output=True, timeout=60,
    )
    same(f"compaction ({ran.stderr})", ran.returncode, 0)
    house.ctl("handoffs", "cancel", "1")
    rows = words(house.rows(session))
    error = json.loads(house.ctl("--json", "handoffs", "show", "1").stdout)["error"]
    same("message_count", house.row(session)["message_count"], len(rows))
    house.stop()
    return rows, answer, error


def a_cancelled_handoff_leaves_what_hermes_compacted_during_its_turn(house):
    rows, answer, error = compact_in_a_handoff(house, -2, 0)
    same("live rows", rows, [("user", SUMMARY), answer])
    same("error", error, "cancelled")


def a_notice_that_hermes_summarised_stays_and_the_handoff_says_so(house):
    rows, answer, error = compact_in_a_handoff(house, -2, -1)
    same("live rows", rows[:2], [("user", SUMMARY), answer])
    assert error.startswith("cancelled; its notice stays"), error




def a_session_that_hermes_splits_keeps_its_chat_and_its_terminal(house):
    config = house.home / "config.yaml"
    config.write_text(config.read_text().replace("}\n", ", context_length: 64000}\ncompression: {in_place: false}\n"))
    house.start()
    opened, _ = house.chat("One\n", "--title", "Talk")
    parent = opened["session"]["id"]
    with sqlite3.connect(house.home / "state.db", timeout=30) as db:
        for number in range(60):
            role, words = ("user", "assistant")[number % 2], f"{number} " + "lorem ipsum dolor sit amet " * 300
            db.execute("INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?, ?, ?, ?, 1)",
                       (parent, role, words, time.time() - 3600 + number))
    # The handoff's own turn is too long for the model: Hermes compresses, and goes on in another row.
    handoff = json.loads(house.ctl("--json", "handoff", "local", "--session", "Talk").stdout)
    child = handoff["session"]
    same("the parent of the session", house.row(child)["parent_session_id"], parent)
    same("how the parent ended", house.row(parent)["end_reason"], "compression")
    same("the chat's key", house.row(child)["session_key"], handoff["session_key"])
    same("states", [house.row(id)["handoff_state"] for id in (parent, child)], [None, "completed"])
    assert "Well: I have seen" in house.ctl("attach", "local/1", words="Three\n").stdout
    same("where it came from", json.loads(house.ctl("--json", "resume", parent).stdout)["came_from"], "local")
    _, four = house.chat("Four\n", "--resume", parent)
    same("where it was said", four["session"], child)
    asked = [content for role, content, _ in house.rows(child) if role == "user"][-3:]
    same("what was asked", [asked[0][:9], *asked[1:]], ["[Handoff]", "Three", "Four"])
    same("keys", [house.row(id)["session_key"] for id in (parent, child)], [None, None])
    same("ends", [house.row(id)["end_reason"] for id in (parent, child)], ["compression", "cli_close"])
    house.stop()


TESTS = [
    a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once,
    an_interrupted_answer_is_kept_once_and_the_next_one_comes,
    a_hermes_that_dies_fails_the_turn_and_is_started_anew,
    nothing_is_lost_or_doubled_when_hermesd_is_killed,
    a_session_that_hermes_lets_go_of_stays_open_while_a_chat_has_it,
    only_a_few_sessions_stay_open_in_hermes,
    a_session_that_hermes_splits_keeps_its_chat_and_its_terminal,
    a_dangerous_command_waits_for_the_persons_word,
    a_question_of_hermes_is_answered_in_the_chat,
    whoever_leaves_while_hermes_asks_has_said_no,
    a_cancelled_handoff_leaves_what_hermes_compacted_during_its_turn,
    a_notice_that_hermes_summarised_stays_and_the_handoff_says_so,
]


def main(tests, make_house):
    wanted = sys.argv[3:]
    failed = 0
    tests = [t for t in tests if not wanted or t.__name__ in wanted]
    for test in tests:
        house = make_house()
        try:
            test(house)
            print(f"ok {test.__name__}", flush=True)
        except Exception as error:  # noqa: BLE001: every fault of a test is told, and the next one runs
            failed += 1
            print(f"FAILED {test.__name__}: {type(error).__name__}: {error}", flush=True)
            print((house.home / "test.log").read_text()[-3000:], flush=True)
        finally:
            house.model.go_on.set()
            if house.daemon and house.daemon.poll() is None:
                house.daemon.kill()
                house.daemon.wait()
            for pid in house.hermes():
                os.kill(pid, signal.SIGKILL)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(TESTS, House))
