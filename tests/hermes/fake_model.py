"""A model endpoint for the tests: answers by what the last user message asks for, and records what it was given."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-test"
NAME = "test-model"
# What the model wants done when these words are in the question.
TOOLS = {
    "delete it": ("terminal", {"command": "rm -rf /tmp/hermesd-no-such-place"}),
    "ask me": ("clarify", {"question": "Which colour?", "choices": ["red", "blue"]}),
}


class Model:
    def __init__(self):
        self.requests = []
        self.go_on = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer(200, {"object": "list", "data": [{"id": NAME, "object": "model"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                if self.headers.get("Authorization") != f"Bearer {KEY}":
                    return self.answer(401, {"error": {"message": "wrong key"}})
                if body.get("model") != NAME:
                    return self.answer(404, {"error": {"message": "no such model"}})
                model.requests.append(body)
                model.reply(self, body)

            def answer(self, status, value):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def reply(self, handler, body):
        messages = body["messages"]
        asked = [m for m in messages if m["role"] == "user"][-1]["content"]
        words = f"I have seen {len(messages)} messages."
        if not body.get("stream"):
            return handler.answer(200, {
                "id": "x", "object": "chat.completion", "created": 1, "model": NAME,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            })
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True

        def chunk(delta, finish=None):
            value = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": NAME,
                     "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            handler.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
            handler.wfile.flush()

        try:
            tool = next((tool for words, tool in TOOLS.items() if words in str(asked)), None)
            if tool and messages[-1]["role"] != "tool":
                name, arguments = tool
                call = {"index": 0, "id": "call_1", "type": "function", "function": {
                    "name": name, "arguments": json.dumps(arguments)}}
                chunk({"role": "assistant", "content": None, "tool_calls": [call]})
                chunk({}, "tool_calls")
            else:
                chunk({"role": "assistant", "content": "Well: "})
                if "slowly" in str(asked):
                    # Until told to go on, or until nobody listens any more.
                    while not self.go_on.wait(0.05):
                        handler.wfile.write(b": still here\n\n")
                        handler.wfile.flush()
                chunk({"content": words})
                chunk({}, "stop")
            usage = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": NAME, "choices": [],
                     "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
            handler.wfile.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        except OSError:
            pass


def until(what, look, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain: {what}")
