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
limiter, closed = (Limiter(host, int(port), sys.argv[4:], timeout=int(timeout) / 1000, fail_open=o) for o in (True, False))
app = Flask("guide")
logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.route("/")(lambda: "hello\n")
limit(app, limiter)
http_host, http_port = http.split(":")
threading.Thread(target=make_server(http_host, int(http_port), app).serve_forever, daemon=True).start()


def crowd():
    """Returns the answer that one of 60 threads got, an away one if there is any."""
    answers, together = [], threading.Barrier(60)

    def one(key):
        together.wait()
        answers.append(limiter.take(key))

    threads = [threading.Thread(target=one, args=(f"crowd{i}",)) for i in range(60)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return max(answers, key=lambda answer: answer[5])


for line in iter(sys.stdin.readline, ""):
    key = line.strip()
    limited, *_, away = crowd() if key == "crowd" else (closed if key == "closed" else limiter).take(key)
    print("denied" if limited else "allowed", "away" if away else "asked", flush=True)
