"""The driver of docs/clients.md's limiter: addr timeout-ms http-addr limit..."""
import logging
import sys
import threading

from flask import Flask
from limiter import Limiter
from middleware import limit
from werkzeug.serving import make_server

addr, timeout, http = sys.argv[1:4]
host, port = addr.split(":")
limiter = Limiter(host, int(port), sys.argv[4:], timeout=int(timeout) / 1000)
app = Flask("guide")
logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.route("/")(lambda: "hello\n")
limit(app, limiter)
http_host, http_port = http.split(":")
threading.Thread(target=make_server(http_host, int(http_port), app).serve_forever, daemon=True).start()
for line in iter(sys.stdin.readline, ""):
    limited, *_, away = limiter.take(line.strip())
    print("denied" if limited else "allowed", "away" if away else "asked", flush=True)
