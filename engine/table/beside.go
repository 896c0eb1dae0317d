package table

// A key may have a record beside its own, of kind HOLDS. It has the same bytes as its key,
// and the hash of Beside. So it is on the same line of the same segment, and a look for one
// of the two never compares the bytes of the other: their tags differ.

// Beside returns the hash of the record beside that with hash h.
func Beside(h uint64) uint64 { return h ^ 1 }

// Besides returns how many records are beside others.
func (t *Table) Besides() int { return t.beside }

// hasBeside reports whether there is a record beside that of a key.
func (t *Table) hasBeside(r record) bool {
	if t.beside == 0 {
		return false
	}
	sp := Spot{Hash: Beside(t.hash(r)), Key: r.key()}
	t.Find(&sp)
	return sp.Found()
}
