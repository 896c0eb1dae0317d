package serve

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"limitdb/config"
)

func TestCgroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, test := range []struct {
		name string
		fs   fstest.MapFS
		want int64
	}{
		{"no cgroups", fstest.MapFS{}, 0},
		{"v2 without a limit", fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n")}, 0},
		{"v2", fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000000\n")}, 1000000},
		{"v2, the parent is tighter", fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("2000000\n"), "sys/fs/cgroup/a/memory.max": file("1000000\n"),
		}, 1000000},
		{"v2 in a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("5000\n")}, 5000},
		{"v1", fstest.MapFS{"proc/self/cgroup": file("5:cpu,memory:/x\n1:name=systemd:/x\n"), "sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("7000\n")}, 7000},
		{"v1 without a limit", fstest.MapFS{"proc/self/cgroup": file("5:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		{"not a number", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("lots\n")}, 0},
	} {
		if got := cgroupLimit(test.fs); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// maxmemory auto is a share of the cgroup's limit or of the machine's memory, and CONFIG SET reads it again.
func TestMaxMemoryAuto(t *testing.T) {
	v2 := func(limit string) fstest.MapFS {
		return fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte(limit + "\n")}}
	}
	v1 := func(limit string) fstest.MapFS {
		return fstest.MapFS{"proc/self/cgroup": {Data: []byte("5:memory:/\n")}, "sys/fs/cgroup/memory/memory.limit_in_bytes": {Data: []byte(limit + "\n")}}
	}
	r, s := config.New()
	var root fstest.MapFS
	var machine int64
	ran := 0
	r.OnChange(func() error { ran++; _, err := findMaxMemory(s.MaxMemory, root, machine); return err }, s.MaxMemory)
	unknown := "CONFIG SET failed (possibly related to argument 'maxmemory') - maxmemory auto: the system does not say how much memory there is, so give a size"
	for i, step := range []struct {
		root    fstest.MapFS
		machine int64
		set     string
		want    int64
		err     string
	}{
		{v2("1000"), 8000, "auto", 600, ""},
		{v2("2000"), 8000, "auto", 1200, ""}, // the limit was raised
		{v1("500"), 8000, "AUTO", 300, ""},
		{v1("9223372036854771712"), 8000, "auto", 4800, ""},
		{v2("9000"), 8000, "auto", 4800, ""}, // the machine has less than the cgroup may take
		{v2("9000"), 0, "auto", 5400, ""},    // not a system that tells
		{v2("max"), 8000, "3mb", 3 << 20, ""},
		{nil, 0, "auto", 3 << 20, unknown},
		{nil, 8000, "auto", 4800, ""},
		{nil, 8000, "0", 0, ""},
	} {
		root, machine = step.root, step.machine
		before := ran
		err := r.Set(config.Pair{Name: "maxmemory", Value: step.set})
		if text := fmt.Sprint(err); err != nil && text != step.err || err == nil && step.err != "" {
			t.Errorf("step %d: %v, want %q", i, err, step.err)
		}
		if got := s.MaxMemory.Get(); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
		if ran == before {
			t.Errorf("step %d: the memory is not read again", i)
		}
	}
	if got := r.Get("maxmemory"); len(got) != 1 || got[0].Value != "0" {
		t.Errorf("CONFIG GET: %v", got)
	}
}

func TestLimitHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("1000000000\n")}}
	unset := func(string) string { return "" }
	for _, test := range []struct {
		maxMemory, want int64
		getenv          func(string) string
	}{
		{0, 900_000_000, unset},
		{500_000_000, 400_000_000, unset},
		{900_000_000, leastHeap, unset},
		{0, 0, func(string) string { return "1GiB" }},
	} {
		if got := limitHeap(root, test.getenv, test.maxMemory); got != test.want {
			t.Errorf("maxmemory %d: %d, want %d", test.maxMemory, got, test.want)
		}
		if now := debug.SetMemoryLimit(-1); test.want > 0 && now != test.want {
			t.Errorf("maxmemory %d: the collector was told %d", test.maxMemory, now)
		}
	}
}

func TestHeapGrowth(t *testing.T) {
	for _, c := range []struct {
		gogc      string
		maxMemory int64
		grpc      bool
		want      int
	}{{"", 0, false, 100}, {"", 8 << 20, false, 50}, {"", 0, true, 400}, {"", 8 << 20, true, 200}, {"200", 8 << 20, true, 0}, {"off", 0, false, 0}} {
		getenv := func(name string) string { return map[string]string{"GOGC": c.gogc}[name] }
		if got := heapGrowth(getenv, c.maxMemory, c.grpc); got != c.want {
			t.Errorf("GOGC=%s with maxmemory %d: %d, want %d", c.gogc, c.maxMemory, got, c.want)
		}
	}
}
