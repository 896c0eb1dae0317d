# The driver of docs/clients.md's limiter: addr timeout-ms http-addr limit...
require_relative "limiter"

addr, timeout, _http, *limit = ARGV
host, port = addr.split(":")
limiter = Limiter.new(host, port.to_i, limit, timeout: timeout.to_i / 1000.0)
closed = Limiter.new(host, port.to_i, limit, timeout: timeout.to_i / 1000.0, fail_open: false)
$stdout.sync = true
$stdin.each_line(chomp: true) do |key|
  limited, *, away = (key == "closed" ? closed : limiter).take(key)
  puts "#{limited ? "denied" : "allowed"} #{away ? "away" : "asked"}"
end
