package audit

import (
	"encoding/hex"
	"slices"

	"limitdb/config"
	"limitdb/rules"
	"limitdb/server/cluster"
	"limitdb/server/redact"
)

// Views show what commands change.
type Views struct {
	Registry *config.Registry
	Rules    func() *rules.Set
	Members  func() ([]cluster.Member, error) // nil: there are none
	Keys     func() int64                     // how many there are
	User     func(name string) string         // a user's line, as ACL LIST shows it but without hashes; "" if there is none
}

// Of returns what shows the things that a command with these arguments changes; nil if there is nothing to show.
func (v *Views) Of(full string, args [][]byte) func() any {
	switch full {
	case "config|set":
		var names []string
		for i := 2; i < len(args); i += 2 {
			if name := string(args[i]); v.Registry.Known(name) {
				names = append(names, name)
			}
		}
		return func() any { return v.settings(names) }
	case "rl.rules|set", "rl.rules|del", "rl.rules|mode":
		namespace, name := string(args[2]), string(args[3])
		return func() any { return v.rule(namespace, name) }
	case "rl.rules|load", "rl.rules|reload":
		return func() any {
			set := v.Rules()
			sum := set.Sum()
			return ruleSet{len(set.Rules()), hex.EncodeToString(sum[:8])}
		}
	case "raft|server":
		if v.Members != nil {
			return v.members
		}
	case "acl|setuser", "acl|deluser":
		var names []string
		for _, name := range args[2:] {
			names = append(names, string(name))
		}
		if full == "acl|setuser" { // rules follow the name
			names = names[:1]
		}
		return func() any { return v.users(names) }
	case "flushall", "flushdb":
		return func() any { return keys{v.Keys()} }
	}
	return nil
}

type (
	ruleSet struct {
		Rules int    `json:"rules"`
		Sum   string `json:"sum"` // of what they mean
	}
	keys struct {
		Keys int64 `json:"keys"`
	}
	member struct {
		ID      string `json:"id"`
		Address string `json:"address"`
		Voter   bool   `json:"voter"`
	}
	rule struct {
		Mode      string   `json:"mode"`
		Limit     string   `json:"limit"`
		Key       []string `json:"key"`
		Match     []string `json:"match,omitempty"`
		Except    []string `json:"except,omitempty"`
		Candidate string   `json:"candidate,omitempty"`
		Plans     []string `json:"plans,omitempty"`
		Overrides int      `json:"overrides,omitempty"`
		Cost      string   `json:"cost,omitempty"`
		Weights   int      `json:"weights,omitempty"`
		LimitFrom string   `json:"limit_from,omitempty"`
		AtMost    string   `json:"at_most,omitempty"`
		InFlight  string   `json:"in_flight,omitempty"`
		ShardBy   string   `json:"shard_by,omitempty"`
	}
)

// settings returns the values of directives, without secrets.
func (v *Views) settings(names []string) any {
	all := map[string]string{}
	if len(names) == 0 {
		return all
	}
	for _, p := range v.Registry.Get(names...) {
		if all[p.Name] = p.Value; v.Registry.Secret(p.Name) {
			all[p.Name] = redact.Text
		}
	}
	return all
}

// rule describes a rule; nil if there is none.
func (v *Views) rule(namespace, name string) any {
	ns := v.Rules().Namespace([]byte(namespace))
	if ns == nil {
		return nil
	}
	r := ns.Rule(name)
	if r == nil {
		return nil
	}
	shown := rule{
		Mode: r.Mode.String(), Limit: r.Limit(), Key: slices.Clip(r.Key()), Match: r.Match(), Except: r.Except(), Candidate: r.Candidate(),
		Overrides: r.Overrides(), Cost: r.Cost(), Weights: len(r.Weights()) / 3, ShardBy: r.ShardBy(),
	}
	shown.LimitFrom, shown.AtMost = r.LimitFrom()
	if f := r.InFlight(); f != nil {
		shown.InFlight = f.String()
	}
	for name, limit := range r.Plans() {
		shown.Plans = append(shown.Plans, name+": "+limit)
	}
	return shown
}

// users returns the lines of those users that there are.
func (v *Views) users(names []string) any {
	lines := []string{}
	for _, name := range names {
		if line := v.User(name); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (v *Views) members() any {
	all, err := v.Members()
	if err != nil {
		return nil
	}
	shown := []member{}
	for _, m := range all {
		shown = append(shown, member{m.ID, m.Address, m.Voter})
	}
	return shown
}
