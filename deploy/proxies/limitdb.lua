-- An action for HAProxy 2.6 or newer that asks limitdb before a request is passed on:
--
--     http-request lua.limitdb <query of /auth>
--
-- It sets txn.limitdb_status to the status of the answer, and does not set it if limitdb is away or slow.
-- The header fields of the answer are in txn.limitdb_retry_after, txn.limitdb_policy and txn.limitdb_state.

-- A frontend of HAProxy's own, since the client would try four times to reach a server, for seconds.
local ask = "abns@limitdb"

local function first(headers, name)
  local values = headers and headers[name]
  return values and values[0]
end

core.register_action("limitdb", { "http-req" }, function(txn, query)
  local answer = core.httpclient():get({
    url = "http://127.0.0.1/auth?" .. query,
    dst = ask,
    headers = {
      ["x-forwarded-for"] = { txn.sf:src() },
      ["x-forwarded-method"] = { txn.sf:method() },
      ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
      ["x-forwarded-uri"] = { txn.sf:pathq() },
    },
  })
  if not answer or answer.status ~= 200 and answer.status ~= 429 then
    return
  end
  txn:set_var("txn.limitdb_status", answer.status)
  for variable, header in pairs({
    limitdb_retry_after = "retry-after",
    limitdb_policy = "ratelimit-policy",
    limitdb_state = "ratelimit",
  }) do
    local value = first(answer.headers, header)
    if value then
      txn:set_var("txn." .. variable, value)
    end
  end
end, 1)
