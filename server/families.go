package server

import "limitdb/server/values"

// families are the tables of the cmd_*.go files, in the order of the reference.
func families() [][]command {
	all := [][]command{
		cellCommands(),
		takeCommands(),
		takeAllCommands(),
		importCommands(),
		leaseCommands(),
		checkCommands(),
		rulesCommands(),
		topCommands(),
		keyCommands(),
	}
	for _, rows := range values.Families() {
		all = append(all, valueCommands(rows))
	}
	return append(all,
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
	)
}
