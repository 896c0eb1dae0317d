package server

// families are the tables of the cmd_*.go files, in the order of the reference.
func families() [][]command {
	return [][]command{
		cellCommands(),
		takeCommands(),
		takeAllCommands(),
		leaseCommands(),
		checkCommands(),
		rulesCommands(),
		topCommands(),
		keyCommands(),
		objectCommands(),
		expireCommands(),
		stringCommands(),
		counterCommands(),
		sortedSetCommands(),
		hashCommands(),
		listCommands(),
		multiCommands(),
		scriptCommands(),
		connectionCommands(),
		clientCommands(),
		serverCommands(),
		saveCommands(),
		configCommands(),
		debugCommands(),
		aclCommands(),
		slowlogCommands(),
		latencyCommands(),
		memoryCommands(),
		commandCommands(),
		clusterCommands(),
		raftCommands(),
		pubsubCommands(),
	}
}
