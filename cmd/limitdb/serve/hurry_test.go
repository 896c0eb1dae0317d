package serve

import (
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestHurry(t *testing.T) {
	for name, c := range map[string]struct {
		signals   []os.Signal
		cancelled bool
		ends      time.Duration // after the last signal; negative means never
	}{
		"none":            {nil, false, -1},
		"a reload":        {[]os.Signal{syscall.SIGHUP}, false, -1},
		"a second signal": {[]os.Signal{syscall.SIGTERM}, true, hurryTime},
		"another kind":    {[]os.Signal{syscall.SIGINT, syscall.SIGHUP}, true, hurryTime},
		"a third":         {[]os.Signal{syscall.SIGTERM, syscall.SIGINT}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal)
				cancelled, ended := false, make(chan int, 1)
				go hurry(signals, slog.New(slog.DiscardHandler), func() { cancelled = true }, func(code int) { ended <- code })
				for _, s := range c.signals {
					signals <- s
				}
				start := time.Now()
				synctest.Wait()
				if cancelled != c.cancelled {
					t.Errorf("cancelled: %v", cancelled)
				}
				if c.ends >= 0 {
					if code := <-ended; code != 1 || time.Since(start) != c.ends {
						t.Errorf("status %d after %v", code, time.Since(start))
					}
					return
				}
				select {
				case <-ended:
					t.Error("the process ended")
				case <-time.After(time.Hour):
				}
				signals <- syscall.SIGTERM // ends the goroutine
				<-ended
			})
		})
	}
}

// A stop that the disk holds up says so, once.
func TestSlowStopIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 10)
		log := slog.New(slog.NewTextHandler(lines(told), nil))
		first := tellIfSlow(log)
		time.Sleep(slowStop / 2)
		first.Stop()
		defer tellIfSlow(log).Stop()
		time.Sleep(slowStop - 1)
		if n := len(told); n > 0 {
			t.Errorf("too early: %s", <-told)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(told); n != 1 {
			t.Fatalf("%d times", n)
		}
		if line := <-told; !strings.Contains(line, "the stop waits for the disk") {
			t.Error(line)
		}
	})
}

// lines sends each line of a log.
type lines chan<- string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
