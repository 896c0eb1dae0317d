"""Drives limiters for Python, unmodified: each limits, and lets through again once its window is over."""
import os
import sys
import time

import django.conf
import flask
import flask_limiter
import flask_limiter.util
import limits
import limits.storage
import limits.strategies
import redis

PORT = os.environ["LIMITDB_PORT"]
URL = f"redis://127.0.0.1:{PORT}/0"
KEY = os.environ["LIMITDB_KEY"]


def ok(name, got, want):
    if got != want:
        sys.exit(f"{name}: got {got!r}, want {want!r}")
    print("ok", name)


def until(call):
    """Calls until the call succeeds. One that never does ends with the time limit of the process."""
    while not call():
        time.sleep(0.02)
    return True


def recovers(call):
    """Calls until the limiter denies, and then until it lets through again."""
    return until(lambda: not call()) and until(call)


storage = limits.storage.storage_from_string(URL)
assert storage.check()

fixed = limits.strategies.FixedWindowRateLimiter(storage)
limit, short = limits.RateLimitItemPerHour(2), limits.RateLimitItemPerSecond(2)
got = [fixed.hit(limit, KEY, "fixed"), fixed.hit(limit, KEY, "fixed"), fixed.hit(limit, KEY, "fixed")]
remaining = fixed.get_window_stats(limit, KEY, "fixed")[1]
ok("limits, fixed window", (got, remaining, recovers(lambda: fixed.hit(short, KEY, "fixed"))), ([True, True, False], 0, True))
fixed.clear(limit, KEY, "fixed")
ok("limits, clear", fixed.get_window_stats(limit, KEY, "fixed")[1], 2)

moving = limits.strategies.MovingWindowRateLimiter(storage)
got = [moving.hit(limit, KEY, "moving"), moving.hit(limit, KEY, "moving"), moving.hit(limit, KEY, "moving"), moving.test(limit, KEY, "moving")]
remaining = moving.get_window_stats(limit, KEY, "moving")[1]
ok("limits, moving window", (got, remaining, recovers(lambda: moving.hit(short, KEY, "moving"))), ([True, True, False, False], 0, True))
moving.hit(limits.RateLimitItemPerDay(2), KEY)
ok("limits, reset", storage.reset() >= 1, True)

for strategy in "fixed-window", "moving-window":
    app = flask.Flask(__name__)
    limiter = flask_limiter.Limiter(
        flask_limiter.util.get_remote_address, app=app, storage_uri=URL, strategy=strategy, headers_enabled=True,
        key_prefix=f"{KEY}:{strategy}")

    @app.route("/")
    @limiter.limit("2/second")
    def index():
        return "fine"

    @app.route("/hour")
    @limiter.limit("2/hour")
    def hour():
        return "fine"

    client = app.test_client()
    codes = [client.get("/hour").status_code for _ in range(3)]
    ok(f"Flask-Limiter, {strategy}", (codes, recovers(lambda: client.get("/").status_code == 200)), ([200, 200, 429], True))

django.conf.settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL}})
from django.core.cache import cache  # noqa: E402

cache.delete("hits")
cache.set("hits", 0, timeout=100)
ok("django-redis", (cache.incr("hits"), cache.incr("hits", 5), cache.get("hits"), 0 < cache.ttl("hits") <= 100), (1, 6, 6, True))
ok("django-redis, add", (cache.add("once", {"a": [1]}, timeout=100), cache.add("once", 2), cache.get("once")), (True, False, {"a": [1]}))
cache.delete_many(["hits", "once"])

r = redis.Redis.from_url(URL)
first, second = r.lock(f"{KEY}:lock", timeout=100), r.lock(f"{KEY}:lock", timeout=100)
got = [first.acquire(blocking=False), second.acquire(blocking=False)]
first.extend(100)
first.reacquire()
first.release()
ok("redis-py, lock", (got, second.acquire(blocking=False)), ([True, False], True))
second.release()
pipe = r.pipeline()
pipe.incr(f"{KEY}:pipeline").expire(f"{KEY}:pipeline", 100).ttl(f"{KEY}:pipeline")
ok("redis-py, pipeline", pipe.execute(), [1, True, 100])
script = r.register_script("return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
ok("redis-py, script", (script(keys=[f"{KEY}:script"], args=[5]), script(keys=[f"{KEY}:script"], args=[2])[1]),
   ([f"{KEY}:script".encode(), 5], 7))
with r.pipeline() as pipe:
    pipe.watch(f"{KEY}:watched")
    r.set(f"{KEY}:watched", 1)
    pipe.multi()
    pipe.incr(f"{KEY}:watched")
    try:
        pipe.execute()
        aborted = False
    except redis.WatchError:
        aborted = True
ok("redis-py, watch", (aborted, r.get(f"{KEY}:watched")), (True, b"1"))
