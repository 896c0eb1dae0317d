#!/usr/bin/env bash
# Measures the gRPC port beside envoyproxy/ratelimit with Redis: times of answers, and the processor time of a request, in rounds that
# alternate. Prints Markdown. The figures to look at are the ratios.
#
#     bench/envoy.sh    needs redis-server, and the module proxy to build that service
#
# RATE (5000 a second), EACH (10s), ROUNDS (5) and CONNS (8) change the load. LIMITDB and SERVICE name binaries that are built already. Neither side
# writes to a disk.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.4.1-0.20260122083618-3fb702589d36
source bench/work.sh "${TMPDIR:-/tmp}"
port=${PORT:-28930}

limitdb=${LIMITDB:-$work/limitdb}
[[ -n ${LIMITDB-} ]] || CGO_ENABLED=0 go build -o "$limitdb" ./cmd/limitdb
go build -o "$work/load" ./bench/envoy

answers() { # PORT
  for _ in $(seq 200); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
    sleep 0.05
  done
  cat "$work"/*.log >&2
  exit 1
}

cat >"$work/tree" <<'YAML'
domain: bench
descriptors:
  - key: generic_key
    value: api
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 1000000}
YAML
{
  echo "version: 1"
  echo "namespaces:"
  echo "  bench:"
  sed -n '2,$s/^/    /p' "$work/tree"
} >"$work/rules.yaml"

"$limitdb" --port $((port)) --http-port 0 --grpc-port $((port + 1)) --bind 127.0.0.1 --dir "$work/data" --appendonly no --rules-file "$work/rules.yaml" 2>"$work/limitdb.log" &
pids+=($!)
answers $((port + 1))

service=${SERVICE:-$work/service_cmd}
[[ -n ${SERVICE-} ]] || (cd "$work" && GOBIN=$work GOFLAGS=-mod=mod go install github.com/envoyproxy/ratelimit/src/service_cmd@$version)
redis-server --port $((port + 2)) --bind 127.0.0.1 --save '' --appendonly no >"$work/redis.log" &
pids+=($!)
answers $((port + 2))
mkdir -p "$work/root/ratelimit/config"
cp "$work/tree" "$work/root/ratelimit/config/bench.yaml"
RUNTIME_ROOT=$work/root RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false LOG_LEVEL=error DISABLE_STATS=true \
  REDIS_SOCKET_TYPE=tcp REDIS_URL=127.0.0.1:$((port + 2)) HOST=127.0.0.1 GRPC_HOST=127.0.0.1 DEBUG_HOST=127.0.0.1 \
  PORT=$((port + 3)) GRPC_PORT=$((port + 4)) DEBUG_PORT=$((port + 5)) "$service" >"$work/service.log" 2>&1 &
pids+=($!)
answers $((port + 4))
"$work/load" -rate "${RATE:-5000}" -each "${EACH:-10s}" -rounds "${ROUNDS:-5}" -conns "${CONNS:-8}" \
  "limitdb=127.0.0.1:$((port + 1)),${pids[0]}" "service=127.0.0.1:$((port + 4)),${pids[2]},${pids[1]}"
