package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// If a directory or a file is removed while the store runs, the store notices within a second and writes it
// again from memory. Replies wait until that is durable.
func TestFilesThatAreRemoved(t *testing.T) {
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, pattern := range names {
				found, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(found) == 0 {
					t.Fatal(found, err)
				}
				for _, name := range found {
					if err := os.RemoveAll(name); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	ways := map[string]func(t *testing.T, dir string){
		"the directory": remove(""), "all files": remove("*"), "the log": remove("log-*"), "MANIFEST": remove("MANIFEST"),
		"the directory, in favour of an empty one": func(t *testing.T, dir string) {
			if err := errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, way := range ways {
		for _, policy := range []Policy{Always, EverySec, Never} {
			t.Run(fmt.Sprintf("%s/%d", name, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { removeFiles(t, policy, way) })
			})
		}
	}
}

// The same if the file that is removed has not been written to for long.
func TestOlderFilesThatAreRemoved(t *testing.T) {
	for name, before := range map[string]func(s *Store) error{
		"base-*":       (*Store).Snapshot,
		"log-00000001": func(s *Store) error { _, err := s.Backup("b"); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, tab, _ := onSystem(t, dir, Options{Policy: Always})
			tab.set(1, keyOf(1), stateAt(time.Now().UnixNano()+hour))
			if err := before(s); err != nil {
				t.Fatal(err)
			}
			found, err := filepath.Glob(filepath.Join(dir, name))
			if err != nil || len(found) != 1 || os.Remove(found[0]) != nil {
				t.Fatal(found, err)
			}
			time.Sleep(2 * retryEvery)
			synctest.Wait()
			if err := errors.Join(s.Failing(), s.Close()); err != nil {
				t.Fatal(err)
			}
			again, tab, l := onSystem(t, dir, Options{})
			if tab.len() != 1 || !l.Clean {
				t.Errorf("without %s: %d keys, %+v", name, tab.len(), l)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// onSystem runs a store on the system's files, with a lock.
func onSystem(t *testing.T, dir string, o Options) (*Store, *table, Loaded) {
	t.Helper()
	tab := newTable(2)
	o.Dir, o.Parts, o.Now = dir, []Part{tab.part()}, func() int64 { return time.Now().UnixNano() }
	o.Fatal = func(err error) { t.Error(err) }
	s, l := openLoaded(t, o)
	s.Start()
	return s, tab, l
}

func removeFiles(t *testing.T, policy Policy, way func(t *testing.T, dir string)) {
	dir := filepath.Join(t.TempDir(), "data")
	var refusing []bool
	s, tab, _ := onSystem(t, dir, Options{Policy: policy, Refusing: func(err error) { refusing = append(refusing, err != nil) }})
	set := func(n int) { tab.set(1, keyOf(n), stateAt(time.Now().UnixNano()+hour)); s.Dirtied() }
	set(1)
	time.Sleep(3 * time.Second / 2)
	way(t, dir)
	set(2)
	time.Sleep(time.Second)
	released := false
	set(3)
	waits := s.Wait(func(error) { released = true })
	s.Kick()
	time.Sleep(2 * retryEvery)
	synctest.Wait()
	if fmt.Sprint(refusing) != "[true false]" || s.Failing() != nil {
		t.Errorf("the server was told %v, and now %v", refusing, s.Failing())
	}
	if waits != (policy == Always) || released != waits {
		t.Errorf("a reply waits: %v, released: %v", waits, released)
	}
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("another store in the directory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, tab, l := onSystem(t, dir, Options{})
	if tab.len() != 3 || !l.Clean {
		t.Errorf("%d keys of 3, %+v", tab.len(), l)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// If another directory with data takes the place, the store leaves it alone.
func TestDirectoryThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := t.TempDir()
		dir, other := filepath.Join(top, "data"), filepath.Join(top, "other")
		o, tab, _ := onSystem(t, other, Options{})
		tab.set(1, keyOf(9), stateAt(time.Now().UnixNano()+hour))
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		s, tab, _ := onSystem(t, dir, Options{Policy: Always})
		if err := errors.Join(os.Rename(dir, dir+".away"), os.Rename(other, dir)); err != nil {
			t.Fatal(err)
		}
		tab.set(1, keyOf(1), stateAt(time.Now().UnixNano()+hour))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := s.Failing(); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		if err := os.Rename(dir, other); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		if err := s.Failing(); err != nil {
			t.Errorf("the place is free, and still %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for dir, key := range map[string]string{dir: keyOf(1), other: keyOf(9)} {
			s, tab, l := onSystem(t, dir, Options{})
			if tab.len() != 1 || tab.get(key) == nil || !l.Clean {
				t.Errorf("%s: %d keys, %+v", dir, tab.len(), l)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The store also leaves a directory alone that has just taken the place, before it has looked for its own.
func TestDirectoryThatHasJustBeenReplaced(t *testing.T) {
	for name, act := range map[string]func(s *Store) error{
		"a snapshot": (*Store).Snapshot, "the log is turned off": (*Store).Retire, "a stop": (*Store).Close,
		"a backup":            func(s *Store) error { _, err := s.Backup("b"); return err },
		"a file is left over": func(s *Store) error { s.removeRest(); return errLost },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				top := t.TempDir()
				dir, other := filepath.Join(top, "data"), filepath.Join(top, "other")
				o, tab, _ := onSystem(t, other, Options{})
				tab.set(1, keyOf(9), stateAt(time.Now().UnixNano()+hour))
				if err := errors.Join(o.Snapshot(), o.Close()); err != nil {
					t.Fatal(err)
				}
				s, tab, _ := onSystem(t, dir, Options{Policy: Always})
				tab.set(1, keyOf(1), stateAt(time.Now().UnixNano()+hour))
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Rename(dir, dir+".away"), os.Rename(other, dir)); err != nil {
					t.Fatal(err)
				}
				if err := act(s); !errors.Is(err, errLost) {
					t.Errorf("%v", err)
				}
				_ = s.Close() // it is closed, or its directory is not there
				again, tab, l := onSystem(t, dir, Options{})
				if tab.len() != 1 || tab.get(keyOf(9)) == nil || !l.Clean {
					t.Errorf("%d keys, %+v", tab.len(), l)
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A store whose disk is full at the start loads its state, refuses writers, and recovers when there is room.
func TestFullDiskAtTheStart(t *testing.T) {
	for _, torn := range []bool{false, true} {
		for keys := range 2 {
			t.Run(fmt.Sprintf("%d keys, torn %v", keys, torn), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { startOnFullDisk(t, keys, torn) })
			})
		}
	}
}

func startOnFullDisk(t *testing.T, keys int, torn bool) {
	dir := t.TempDir()
	if keys > 0 {
		r := run(t, dir, Options{})
		r.set(1)
		r.commit()
		image := t.TempDir() // as after a kill
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if torn {
			log := filepath.Join(image, r.man.logs[0].name())
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(log, append(b, b[headerSize:headerSize+40]...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.close()
		dir = image
	}
	var refusing []bool
	tab, slow := newTable(1), &diskFS{}
	slow.full.Store(true)
	s, err := Open(Options{
		Dir: dir, FS: slow, Parts: []Part{tab.part()}, Policy: Always, Now: func() int64 { return time.Now().UnixNano() },
		Refusing: func(err error) { refusing = append(refusing, err != nil) }, Fatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err != nil || tab.len() != keys {
		t.Fatalf("%d keys of %d, %v", tab.len(), keys, err)
	}
	s.Start()
	time.Sleep(3 * retryEvery)
	synctest.Wait()
	if !errors.Is(s.Failing(), syscall.ENOSPC) || fmt.Sprint(refusing) != "[true]" {
		t.Errorf("%v, the server was told %v", s.Failing(), refusing)
	}
	slow.full.Store(false)
	time.Sleep(2 * retryEvery)
	synctest.Wait()
	if s.Failing() != nil || fmt.Sprint(refusing) != "[true false]" {
		t.Errorf("there is room: %v, the server was told %v", s.Failing(), refusing)
	}
	tab.set(1, keyOf(2), stateAt(time.Now().UnixNano()+hour))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := run(t, dir, Options{})
	if again.tab.len() != keys+1 || !again.news.Clean {
		t.Errorf("%d keys of %d, %+v", again.tab.len(), keys+1, again.news)
	}
	again.close()
}
