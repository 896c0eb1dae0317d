package script

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What a compiled script counts as is what it takes, whatever it is made of.
func TestSizeOfScripts(t *testing.T) {
	for name, source := range map[string]string{
		"short":     "return %d",
		"sums":      "local x = %d " + strings.Repeat("x=x+1 ", 9_000),
		"functions": "local f, x = nil, %d " + strings.Repeat("f=function()end ", 990),
		"calls":     "local x = %d " + strings.Repeat("f()", 15_000),
		"texts":     "local x = {%d," + strings.Repeat("'a',", 15_000) + "}",
		"locals":    "local x = %d " + strings.Repeat("do local a end ", 4_000),
		"strings":   "return %d, [[" + strings.Repeat("x", 60_000) + "]]",
		"loops":     "local x = %d " + strings.Repeat("for i=1,2 do end ", 3_500),
	} {
		scripts, counted := make([]*Script, 3), 0
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range scripts {
			var err error
			if scripts[i], err = Compile(fmt.Appendf(nil, source, i)); err != nil {
				t.Fatal(name, err)
			}
			counted += scripts[i].Size
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > counted*3/2+100_000 {
			t.Errorf("%s: %d bytes are counted, and %d taken", name, counted, took)
		}
		runtime.KeepAlive(scripts)
	}
	if _, err := Compile([]byte("local f " + strings.Repeat("f=function()end ", 1000))); err == nil || !strings.HasSuffix(err.Error(), "user_script: more than 1000 functions") {
		t.Errorf("1001 functions: %v", err)
	}
}
