package serve

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"limitdb/config"
	"limitdb/server/memory"
)

// leastHeap is the lowest memory limit, in bytes, for the Go heap. With less, the garbage collector would run
// all the time.
const leastHeap = 64 << 20

// autoTenths is how many tenths of the memory that the process may use are maxmemory auto. The rest is for the tenth
// and the 16 MB that a table may take beyond maxmemory, for the binary and for the clients' buffers.
const autoTenths = 6

// fitMemory fits maxmemory auto and the Go heap to the memory that the process may use now.
func (p *process) fitMemory() error {
	root := systemRoot()
	most, err := findMaxMemory(p.set.MaxMemory, root, int64(min(memory.TotalMemory(), math.MaxInt64)))
	if err != nil {
		return err
	}
	if p.set.MaxMemory.Auto() {
		p.log.Info("maxmemory is set to its share of the memory that the process may use", "maxmemory", p.set.MaxMemory.Get(), "memory", most)
	}
	if heap := limitHeap(root, os.Getenv, p.set.MaxMemory.Get()); heap > 0 {
		p.log.Info("the heap's limit is set from the cgroup's", "bytes", heap)
	}
	return nil
}

// findMaxMemory finds what maxmemory auto is. It returns the memory that the process may use: the cgroup's limit or, if that is less or there is no
// limit, the machine's memory, 0 if it is unknown.
func findMaxMemory(h *config.Budget, root fs.FS, machine int64) (int64, error) {
	most := cgroupLimit(root)
	if most == 0 || machine > 0 && machine < most {
		most = machine
	}
	h.Find(most / 10 * autoTenths)
	if most == 0 && h.Auto() {
		return 0, errors.New("maxmemory auto: the system does not say how much memory there is, so give a size")
	}
	return most, nil
}

// limitHeap sets the memory limit of the Go heap to what the cgroup leaves for it: nine tenths of the
// cgroup's limit, less what the table may use outside the heap (maxmemory). GOMEMLIMIT in the environment
// takes precedence. It returns the limit in bytes, 0 for none.
func limitHeap(root fs.FS, getenv func(string) string, maxMemory int64) int64 {
	if getenv("GOMEMLIMIT") != "" {
		return 0
	}
	limit := cgroupLimit(root)
	if limit == 0 {
		return 0
	}
	heap := max(leastHeap, limit/10*9-maxMemory)
	debug.SetMemoryLimit(heap)
	return heap
}

// heapGrowth returns the percentage of garbage, relative to the live heap, at which the collector runs.
// With maxmemory it is half of Go's default: collections cost little, because the table is outside the heap.
// With a gRPC port it is four times as much: calls make garbage, the live heap is a few megabytes, and a collection
// costs as much as hundreds of calls. GOGC in the environment takes precedence; the result is then 0.
func heapGrowth(getenv func(string) string, maxMemory int64, grpc bool) (percent int) {
	if getenv("GOGC") != "" {
		return 0
	}
	percent = 100
	if maxMemory > 0 {
		percent = 50
	}
	if grpc {
		percent *= 4
	}
	return percent
}

// cgroupLimit returns the lowest memory limit, in bytes, of the process's cgroup and those above it, 0 if
// there is none.
func cgroupLimit(root fs.FS) int64 {
	least := int64(0)
	note := func(path string) {
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return
		}
		// "max", and the huge number of cgroup v1, mean no limit.
		n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
		if err == nil && n > 0 && n < math.MaxInt64/2 && (least == 0 || n < least) {
			least = n
		}
	}
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		// hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := "", ""
		switch {
		case parts[1] == "":
			mount, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		path := strings.Trim(parts[2], "/")
		for {
			note(strings.TrimSuffix(mount+"/"+path, "/") + "/" + file)
			if path == "" {
				break
			}
			path = strings.TrimSuffix(path[:strings.LastIndexByte("/"+path, '/')], "/")
		}
	}
	return least
}

// systemRoot returns the file system from its root.
func systemRoot() fs.FS { return os.DirFS("/") }
