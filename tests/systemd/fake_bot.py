"""Enough of a Bot API server to show that a token and the network reach the daemon. Writes the paths it is asked for.

fake_bot.py PORT LOG [CERTIFICATE KEY]
"""

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep

ME = {"id": 7, "is_bot": True, "first_name": "Proof", "username": "proof_bot", "can_join_groups": True,
      "can_read_all_group_messages": False, "supports_inline_queries": False, "has_main_web_app": False,
      "can_connect_to_business": False}


class Bot(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        with open(sys.argv[2], "a") as log:
            log.write(self.path + "\n")
        method = self.path.rsplit("/", 1)[-1].lower()
        if method == "getupdates":
            sleep(1)
        result = {"getme": ME, "getupdates": []}.get(method, True)
        body = json.dumps({"ok": True, "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bot)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
