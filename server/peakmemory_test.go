package server

import (
	"regexp"
	"strconv"
	"testing"
)

// The peak of memory never goes back, and what is in use is a share of it.
func TestPeakMemory(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	figure := func(name string) float64 {
		found := regexp.MustCompile(`\b` + name + `:([0-9.]+)`).FindStringSubmatch(c.do("INFO", "memory").Text)
		if found == nil {
			t.Fatalf("no %s", name)
		}
		n, _ := strconv.ParseFloat(found[1], 64)
		return n
	}
	ts.memory.Peak(1 << 40)
	if peak, human, share := figure("used_memory_peak"), figure("used_memory_peak_human"), figure("used_memory_peak_perc"); peak < 1<<40 || human != 1 || share > 1 {
		t.Errorf("%v, %v (of 1 TB), %v %%", peak, human, share)
	}
	if ts.memory.Peak(0); figure("used_memory_peak") < 1<<40 {
		t.Error("the peak has gone back")
	}
	if share := figure("used_memory_dataset_perc"); share < 0 || share > 100 {
		t.Errorf("%v %% are data", share)
	}
}
