# Calls commands with redis-py's client of clusters, which reads from COMMAND which node to ask.
# Usage: cluster.py HOST PORT
import sys

from redis.cluster import RedisCluster

host, port = sys.argv[1], int(sys.argv[2])
client = RedisCluster(host=host, port=port)
rules = "version: 1\nnamespaces: {shop: [{name: all, key: [user], limit: 2/h}]}"
client.execute_command("RL.RULES", "LOAD", rules, target_nodes=RedisCluster.DEFAULT_NODE)
for command in ["RL.TOP"], ["RL.RULES", "LIST"]:
    client.execute_command(*command, target_nodes=RedisCluster.DEFAULT_NODE)
for command, want in [
    (["RL.TAKE", "k", "GCRA", "5/h"], [0, 5, 4, -1, 720000]),
    (["RL.CHECK", "shop", 1, "user", "u17"], [0, 2, 1, -1, 1800000, b"all"]),
    (["RL.CHECK", "shop", "1", "user", "u17", "PEEK"], [0, 2, 0, -1]),
    (["RL.RULES", "GET", "shop", "all"], None),
    (["RL.RULES", "RESET", "shop", "all", "user", "u17"], 1),
    (["EVAL", "return redis.call('INCR', KEYS[1])", 1, "n"], 1),
]:
    got = client.execute_command(*command)
    if want is not None and (got[: len(want)] if isinstance(want, list) else got) != want:
        sys.exit(f"{command}: {got}, want {want}")
print("done")
