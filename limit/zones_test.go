package limit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the tests do not depend on the machine's database
)

func TestZonesFind(t *testing.T) {
	var z Zones
	for _, name := range []string{"UTC", "utc", "Utc"} {
		if zone, err := z.Find([]byte(name)); zone != nil || err != nil {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+5", "Etc/UTC", "EST5EDT"} {
		zone, err := z.Find([]byte(name))
		if err != nil || zone == nil || zone.String() != name {
			t.Fatalf("%s: %v, %v", name, zone, err)
		}
		if again, err := z.Find([]byte(name)); again != zone || err != nil {
			t.Errorf("%s is another zone the second time: %v", name, err)
		}
		var none *Zones
		if loaded, err := none.Find([]byte(name)); err != nil || loaded.String() != name {
			t.Errorf("%s, kept nowhere: %v, %v", name, loaded, err)
		}
	}
}

func TestZonesErrors(t *testing.T) {
	long := strings.Repeat("x", 200)
	names := []string{
		"", "Nowhere", "Europe/Nowhere", "Europe", "Europe/", "/Europe/Berlin", "Europe//Berlin", "/", "//",
		"Local", "local", "LOCAL", "posix/Europe/Berlin", "right/Europe/Berlin",
		".", "..", "./Europe/Berlin", "Europe/./Berlin", "../zoneinfo/Europe/Berlin", "/etc/localtime", `\Europe`, `Europe\Berlin`,
		"Europe/Berlin\x00", "Europe/Berlin ", " UTC", "Europe/Berlin\n", "Europe/B\xffrlin", "Ｅurope/Berlin", "zone.tab", "+1", "-", "C:", "~",
		long, long + "/Berlin", strings.Repeat("a/", 40),
	}
	var z Zones
	for _, finder := range []*Zones{&z, nil} {
		for _, name := range names {
			zone, err := finder.Find([]byte(name))
			if zone != nil || !errors.Is(err, ErrZone) || !strings.HasPrefix(err.Error(), "unknown time zone: ") {
				t.Errorf("%q: %v, %v", name, zone, err)
				continue
			}
			checkErrorText(t, err)
		}
	}
	if len(z.known) != 0 {
		t.Errorf("kept %v", z.known)
	}
}

// One zone is one pointer, whichever parser asks first.
func TestZonesFromManyGoroutines(t *testing.T) {
	var z Zones
	var group sync.WaitGroup
	names := []string{"Europe/Berlin", "Asia/Tokyo", "America/New_York", "Nowhere"}
	const each = 8
	found := make([][each]*time.Location, len(names))
	for i, name := range names {
		for k := range each {
			group.Go(func() { found[i][k], _ = z.Find([]byte(name)) })
		}
	}
	group.Wait()
	for i, name := range names {
		for _, zone := range found[i] {
			if zone != found[i][0] || (zone == nil) != (name == "Nowhere") {
				t.Errorf("%s is %p and %p", name, found[i][0], zone)
			}
		}
	}
}

// However many names there be, no more than maxZones are kept; the others work.
func TestZonesAreBounded(t *testing.T) {
	z := Zones{known: map[string]*time.Location{}}
	for i := range maxZones {
		z.known[fmt.Sprint(i)] = time.UTC
	}
	if zone, err := z.Find([]byte("Europe/Berlin")); err != nil || zone.String() != "Europe/Berlin" {
		t.Errorf("%v, %v", zone, err)
	}
	if len(z.known) != maxZones {
		t.Errorf("%d zones are kept", len(z.known))
	}
}

func TestZonesAllocateNothingTwice(t *testing.T) {
	var z Zones
	name := []byte("Europe/Berlin")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := z.Find(name); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
