package e2e

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// imageConfig is the part of an image's configuration, in Docker's format, that the test reads.
type imageConfig struct {
	Config struct {
		User         string
		Env          []string
		Entrypoint   []string
		Cmd          []string
		WorkingDir   string
		Volumes      map[string]struct{}
		ExposedPorts map[string]struct{}
		Healthcheck  struct{ Test []string }
	} `json:"config"`
}

// TestDockerfile builds the image and runs the container with buildah, which needs neither a daemon nor a
// registry.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	need(t, "buildah")
	if _, err := os.Stat("/bin/busybox"); err != nil {
		lacking(t, "/bin/busybox: Debian's busybox-static is not installed")
	}
	work := t.TempDir()
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	port, httpPort := freePort(t), freePort(t)
	line := []string{"bash", "testdata/image.sh", work, source, port, httpPort}
	if os.Geteuid() != 0 {
		line = append([]string{"buildah", "unshare"}, line...)
	}
	log := &logBuffer{}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = cleanEnviron()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})

	up := func() bool { _, err := os.Stat(filepath.Join(work, "up")); return err == nil }
	for end := time.Now().Add(10 * time.Minute); !up(); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("the image or the container failed: %v", err)
		default:
		}
		if time.Now().After(end) {
			cmd.Process.Kill()
			t.Fatal("the container does not start")
		}
	}
	if ping, _ := os.ReadFile(filepath.Join(work, "ping")); string(ping) != "PONG\n" {
		t.Errorf("the health check prints %q", ping)
	}
	c := dial(t, "127.0.0.1:"+port)
	if got := c.do("CL.THROTTLE", "user123", "15", "30", "60"); got != "[:0 :16 :15 :-1 :2]" {
		t.Errorf("CL.THROTTLE in the container: %q", got)
	}
	// The image has no time zones except those in the binary.
	if got := c.do("RL.TAKE", "k", "FIXED", "5", "CALENDAR", "day", "TZ", "Europe/Berlin"); !strings.HasPrefix(got, "[:0 :5 :4 :-1 ") {
		t.Errorf("a time zone in the container: %q", got)
	}
	info := c.do("INFO", "server")
	if !strings.Contains(info, "limitdb_version:9.8.7-e2e\r\n") {
		t.Errorf("the image's version is not that of the build argument: %q", info)
	}
	if m := regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(info); m == nil {
		t.Errorf("INFO shows no process_id: %q", info)
	} else if status, err := os.ReadFile("/proc/" + m[1] + "/status"); err != nil || !regexp.MustCompile(`(?m)^Uid:\t(\d+)\t`).Match(status) {
		t.Errorf("no status of process %s: %v", m[1], err)
	} else if os.Geteuid() == 0 && !strings.Contains(string(status), "\nUid:\t65532\t65532\t") {
		t.Errorf("the server runs as another user than 65532:\n%s", status)
	}
	if get("http://127.0.0.1:"+httpPort+"/readyz") == "" {
		t.Error("/readyz does not answer with 200")
	}
	c.send(command("SHUTDOWN"))
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the container ended with %v", err)
		}
	case <-time.After(deadline):
		cmd.Process.Kill()
		t.Error("the container does not end")
	}
	checkImage(t, work)
}

func checkImage(t *testing.T, work string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(work, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var image imageConfig
	if err := json.Unmarshal(b, &image); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	c := image.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/limitdb"}) || len(c.Cmd) != 0 || c.WorkingDir != "/data" {
		t.Errorf("user %q, entry point %q, command %q, folder %q", c.User, c.Entrypoint, c.Cmd, c.WorkingDir)
	}
	if want := []string{"CMD", "/limitdb", "ping"}; !slices.Equal(c.Healthcheck.Test, want) {
		t.Errorf("health check %q, want %q", c.Healthcheck.Test, want)
	}
	for _, port := range []string{"6379/tcp", "6380/tcp"} {
		if _, ok := c.ExposedPorts[port]; !ok {
			t.Errorf("port %s is not exposed", port)
		}
	}
	if _, ok := c.Volumes["/data"]; !ok {
		t.Error("/data is no volume")
	}

	files, err := os.ReadFile(filepath.Join(work, "files"))
	if err != nil {
		t.Fatal(err)
	}
	owner := regexp.MustCompile(`(?m)^d \d+ 65532:65532 /data$`)
	if os.Geteuid() == 0 && !owner.Match(files) {
		t.Errorf("/data is not the user's:\n%s", files)
	}
	if n := strings.Count(string(files), "\nf ") + strings.Count(string(files[:1]), "f"); n != 1 {
		t.Errorf("%d files in the image, want the binary alone:\n%s", n, files)
	}
	f, err := elf.Open(filepath.Join(work, "limitdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Error("the binary is not static")
		}
	}
}
