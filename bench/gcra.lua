-- GCRA as a script for Redis, the way an application would write it without
-- a module: KEYS[1]; ARGV: max_burst, count per period, period in s, quantity.
-- Replies as CL.THROTTLE does. compare.sh measures it as a peer. Times are in
-- microseconds, which a double holds exactly.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local limit = tonumber(ARGV[1]) + 1
local interval = math.floor(tonumber(ARGV[3]) * 1000000 / tonumber(ARGV[2]))
local tolerance = interval * limit
local tat = math.max(tonumber(redis.call('GET', KEYS[1])) or 0, now)
local new = tat + interval * tonumber(ARGV[4] or 1)

if now < new - tolerance then
  local left = math.floor((tolerance - (tat - now)) / interval)
  local retry = -1
  if new - tat <= tolerance then
    retry = math.ceil((new - tolerance - now) / 1000000)
  end
  return {1, limit, left, retry, math.ceil((tat - now) / 1000000)}
end
if new > now then
  redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
end
local left = math.floor((tolerance - (new - now)) / interval)
return {0, limit, left, -1, math.ceil((new - now) / 1000000)}
