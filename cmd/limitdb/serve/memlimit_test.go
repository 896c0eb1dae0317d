package serve

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
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
		want      int
	}{{"", 0, 100}, {"", 8 << 20, 50}, {"200", 8 << 20, 0}, {"off", 0, 0}} {
		getenv := func(name string) string { return map[string]string{"GOGC": c.gogc}[name] }
		if got := heapGrowth(getenv, c.maxMemory); got != c.want {
			t.Errorf("GOGC=%s with maxmemory %d: %d, want %d", c.gogc, c.maxMemory, got, c.want)
		}
	}
}
