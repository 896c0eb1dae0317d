package spec

import "strings"

// InsteadOf returns what to use in limitdb instead of a Redis command that it does not have, or
// "" for any other word. When limitdb gains a command, remove it from this table.
func InsteadOf(name []byte) string {
	word := strings.ToUpper(string(name))
	for _, row := range [...]struct{ commands, use string }{
		{
			"FCALL FCALL_RO",
			"limitdb has no functions: EVAL runs a script, and RL.TAKE key GCRA 100/m decides in one atomic step",
		},
		{
			"BLPOP BRPOP BLMOVE XADD XREAD",
			"limitdb has queues of its own: RL.TAKE key QUEUE 10/s BURST 50 is a paced queue, and WAIT 5s holds the reply until it is granted",
		},
		{
			"REPLICAOF SLAVEOF",
			"the directive raft-addr makes several nodes hold the same state",
		},
	} {
		for c := range strings.FieldsSeq(row.commands) {
			if c == word {
				return row.use
			}
		}
	}
	return ""
}
