package users

import (
	"limitdb/resp"
	"limitdb/server/spec"
)

// Reason says which kind of right is missing.
type Reason uint8

// The reasons, in the order in which Check looks for them. Auth is for ACL LOG.
const (
	Allowed Reason = iota
	Command
	Key
	Channel
	Auth
	Cert
)

var reasonNames = [...]string{Allowed: "", Command: "command", Key: "key", Channel: "channel", Auth: "auth", Cert: "tls-cert"}

// String returns the word of ACL LOG.
func (r Reason) String() string { return reasonNames[r] }

// A Denial says which right is missing for a command. Its zero value says that none is.
type Denial struct {
	Reason Reason
	Object []byte // the key or channel; nil for a command, and for all keys
	All    bool   // the command needs all keys
	Of     bool   // Object is a namespace, whose callers the command needs
	How    spec.Access
	cmd    *spec.Command
}

// Check returns which right is missing for a command, with its words.
func (r *Rights) Check(c *spec.Command, args [][]byte) Denial {
	if !r.MayRun(c) {
		return Denial{Reason: Command, cmd: c}
	}
	if c.Flags&spec.AllKeys != 0 {
		if how := c.Whole(); r.all&how != how {
			return Denial{Reason: Key, All: true, How: how, cmd: c}
		}
	}
	if r.all != spec.Reads|spec.Changes {
		if d := r.checkKeys(c, args); d.Reason != Allowed {
			return d
		}
	}
	if c.Channels != spec.NoChannels && !r.allChannels {
		return r.checkChannels(c, args)
	}
	return Denial{}
}

func (r *Rights) checkKeys(c *spec.Command, args [][]byte) Denial {
	if at := max(c.Route, c.Namespace); at > 0 && at < len(args) {
		if d := r.CheckNamespace(c, args[at]); d.Reason != Allowed {
			return d
		}
	}
	if !c.HasKeys() || c.Group == "pubsub" { // whose keys are channels
		return Denial{}
	}
	from, to, step := c.KeyRange(args)
	for i := from; i < to; i += step {
		if how := c.Access(args, i); !r.MayUse(args[i], how) {
			return Denial{Reason: Key, Object: args[i], How: how, cmd: c}
		}
	}
	return Denial{}
}

// CheckNamespace returns which right is missing for what a command does with the callers of a namespace.
func (r *Rights) CheckNamespace(c *spec.Command, namespace []byte) Denial {
	if how := c.Whole(); !r.MayCheck(namespace, how) {
		return Denial{Reason: Key, Object: namespace, Of: true, How: how, cmd: c}
	}
	return Denial{}
}

func (r *Rights) checkChannels(c *spec.Command, args [][]byte) Denial {
	named := args[1:]
	if c.Channels == spec.OneChannel {
		named = named[:min(1, len(named))]
	}
	for _, channel := range named {
		if !r.MayHear(channel, c.Channels == spec.ChannelPatterns) {
			return Denial{Reason: Channel, Object: channel, cmd: c}
		}
	}
	return Denial{}
}

// Redis' words for a denial: to a client, and in a script.
var texts = [...][2]string{
	Command: {"NOPERM this user has no permissions to run the '", "ERR The user executing the script can't run this command or subcommand"},
	Key:     {"NOPERM this user has no permissions to access one of the keys used as arguments", "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"},
	Channel: {"NOPERM this user has no permissions to access one of the channels used as arguments", "ERR The user executing the script can't publish to the channel mentioned in the command"},
}

// Text returns the reply to a denied command: Redis' words, and then which right the user lacks.
func (d *Denial) Text(user string, inScript bool) string {
	form := 0
	if inScript {
		form = 1
	}
	text := texts[d.Reason][form]
	if d.Reason == Command && !inScript {
		text += d.cmd.Full + "' command"
	}
	return spec.Aside(text, d.Missing(user))
}

// Missing says which right a user lacks.
func (d *Denial) Missing(user string) string {
	who := "user " + resp.Excerpt([]byte(user)) + " lacks "
	switch {
	case d.Reason == Command:
		return who + "+" + d.cmd.Full
	case d.Reason == Channel:
		return who + "a channel & that matches " + resp.Quote(d.Object)
	case d.All:
		return who + sign(d.How) + "*, all keys, which " + d.cmd.Full + " needs"
	case d.Of:
		return who + "a pattern " + sign(d.How) + " that matches " + resp.Quote(appendCallers(nil, d.Object)) + ", the callers of the namespace"
	}
	return who + "a pattern " + sign(d.How) + " that matches " + resp.Quote(d.Object)
}

// sign returns how a rule spells an access.
func sign(how spec.Access) string {
	switch how {
	case spec.Reads:
		return "%R~"
	case spec.Changes:
		return "%W~"
	}
	return "~"
}

// Dry returns what ACL DRYRUN replies to a denied command, in Redis' words.
func (d *Denial) Dry() string {
	switch d.Reason {
	case Command:
		return "This user has no permissions to run the '" + d.cmd.Full + "' command"
	case Channel:
		return "This user has no permissions to access the '" + resp.Excerpt(d.Object) + "' channel"
	}
	if d.All {
		return "This user has no permissions to access all keys"
	}
	return "This user has no permissions to access the '" + resp.Excerpt(d.Object) + "' key"
}

// Name returns what ACL LOG shows as the object.
func (d *Denial) Name() string {
	if d.Reason == Command || d.All {
		return d.cmd.Full
	}
	return string(d.Object)
}
