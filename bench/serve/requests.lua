-- For wrk: sends the body in the file BODY, whose first JSON_BYTES bytes are JSON (0: all of it), and prints what came as one line of JSON.
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
wrk.headers["Content-Type"] = "application/octet-stream"
if os.getenv("JSON_BYTES") ~= "0" then wrk.headers["Inference-Header-Content-Length"] = os.getenv("JSON_BYTES") end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "refused": %d, "broken": %d}\n', summary.requests,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, e.status, e.connect + e.read + e.write + e.timeout))
end
