package known

// bottleneck, a Node.js package: queues of jobs in hashes and sorted sets, and messages
// between their clients. All its scripts run in Lua.

var bottleneck = [...]Script{
	{"9681e2eb0f886df26fa948812dbd55b6263256c4", "bottleneck", "init", "2.19.5", 0, 0, nil},
	{"26d5cd859734aea4f86e797b89b5a69b6205af43", "bottleneck", "group_check", "2.19.5", 0, 0, nil},
	{"bf0099497e081e19f6e6f1a4e90d6d502e2230a7", "bottleneck", "register_client", "2.19.5", 0, 0, nil},
	{"3c8a7355139ada3e72f53fb98e867cbc6b003664", "bottleneck", "blacklist_client", "2.19.5", 0, 0, nil},
	{"8bd3e064b718321194a8df49c69e48fd0ffb4dcd", "bottleneck", "heartbeat", "2.19.5", 0, 0, nil},
	{"621fc7ecd6cf6f4f27ef7c741843853adbcd265b", "bottleneck", "update_settings", "2.19.5", 0, 0, nil},
	{"291d32ae9e5f34dc078d5ce506219b7f611c9ee2", "bottleneck", "running", "2.19.5", 0, 0, nil},
	{"608f9f70fd5309ad84c004a11b17c03168b3a300", "bottleneck", "queued", "2.19.5", 0, 0, nil},
	{"e48fa2d8f7727c9774b7a088c3ca89cc24b02508", "bottleneck", "done", "2.19.5", 0, 0, nil},
	{"6f6eb052b7b0a87b430ac68547917a8aecbb9a4a", "bottleneck", "check", "2.19.5", 0, 0, nil},
	{"f00a66a4159e8488fd6e3b8ccba92a8c602f2062", "bottleneck", "submit", "2.19.5", 0, 0, nil},
	{"f015b372dc34d68d4d08ea116eac3307c8602945", "bottleneck", "register", "2.19.5", 0, 0, nil},
	{"bc60425feabe5bc26ad7ef67604a9bb0d6c03afb", "bottleneck", "free", "2.19.5", 0, 0, nil},
	{"e8553397e5a377190dec59912c76c7986551aa06", "bottleneck", "current_reservoir", "2.19.5", 0, 0, nil},
	{"a7cb1e67d8103dd9df7128caf9aae9f234f3fad7", "bottleneck", "increment_reservoir", "2.19.5", 0, 0, nil},
}
