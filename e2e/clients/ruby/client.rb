# Drives limitdb with redis-rb.
require "redis"

HOST = ENV.fetch("LIMITDB_HOST")
PORT = ENV.fetch("LIMITDB_PORT").to_i
AUTH_PORT = ENV.fetch("LIMITDB_AUTH_PORT").to_i
TLS_PORT = ENV.fetch("LIMITDB_TLS_PORT").to_i
ERROR = "Cell error: Store error: Couldn't parse as integer: sixty".freeze

def key(name)
  "#{ENV.fetch("LIMITDB_KEY")}:#{name}"
end

def ok(name, got, want)
  abort "#{name}: got #{got.inspect}, want #{want.inspect}" unless got == want
  puts "ok #{name}"
end

# A busy machine holds up the server for longer than the default timeout.
def connect(**options)
  Redis.new(timeout: 120, **options)
end

def fails
  yield
rescue Redis::BaseError => e
  e
end

client = connect(host: HOST, port: PORT, id: "e2e-ruby")
ok "ping", client.ping, "PONG"
ok "throttle", client.call("CL.THROTTLE", key("throttle"), 15, 30, 60), [0, 16, 15, -1, 2]
ok "take", client.call("RL.TAKE", key("take"), "GCRA", "5/m"), [0, 5, 4, -1, 12_000]
error = fails { client.call("CL.THROTTLE", key("error"), 15, 30, "sixty") }
ok "error", [error.class, error.message], [Redis::CommandError, ERROR]
client.call("CLIENT", "SETNAME", "e2e-ruby")
ok "setname", client.call("CLIENT", "GETNAME"), "e2e-ruby"

replies = client.pipelined do |p|
  1000.times { p.call("CL.THROTTLE", key("pipeline"), 499, 1, 86_400) }
end
ok "pipeline", replies.count { |r| r[0].zero? }, 500

id = client.call("CLIENT", "ID")
other = connect(host: HOST, port: PORT)
ok "reconnect", [other.call("CLIENT", "KILL", "ID", id), client.ping, client.call("CLIENT", "ID") != id], [1, "PONG", true]

ok "auth", connect(host: HOST, port: AUTH_PORT, password: ENV.fetch("LIMITDB_PASSWORD")).ping, "PONG"
error = fails { connect(host: HOST, port: AUTH_PORT, password: "wrong", reconnect_attempts: 0).ping }
ok "wrongpass", error.message.include?("WRONGPASS"), true
secure = connect(host: HOST, port: TLS_PORT, ssl: true, ssl_params: { ca_file: ENV.fetch("LIMITDB_CA") })
ok "tls", secure.ping, "PONG"
