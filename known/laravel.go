package known

import (
	"bytes"
	"strconv"

	"limitdb/resp"
	"limitdb/script"
	"limitdb/value"
)

// Laravel, a framework for PHP: counters and locks of its cache, Redis::throttle and
// Redis::funnel.

var laravel = [...]Script{
	{"a08c9c69b7c07ae2485190873b90d128a23e502d", "Laravel cache", "add", "5.5 on", 1, 2, laravelAdd},
	{"647c65a442733a1aa440f99908d249d13b4d6c4a", "Laravel cache", "releaseLock", "5.8 on", 1, 1, redlockRelease},
	{"d5f94f1848f0c54fff99d99dbc4d54184a157c02", "Laravel cache", "refreshLock", "13.16 on", 1, 2, laravelRefresh},
	{"29cc07bd431ccbf64637e5dcb60484560fdfa2da", "Laravel Redis::throttle", "acquire", "5.5 on", 1, 4, laravelThrottle},
	{"1c5d436d6863e949247f4fa66fa1e32b7fa18da9", "Laravel Redis::throttle", "tooManyAttempts", "8.83 on", 1, 4, laravelTooMany},
	{"a37c0266ffc78deeac63f8b030f49a040114114b", "Laravel Redis::throttle, sliding", "acquire", "not yet released", 1, 4, laravelSlide},
	{"cf0152574376c3e3b27c274bf506925dc96e8be5", "Laravel Redis::throttle, sliding", "tooManyAttempts", "not yet released", 1, 4, laravelSlideTooMany},
	{"420ca604de4310d8301943a71390ee669720d640", "Laravel Redis::funnel", "lock", "6.18 on", 0, 3, laravelFunnel{}.lock},
	{"a50243715157b186c5162c69e02eff3bf0c7994a", "Laravel Redis::funnel", "release", "5.8 on", 1, 1, redlockRelease},
	{"da2d0debfcb15563d58979b79fcb9fd1ee01a3d2", "Laravel Redis::funnel", "lock", "5.8 – 6.0", 0, 3, laravelFunnel{named: true}.lock},
	{"f019fadb2be7f759e6da999f739efe1250879ebd", "Laravel Redis::funnel", "lock", "5.5 – 5.7", 0, 2, laravelFunnel{named: true, one: true}.lock},
}

// laravelAdd sets ARGV[1] for ARGV[2] seconds if the key does not exist.
func laravelAdd(r *Run) bool {
	ttl, ok := r.span(1, 1000)
	return ok && r.add(ttl, (*Run).done)
}

// laravelRefresh keeps a lock that holds ARGV[1] for ARGV[2] seconds; 0 is for ever.
func laravelRefresh(r *Run) bool {
	ttl, ok := r.whole(1)
	v, plain := r.str(r.Keys[0])
	return ok && plain && ttl >= 0 && ttl < maxSeconds && r.swap(&v, r.Args[0], ttl*1000)
}

// bucket is what Redis::throttle keeps in a hash: a window, and the count of requests.
type bucket struct {
	key        Value
	there      bool
	start, end []byte
	count      int64
}

// bucketOf opens the hash. It returns false if that is anything but what the script
// writes.
func bucketOf(r *Run) (b bucket, ok bool) {
	if b.key, ok = r.Store.Get(r.Keys[0]); !ok || !b.key.exists() {
		return b, ok
	}
	if b.key.Type != value.Hash {
		return b, false
	}
	h := value.OpenHash(b.key.Body)
	var start, end, count bool
	var n []byte
	b.start, start = h.Get([]byte("start"))
	b.end, end = h.Get([]byte("end"))
	n, count = h.Get([]byte("count"))
	b.count, ok = resp.ParseInt(n)
	b.there = true
	return b, ok && start && end && count && b.count > -maxWhole && b.count < maxWhole
}

// covers reports whether a time is in the bucket's window. The script compares texts.
func (b *bucket) covers(now []byte) bool {
	return b.there && bytes.Compare(now, b.start) >= 0 && bytes.Compare(now, b.end) <= 0
}

// throttleArgs reads the time in seconds, the length of a window and its limit. The
// first argument is the time with a fraction.
func throttleArgs(r *Run) (now, window, most int64, ok bool) {
	var a [3]int64
	for i := range a {
		if a[i], ok = r.whole(i + 1); !ok {
			return 0, 0, 0, false
		}
	}
	return a[0], a[1], a[2], a[1] > 0 && a[1] < maxSeconds/2
}

// laravelThrottle takes one of ARGV[4] requests in ARGV[3] seconds. It replies whether
// it could, when the window ends and how many remain.
func laravelThrottle(r *Run) bool {
	now, window, most, ok := throttleArgs(r)
	b, plain := bucketOf(r)
	if !ok || !plain {
		return false
	}
	r.Array(3)
	if !b.covers(r.Args[0]) {
		newBucket(r, &b, now+window, window)
		r.Int(1)
		r.Int(now + window)
		r.Int(most - 1)
		return true
	}
	h := value.OpenHash(b.key.Body)
	var text [20]byte
	h.Set([]byte("count"), strconv.AppendInt(text[:0], b.count+1, 10))
	r.truth(b.count+1 <= most)
	r.Bulk(b.end)
	r.Int(most - b.count - 1)
	if h.Err() != nil {
		return false
	}
	r.keep(value.Hash, h, b.key.Expires)
	return true
}

// newBucket begins a window.
func newBucket(r *Run, b *bucket, end, window int64) {
	h := value.OpenHash(b.key.Body)
	var text [32]byte
	h.Set([]byte("start"), r.Args[1], []byte("end"), script.AppendNumber(text[:0], float64(end), 17), []byte("count"), []byte("1"))
	r.keep(value.Hash, h, r.millis()+window*2000)
}

// laravelTooMany replies when the window ends, and how many requests remain.
func laravelTooMany(r *Run) bool {
	now, window, most, ok := throttleArgs(r)
	b, plain := bucketOf(r)
	if !ok || !plain {
		return false
	}
	if !b.covers(r.Args[0]) {
		r.pair(0, now+window)
		return true
	}
	r.Array(2)
	r.Bulk(b.end)
	r.Int(most - b.count)
	return true
}

// laravelFunnel is what differs between the versions of the script.
type laravelFunnel struct {
	named bool // it sets the key ARGV[1] and a number, the others the key that it has read
	one   bool // it sets that to 1
}

// lock sets the first key that is absent to ARGV[3] for ARGV[2] seconds, and replies with
// ARGV[1] and the number of that key.
func (f laravelFunnel) lock(r *Run) bool {
	ttl, ok := r.span(1, 1000)
	if !ok {
		return false
	}
	for i, key := range r.Keys {
		v, ok := r.str(key)
		if !ok {
			return false
		}
		if v.exists() {
			continue
		}
		name := strconv.AppendInt(bytes.Clone(r.Args[0]), int64(i+1), 10)
		if f.named && !bytes.Equal(name, key) {
			return false
		}
		text := []byte("1")
		if !f.one {
			text = r.Args[2]
		}
		r.setText(key, text, r.millis()+ttl)
		r.Bulk(name)
		return true
	}
	r.Null()
	return true
}
