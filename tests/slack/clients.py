"""Drives the fake Slack with Slack's own clients. Usage: clients.py SLACK-SERVER"""

import asyncio
import json
import logging
import queue
import subprocess
import sys
import time
import traceback
import urllib.request

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.aiohttp import SocketModeClient as AiohttpClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.socket_mode.websocket_client import SocketModeClient as WebsocketClient
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook import WebhookClient

PATIENCE = 20


class Server:
    """The fake as a program. Each call is a command to it."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.facts = self.read()

    def __getattr__(self, name):
        return self.facts[name]

    def read(self):
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.read()

    def state(self, channel=None):
        return self.tell("state", channel or self.channel)

    def until(self, what, look, channel=None):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = look(self.state(channel))
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"waited in vain: {what}: {self.state(channel)}")

    def web(self):
        return WebClient(token=self.token, base_url=self.api)

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


def refused(name, call):
    try:
        call()
    except SlackApiError as error:
        assert error.response["error"] == name, error.response
        return error.response
    raise AssertionError(f"not refused: {name}")


def the_web_client_reads_and_writes(server):
    web = server.web()
    assert web.auth_test()["user_id"] == server.bot
    assert web.users_info(user=server.ada)["user"]["real_name"] == "Ada Lovelace"
    assert len([user for page in web.users_list(limit=1) for user in page["members"]]) == 3
    opened = web.conversations_open(users=server.ada)
    assert opened["channel"]["id"] == server.direct
    ts = web.chat_postMessage(channel=server.channel, text="a < b & c")["ts"]
    web.chat_update(channel=server.channel, ts=ts, text="edited")
    metadata = {"event_type": "handoff", "event_payload": {"key": "value"}}
    reply = web.chat_postMessage(channel=server.channel, thread_ts=ts, text="reply", metadata=metadata)
    assert reply["message"]["thread_ts"] == ts
    replies = web.conversations_replies(channel=server.channel, ts=ts, include_all_metadata=True)
    assert [message["text"] for message in replies["messages"]] == ["edited", "reply"]
    assert replies["messages"][1]["metadata"] == metadata
    web.chat_delete(channel=server.channel, ts=reply["ts"])
    missing = refused("missing_scope", lambda: web.reactions_add(channel=server.channel, timestamp=ts, name="eyes"))
    assert missing["needed"] == "reactions:write"
    web.assistant_threads_setStatus(channel_id=server.channel, thread_ts=ts, status="is thinking")
    web.chat_postEphemeral(channel=server.channel, user=server.ada, text="psst")
    assert server.state()["ephemerals"][-1] == {"to": server.ada, "text": "psst"}


def a_stream_of_the_web_client_becomes_a_message(server):
    web = server.web()
    root = server.tell("say", server.channel, server.ada, "tell me")
    stream = web.chat_stream(
        channel=server.channel, thread_ts=root, recipient_team_id=server.team,
        recipient_user_id=server.ada, buffer_size=4,
    )
    stream.append(markdown_text="one two")
    stream.append(markdown_text=" three")
    stream.stop()
    assert server.state()["messages"][-1]["text"] == "one two three"


def bad_tokens_are_refused(server):
    wrong = WebClient(token="xoxb-wrong", base_url=server.api)
    refused("invalid_auth", wrong.auth_test)
    refused("not_authed", WebClient(base_url=server.api).auth_test)
    refused("not_allowed_token_type", lambda: server.web().apps_connections_open(app_token=server.token))
    refused("not_allowed_token_type", WebClient(token=server.app_token, base_url=server.api).auth_test)


def files_are_uploaded_and_fetched(server):
    web = server.web()
    root = server.tell("say", server.channel, server.ada, "send it")
    done = web.files_upload_v2(
        channel=server.channel, thread_ts=root, initial_comment="here",
        file_uploads=[{"content": "one", "filename": "1.txt", "title": "One"}, {"content": b"\x00\x01", "filename": "2.bin"}],
    )
    assert len(done["files"]) == 2 and done["files"][0]["title"] == "One"
    message = server.state()["messages"][-1]
    assert (message["thread_ts"], message["text"]) == (root, "here"), message
    assert [name for name, _ in message["files"]] == ["1.txt", "2.bin"]
    file = web.files_info(file=done["files"][0]["id"])["file"]
    request = urllib.request.Request(
        file["url_private_download"], headers={"Authorization": f"Bearer {server.token}"}
    )
    assert urllib.request.urlopen(request).read() == b"one"
    page = urllib.request.urlopen(file["url_private"])
    assert page.status == 200 and b"<html" in page.read()


def socket_client(server, kind):
    """Connects, and puts all requests into a queue, each acknowledged."""
    client = kind(app_token=server.app_token, web_client=server.web(), ping_interval=1)
    requests = queue.Queue()

    def listen(client, request):
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        requests.put(request)

    client.socket_mode_request_listeners.append(listen)
    client.connect()
    server.until("a connection", lambda state: state["connections"] == 1)
    return client, requests


def a_socket_client_answers_and_reconnects(server, kind):
    client, requests = socket_client(server, kind)
    try:
        ts = server.tell("say", server.direct, server.ada, "hello")
        request = requests.get(timeout=PATIENCE)
        event = request.payload["event"]
        assert (request.type, request.retry_attempt, event["text"]) == ("events_api", 0, "hello")
        assert (event["ts"], event["channel_type"]) == (ts, "im")
        client.web_client.chat_postMessage(channel=server.direct, thread_ts=event["ts"], text="answer")
        reply = server.state(server.direct)["messages"][-1]
        assert (reply["thread_ts"], reply["text"]) == (ts, "answer"), reply
        requests.get(timeout=PATIENCE)  # the event of its own message
        for reason in ["warning", "refresh_requested"]:
            before = client.session_id() if hasattr(client, "session_id") else None
            server.tell("leave", reason)
            end = time.monotonic() + PATIENCE
            while before and client.session_id() == before and time.monotonic() < end:
                time.sleep(0.02)
            server.until("one connection", lambda state: state["connections"] == 1)
            server.tell("say", server.direct, server.ada, f"after {reason}")
            assert requests.get(timeout=PATIENCE).payload["event"]["text"] == f"after {reason}"
        server.until("all acknowledged", lambda state: len(state["acknowledged"]) == 4)
        assert (server.state()["unanswered"], server.state()["strays"]) == (0, [])
    finally:
        client.close()


def the_builtin_socket_client_works(server):
    a_socket_client_answers_and_reconnects(server, SocketModeClient)


def the_websocket_client_works(server):
    a_socket_client_answers_and_reconnects(server, WebsocketClient)


def the_aiohttp_client_works(server):
    async def drive():
        web = AsyncWebClient(token=server.token, base_url=server.api)
        client = AiohttpClient(app_token=server.app_token, web_client=web, ping_interval=1)
        requests = asyncio.Queue()

        async def listen(client, request):
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
            await requests.put(request)

        client.socket_mode_request_listeners.append(listen)
        await client.connect()
        for text in ["one", "two"]:
            await asyncio.to_thread(server.tell, "say", server.direct, server.ada, text)
            request = await asyncio.wait_for(requests.get(), PATIENCE)
            assert request.payload["event"]["text"] == text
            if text == "one":
                await asyncio.to_thread(server.tell, "leave", "refresh_requested")
                await asyncio.sleep(1)
        await client.close()

    asyncio.run(drive())


def a_bolt_app_serves_people(server):
    app = App(client=server.web(), signing_secret="unused", token_verification_enabled=True)
    seen = queue.Queue()

    @app.event("app_mention")
    def mention(event, say):
        button = {"type": "button", "text": {"type": "plain_text", "text": "Yes"}, "action_id": "approve", "value": "42"}
        blocks = [{"type": "actions", "elements": [button]}]
        say(text="Sure?", blocks=blocks, thread_ts=event["ts"])

    @app.event("message")
    def message(event):
        seen.put(event["text"])

    @app.action("approve")
    def approve(ack, body, respond, client):
        ack()
        assert body["actions"][0]["value"] == "42"
        assert body["container"]["thread_ts"]
        client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text="approved by update")
        respond(text="approved", replace_original=True)

    @app.command("/hermes")
    def command(ack, command, respond):
        ack(text="one moment")
        respond(text=f"status: {command['text']}", response_type="in_channel")

    handler = SocketModeHandler(app, server.app_token, ping_interval=1)
    handler.connect()
    try:
        server.until("a connection", lambda state: state["connections"] >= 1)
        root = server.tell("say", server.channel, server.ada, f"<@{server.bot}> please")
        answered = server.until("a question", lambda state: [m for m in state["messages"] if m["thread_ts"] == root])
        assert answered[0]["text"] == "Sure?"
        server.tell("press", server.channel, answered[0]["ts"], server.ada, "Yes")
        server.until("approval", lambda state: [m for m in state["messages"] if m["text"] == "approved"])
        server.tell("run", server.channel, server.ben, "/hermes", "all well")
        server.until("an answer", lambda state: [m for m in state["messages"] if m["text"] == "status: all well"])
        state = server.until("an acknowledgement", lambda state: state["ephemerals"] and state)
        assert state["ephemerals"][-1] == {"to": server.ben, "text": "one moment"}
        server.tell("drop")
        server.until("a new connection", lambda state: state["connections"] >= 1)
        server.tell("say", server.direct, server.ada, "still there?")
        while seen.get(timeout=PATIENCE) != "still there?":
            pass
        state = server.state()
        assert (state["unanswered"], state["strays"]) == (0, []), state
    finally:
        handler.close()


def an_address_for_answers_works_five_times(server):
    client, requests = socket_client(server, SocketModeClient)
    try:
        server.tell("run", server.channel, server.ada, "/hermes", "hi")
        request = requests.get(timeout=PATIENCE)
        assert (request.type, request.accepts_response_payload) == ("slash_commands", True)
        hook = WebhookClient(request.payload["response_url"])
        codes = [hook.send(text=str(number)).status_code for number in range(6)]
        assert codes == [200] * 5 + [404], codes
    finally:
        client.close()


def a_revoked_token_ends_it(server):
    server.tell("revoke")
    refused("token_revoked", server.web().auth_test)


CHECKS = [
    the_web_client_reads_and_writes,
    a_stream_of_the_web_client_becomes_a_message,
    bad_tokens_are_refused,
    files_are_uploaded_and_fetched,
    the_builtin_socket_client_works,
    the_websocket_client_works,
    the_aiohttp_client_works,
    a_bolt_app_serves_people,
    an_address_for_answers_works_five_times,
    a_revoked_token_ends_it,
]


def main():
    logging.disable(logging.CRITICAL)
    failed = 0
    for check in CHECKS:
        server = Server(sys.argv[1])
        try:
            check(server)
            print(f"ok   {check.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL {check.__name__}", flush=True)
            traceback.print_exc()
        finally:
            server.close()
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
