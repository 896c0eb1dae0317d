package stats

// EnvoyLimit has the figures of a limit as Envoy's rate limit service counts them, in hits.
type EnvoyLimit struct {
	// Total counts all hits, Within those below the limit, Near those of them above four fifths of it, Over those that were denied or, in shadow mode,
	// would have been, and Shadow those of them in shadow mode.
	Total, Within, Near, Over, Shadow uint64
}

// Plus returns the sum.
func (l EnvoyLimit) Plus(other EnvoyLimit) EnvoyLimit {
	return EnvoyLimit{l.Total + other.Total, l.Within + other.Within, l.Near + other.Near, l.Over + other.Over, l.Shadow + other.Shadow}
}
