"""Drives limitdb with redis-py, both its plain and its asyncio client."""
import asyncio
import os

import redis
import redis.asyncio

HOST = os.environ["LIMITDB_HOST"]
PORT = int(os.environ["LIMITDB_PORT"])
AUTH_PORT = int(os.environ["LIMITDB_AUTH_PORT"])
TLS_PORT = int(os.environ["LIMITDB_TLS_PORT"])
PASSWORD = os.environ["LIMITDB_PASSWORD"]
CA = os.environ["LIMITDB_CA"]
ERROR = "Cell error: Store error: Couldn't parse as integer: sixty"


def key(name):
    return os.environ["LIMITDB_KEY"] + ":" + name


def ok(name, got, want):
    if got != want:
        raise SystemExit(f"{name}: got {got!r}, want {want!r}")
    print("ok", name)


def fails(call):
    try:
        return call()
    except redis.RedisError as err:
        return err


client = redis.Redis(HOST, PORT, client_name="e2e-python")
ok("ping", client.ping(), True)
ok("throttle", client.execute_command("CL.THROTTLE", key("throttle"), 15, 30, 60), [0, 16, 15, -1, 2])
ok("take", client.execute_command("RL.TAKE", key("take"), "GCRA", "5/m"), [0, 5, 4, -1, 12000])
err = fails(lambda: client.execute_command("CL.THROTTLE", key("error"), 15, 30, "sixty"))
ok("error", (type(err), str(err)), (redis.ResponseError, ERROR))
ok("setname", client.client_getname(), "e2e-python")

pipe = client.pipeline(transaction=False)
for _ in range(1000):
    pipe.execute_command("CL.THROTTLE", key("pipeline"), 499, 1, 86400)
ok("pipeline", sum(r[0] == 0 for r in pipe.execute()), 500)

pool = redis.ConnectionPool(host=HOST, port=PORT, max_connections=1)
single = redis.Redis(connection_pool=pool)
first = single.client_id()
ok("reconnect", (client.client_kill_filter(_id=first), single.ping(), single.client_id() != first), (1, True, True))

with_password = redis.Redis(HOST, AUTH_PORT, password=PASSWORD)
ok("auth", with_password.ping(), True)
err = fails(redis.Redis(HOST, AUTH_PORT, password="wrong").ping)
ok("wrongpass", "invalid username-password pair" in str(err), True)
err = fails(redis.Redis(HOST, AUTH_PORT).ping)
ok("noauth", isinstance(err, redis.AuthenticationError), True)
secure = redis.Redis(HOST, TLS_PORT, ssl=True, ssl_ca_certs=CA)
ok("tls", secure.ping(), True)


async def concurrent():
    aclient = redis.asyncio.Redis(host=HOST, port=PORT)
    takes = [aclient.execute_command("CL.THROTTLE", key("async"), 9, 1, 86400) for _ in range(50)]
    replies = await asyncio.gather(*takes)
    await aclient.close()
    return sum(r[0] == 0 for r in replies)


ok("asyncio", asyncio.run(concurrent()), 10)
