package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"limitdb/resp"
)

// keyImport copies the keys of a Redis server to a running limitdb server.
//
// It reads a batch of keys, with their values and expiries, and writes them with commands that do not change keys of
// the target. So it can be stopped and run again. It copies the time that is left, so the clocks of the two machines
// need not agree. A delay on the way makes a key expire later, never sooner.
//
// redis-cell keeps its limiters as strings: the time at which the limit is full again, in nanoseconds of Unix time,
// in a key that expires at that time. Such a key becomes a limiter that is full again at that time. Its limit is that
// of the next call, as in redis-cell.
type keyImport struct {
	from, to *remote
	match    string
	replace  bool

	batch    int
	total    int64
	read     int64
	prefix   string // of the names of collections until they are whole
	parts    int    // how many such names there were
	counts   map[string]*typeCount
	refusals map[string]bool // the keys that were refused, up to maxRefusals
	progress func(read, total int64)
}

// typeCount counts the keys of a type.
type typeCount struct {
	carried, there, refused int64
	why                     string // the first refusal's cause
}

const (
	importBatch = 500
	// importBytes is about how many bytes of values are read at once.
	importBytes = 4 << 20
	// importMost is the most memory that a key may take in Redis to be read. What limitdb can hold takes less.
	importMost = 32 << 20
	// importChunk is at about how many bytes a command that writes elements of a collection ends.
	importChunk = 64 << 10
	// importWords is about how many words such a command has: limitdb takes 1024.
	importWords = 1000
	// importText is the longest text that limitdb takes, by default.
	importText  = 64 << 10
	maxRefusals = 100_000
	// importPart is after how many seconds a collection expires that is not whole yet.
	importPart = "600"

	// throttle is the type of redis-cell's keys in the table.
	throttle = "throttle"
	// hyperLogLog is the same for what PFADD makes, which Redis keeps as strings.
	hyperLogLog = "hyperloglog"
	// throttleSlack is by how much a key of redis-cell may expire sooner or later than its limit is full, in ms.
	throttleSlack = 2000
	// throttleLeast is the least time of such a key, in the year 2001.
	throttleLeast = 1_000_000_000_000_000_000
)

// importedKey is a key of the source.
type importedKey struct {
	key, typ string
	left     int64 // ms until it expires; -1 for never
	bytes    int64 // of memory, in Redis
	value    resp.Value
	now      int64 // the source's time when it was read, in Unix ns

	over bool   // it replaces a key of the target
	part string // the name of a collection until it is whole
}

// collection reports whether the key holds a list, a set, a hash or a sorted set.
func (k *importedKey) collection() bool { return k.typ != "string" && k.typ != throttle }

// run copies all keys.
func (m *keyImport) run() error {
	m.counts, m.refusals, m.prefix = map[string]*typeCount{}, map[string]bool{}, "limitdb:import:"+rand.Text()+":"
	size, err := m.from.ask("DBSIZE")
	if err != nil {
		return fmt.Errorf("%s: %w", m.from.name, err)
	}
	m.total = size.Int
	return m.walk(func(keys []string) error {
		m.read += int64(len(keys))
		defer func() { m.progress(m.read, m.total) }()
		return m.copyBatch(keys)
	})
}

// walk calls fn for the keys of the source, some at a time.
func (m *keyImport) walk(fn func(keys []string) error) error {
	for cursor := "0"; ; {
		page, err := m.from.ask("SCAN", cursor, "MATCH", m.match, "COUNT", strconv.Itoa(m.batch))
		if err != nil {
			return fmt.Errorf("%s: SCAN: %w", m.from.name, err)
		}
		if len(page.Elems) != 2 {
			return fmt.Errorf("%s: SCAN has an unknown reply", m.from.name)
		}
		keys := make([]string, len(page.Elems[1].Elems))
		for i, k := range page.Elems[1].Elems {
			keys[i] = k.Text
		}
		if len(keys) > 0 {
			if err := fn(keys); err != nil {
				return err
			}
		}
		if cursor = page.Elems[0].Text; cursor == "0" {
			return nil
		}
	}
}

func (m *keyImport) count(typ string) *typeCount {
	if m.counts[typ] == nil {
		m.counts[typ] = &typeCount{}
	}
	return m.counts[typ]
}

func (m *keyImport) refuse(k *importedKey, why string) {
	c := m.count(k.typ)
	if c.refused++; c.why == "" {
		c.why = why
	}
	if len(m.refusals) < maxRefusals {
		m.refusals[k.key] = true
	}
}

// copyBatch copies some keys.
func (m *keyImport) copyBatch(names []string) error {
	for _, k := range names {
		m.from.add("TYPE", k)
		m.from.add("PTTL", k)
		m.from.add("MEMORY", "USAGE", k, "SAMPLES", "0")
	}
	all, err := m.from.flush()
	if err != nil {
		return err
	}
	var some []*importedKey
	bytes := int64(0)
	for i, name := range names {
		k := &importedKey{key: name, typ: all[3*i].Text, left: all[3*i+1].Int, bytes: all[3*i+2].Int}
		if err := errors.Join(all[3*i].Err(), all[3*i+1].Err()); err != nil {
			return fmt.Errorf("%s: %w", m.from.name, err)
		}
		switch {
		case k.typ == "none" || k.left == -2:
			continue // it has expired meanwhile
		case k.reads() == nil:
			m.refuse(k, "import does not copy this type")
			continue
		case k.bytes > importMost:
			m.refuse(k, "too large")
			continue
		}
		if bytes += k.bytes; bytes > importBytes && len(some) > 0 {
			if err := m.copyKeys(some); err != nil {
				return err
			}
			some, bytes = nil, k.bytes
		}
		some = append(some, k)
	}
	return m.copyKeys(some)
}

// reads returns the command that reads what the key holds; nil if it does not copy this type.
func (k *importedKey) reads() []string {
	switch k.typ {
	case "string":
		return []string{"GET", k.key}
	case "list":
		return []string{"LRANGE", k.key, "0", "-1"}
	case "set":
		return []string{"SMEMBERS", k.key}
	case "hash":
		return []string{"HGETALL", k.key}
	case "zset":
		return []string{"ZRANGE", k.key, "0", "-1", "WITHSCORES"}
	}
	return nil
}

// copyKeys reads what keys hold, and writes it.
func (m *keyImport) copyKeys(keys []*importedKey) error {
	m.from.add("TIME")
	for _, k := range keys {
		m.from.add(k.reads()...)
		m.from.add("PTTL", k.key)
	}
	all, err := m.from.flush()
	if err != nil {
		return err
	}
	if len(all[0].Elems) != 2 {
		return fmt.Errorf("%s: TIME has an unknown reply", m.from.name)
	}
	seconds, _ := strconv.ParseInt(all[0].Elems[0].Text, 10, 64)
	micros, _ := strconv.ParseInt(all[0].Elems[1].Text, 10, 64)
	var there []*importedKey
	for i, k := range keys {
		k.value, k.left = all[1+2*i], all[2+2*i].Int
		k.now = seconds*1e9 + micros*1e3
		switch err := k.value.Err(); {
		case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"): // the key has changed type meanwhile; verify finds it again
		case err != nil:
			m.refuse(k, err.Error())
		case k.isHyperLogLog():
			k.typ = hyperLogLog
			m.refuse(k, "limitdb has no PFCOUNT")
		case k.longest() > importText:
			m.refuse(k, "it has a text of more than 64 kB")
		case k.value.Null || k.left == -2 || k.typ != "string" && len(k.value.Elems) == 0:
		default:
			if _, ok := k.throttled(); ok {
				k.typ = throttle
			}
			there = append(there, k)
		}
	}
	return m.write(there)
}

// isHyperLogLog reports whether PFCOUNT would accept the key, by the magic, the encoding and the size of its text.
func (k *importedKey) isHyperLogLog() bool {
	const head, dense, sparse, denseSize = 16, 0, 1, 16 + 12*1024
	text := k.value.Text
	return k.typ == "string" && len(text) >= head && text[:4] == "HYLL" && (text[4] == sparse || text[4] == dense && len(text) == denseSize)
}

// longest returns the length of the longest text that the key has or holds.
func (k *importedKey) longest() int {
	n := max(len(k.key), len(k.value.Text))
	for i := range k.value.Elems {
		n = max(n, len(k.value.Elems[i].Text))
	}
	return n
}

// throttled returns after how many nanoseconds the limit of a key of redis-cell is full again, and false for another
// key.
func (k *importedKey) throttled() (left int64, ok bool) {
	full, err := strconv.ParseInt(k.value.Text, 10, 64)
	if k.typ != "string" && k.typ != throttle || err != nil || full < throttleLeast || k.left < 0 {
		return 0, false
	}
	left = full - k.now
	if off := left/1e6 - k.left; off < -throttleSlack || off > throttleSlack {
		return 0, false
	}
	return max(left, 0), true
}

// write writes keys to the target.
func (m *keyImport) write(keys []*importedKey) error {
	if len(keys) == 0 {
		return nil
	}
	for _, k := range keys {
		m.to.add("TYPE", k.key)
	}
	types, err := m.to.flush()
	if err != nil {
		return err
	}
	var writes []*importedKey
	for i, k := range keys {
		switch held := types[i].Text; {
		case types[i].Err() != nil:
			m.refuse(k, types[i].Err().Error())
		case held != "none" && (!m.replace || !slices.Contains([]string{"string", "list", "set", "hash", "zset"}, held)):
			m.count(k.typ).there++
		default:
			k.over = held != "none"
			writes = append(writes, k)
		}
	}
	var whole []*importedKey
	parts := []string{"DEL"}
	err = m.send(writes, m.addWrites, func(k *importedKey, last resp.Value) {
		if k.collection() {
			whole = append(whole, k)
		} else {
			m.written(k, last)
		}
	})
	if err == nil {
		err = m.send(whole, m.addNames, m.written)
	}
	for _, k := range writes {
		if k.collection() {
			parts = append(parts, k.part)
		}
	}
	if err == nil && len(parts) > 1 {
		_, err = m.to.ask(parts...)
	}
	return err
}

// send sends the commands that add adds for each key, and calls done with the last reply if none is an error.
func (m *keyImport) send(keys []*importedKey, add func(k *importedKey), done func(k *importedKey, last resp.Value)) error {
	ends := make([]int, len(keys))
	for i, k := range keys {
		add(k)
		ends[i] = m.to.n
	}
	replies, err := m.to.flush()
	if err != nil {
		return err
	}
	from := 0
	for i, k := range keys {
		var failed error
		for _, v := range replies[from:ends[i]] {
			failed = cmp.Or(failed, v.Err())
		}
		if from = ends[i]; failed != nil {
			m.refuse(k, failed.Error())
		} else {
			done(k, replies[from-1])
		}
	}
	return nil
}

// addWrites adds the commands that write a key, a collection under another name: it may be too large for one
// transaction.
func (m *keyImport) addWrites(k *importedKey) {
	add := m.to.add
	left := strconv.FormatInt(max(k.left, 1), 10)
	if k.typ == throttle {
		full, _ := k.throttled()
		if k.over {
			add("DEL", k.key)
		}
		add("RL.IMPORT", k.key, "GCRA", strconv.FormatInt(full, 10))
		return
	}
	if k.typ == "string" {
		words := []string{"SET", k.key, k.value.Text}
		if k.left >= 0 {
			words = append(words, "PX", left)
		}
		if !k.over {
			words = append(words, "NX")
		}
		add(words...)
		return
	}
	m.parts++
	k.part = m.prefix + strconv.Itoa(m.parts)
	name := map[string]string{"list": "RPUSH", "set": "SADD", "hash": "HSET", "zset": "ZADD"}[k.typ]
	each := 1
	if k.typ == "hash" || k.typ == "zset" {
		each = 2
	}
	words, size := []string{name, k.part}, 0
	for e := k.value.Elems; len(e) >= each; e = e[each:] {
		switch {
		case k.typ == "zset": // a member and its score, the other way round
			words = append(words, e[1].Text, e[0].Text)
		case each == 2:
			words = append(words, e[0].Text, e[1].Text)
		default:
			words = append(words, e[0].Text)
		}
		size += len(e[0].Text) + 16
		if size > importChunk || len(words) >= importWords || len(e) == each {
			add(words...)
			words, size = words[:2], 0
			add("EXPIRE", k.part, importPart)
		}
	}
}

// addNames adds the commands that give a collection its name, with the time that it has left.
func (m *keyImport) addNames(k *importedKey) {
	rename := "RENAMENX"
	if k.over {
		rename = "RENAME"
	}
	if k.left >= 0 {
		m.to.add("PEXPIRE", k.part, strconv.FormatInt(max(k.left, 1), 10))
	} else {
		m.to.add("PERSIST", k.part)
	}
	m.to.add(rename, k.part, k.key)
}

// written counts a key whose last command had that reply.
func (m *keyImport) written(k *importedKey, last resp.Value) {
	if last.Null || last.Text != "OK" && last.Int == 0 {
		m.count(k.typ).there++
		return
	}
	m.count(k.typ).carried++
}

// verify counts the keys of the source that the target has as well, and those that it lacks without having been
// refused. It copies those that came meanwhile.
func (m *keyImport) verify() (have, lack int64, err error) {
	err = m.walk(func(keys []string) error {
		missing, err := m.ask(keys, &have)
		if err == nil && len(missing) > 0 {
			if err = m.copyBatch(missing); err == nil {
				missing, err = m.ask(missing, &have)
			}
		}
		if err != nil {
			return err
		}
		for _, k := range missing {
			m.from.add("PTTL", k)
		}
		left, err := m.from.flush()
		for i := range left {
			// One that is about to expire may have done so at the target while we asked.
			if left[i].Int == -1 || left[i].Int > throttleSlack {
				lack++
			}
		}
		return err
	})
	return have, lack, err
}

// ask counts the keys that the target has, and returns those that it lacks without having been refused.
func (m *keyImport) ask(keys []string, have *int64) (missing []string, err error) {
	for _, k := range keys {
		m.to.add("EXISTS", k)
	}
	there, err := m.to.flush()
	for i := range there {
		if there[i].Int == 1 {
			*have++
		} else if !m.refusals[keys[i]] {
			missing = append(missing, keys[i])
		}
	}
	return missing, err
}

// report prints a table of the types.
func (m *keyImport) report(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "type\tcarried\tthere already\trefused\t")
	var why []string
	for _, typ := range slices.Sorted(maps.Keys(m.counts)) {
		c := m.counts[typ]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", typ, c.carried, c.there, c.refused)
		if c.refused > 0 {
			why = append(why, fmt.Sprintf("refused of type %s: %s\n", typ, c.why))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, strings.Join(why, ""))
	return err
}

// everySecond returns a function that calls fn at most once a second.
func everySecond(fn func(read, total int64)) func(read, total int64) {
	last := time.Now()
	return func(read, total int64) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fn(read, total)
		}
	}
}
