"""The back end of a shop whose customers chat: python3 server.py"""
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PETREL = os.environ.get("PETREL_SERVER", "http://127.0.0.1:8080")
KEY = Path(os.environ.get("PETREL_KEY_FILE", "shop.key")).read_text().strip()
PAGES = Path(__file__).parent / "pages"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}


def mint_token(user, device):
    """Logs a device of a user in: the status, and the answer as it came."""
    request = urllib.request.Request(
        PETREL + "/petrel.v1.AdminService/MintToken",
        json.dumps({"user": user, "device": device}).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return 200, answer.read()
    except urllib.error.HTTPError as refused:
        return 502, refused.read()
    except urllib.error.URLError as unreachable:
        return 502, str(unreachable.reason).encode()


class Shop(BaseHTTPRequestHandler):
    def user(self):
        # Your own login stands here: anybody can forge this cookie.
        found = re.search(r"(?:^|; )user=([\w.-]{1,64})(?:;|$)", self.headers.get("Cookie", ""), re.ASCII)
        return found and found[1]

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        name = Path(url.path).name or "index.html"
        if url.path == "/login":
            user = urllib.parse.quote(urllib.parse.parse_qs(url.query).get("user", [""])[0])
            self.reply(303, b"", {"Set-Cookie": f"user={user}; HttpOnly; SameSite=Lax", "Location": "/"})
        elif url.path == "/style.css":
            self.send_page(name)
        elif not self.user():
            self.send_page("login.html", status=401)
        elif not (PAGES / name).is_file():
            self.reply(404, b"", {})
        else:
            self.send_page(name, self.user())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/chat-token" or not self.user():
            self.reply(401, b"", {})
            return
        status, answer = mint_token(self.user(), json.loads(body)["device"])
        self.reply(status, answer, {"Content-Type": "application/json", "Cache-Control": "no-store"})

    def send_page(self, name, user="", status=200):
        page = (PAGES / name).read_text().replace("{{user}}", user).replace("{{server}}", PETREL)
        self.reply(status, page.encode(), {"Content-Type": TYPES[Path(name).suffix]})

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Shop).serve_forever()
