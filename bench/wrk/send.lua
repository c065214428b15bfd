-- Messages of a back end over HTTP, as fast as answers come, for wrk. Each call sends one message
-- with an id of its own; an answer means that it is durable. wrk has no open loop: a stall of the
-- server hides most of what it costs. Take the rate from here, and latencies from `petrel bench`.
local threads = {}

function setup(t)
	t:set("thread", #threads)
	threads[#threads + 1] = t
end

function init(args)
	calls, refused, why = 0, 0, ""
	wrk.method = "POST"
	wrk.path = "/petrel.v1.AdminService/SendAs"
	wrk.headers["authorization"] = "Bearer " .. os.getenv("PETREL_ADMIN_KEY")
	wrk.headers["content-type"] = "application/json"
end

function request()
	calls = calls + 1
	local from = calls % 100
	return wrk.format(nil, nil, nil, string.format(
		'{"from":"wrk-%d","send":{"user":"wrk-%d","clientMsgId":"%d-%d-%d","text":"a message of twelve words, about as long as those that people write"}}',
		from, (from + 1) % 100, os.time(), thread, calls))
end

function response(status, _, body)
	if status ~= 200 or not body:find('"seq"') then
		refused = refused + 1
		why = status .. " " .. body:sub(1, 200)
	end
end

function done(summary, latency)
	local bad, example = 0, ""
	for _, t in ipairs(threads) do
		bad = bad + t:get("refused")
		if t:get("why") ~= "" then example = t:get("why") end
	end
	io.write(string.format("messages %d, %.0f a second; p50 %.2f ms, p99 %.2f ms; without a good answer: %d %s\n",
		summary.requests, summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, bad, example))
	local e = summary.errors
	if bad + e.connect + e.read + e.write + e.timeout > 0 then os.exit(1) end
end
