# The driver of docs/clients.md's limiter: addr timeout-ms http-addr limit...
require_relative "limiter"

addr, timeout, _http, *limit = ARGV
host, port = addr.split(":")
limiter = Limiter.new(host, port.to_i, limit, timeout: timeout.to_i / 1000.0)
$stdout.sync = true
$stdin.each_line do |line|
  limited, *, away = limiter.take(line.strip)
  puts "#{limited ? "denied" : "allowed"} #{away ? "away" : "asked"}"
end
