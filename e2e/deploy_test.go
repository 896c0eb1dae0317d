package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"limitdb/config"
)

// composeFile is the part of deploy/docker-compose.yml that the tests read.
type composeFile struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Volumes     []string
		Hostname    string
		Healthcheck struct{ Test []string }
		Grace       string `yaml:"stop_grace_period"`
	}
	Volumes map[string]any
}

// object is the part of a Kubernetes object that the tests read.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP   string `yaml:"clusterIP"`
		ServiceName string `yaml:"serviceName"`
		Replicas    int
		Publish     bool   `yaml:"publishNotReadyAddresses"`
		Policy      string `yaml:"podManagementPolicy"`
		MinReady    int    `yaml:"minReadySeconds"`
		Selector    map[string]any
		Template    struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Lifecycle struct {
						PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
					}
					Args           []string
					Ports          []struct{ Name string }
					ReadinessProbe struct {
						HTTPGet struct{ Path string } `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
				}
			}
		}
	}
}

// readYAML decodes each document of a file with its anchors.
func readYAML[T any](t *testing.T, file string) []T {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var v T
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, v)
	}
}

// on replaces the addresses of a service's nodes and the paths of containers by those of this machine.
func on(args []string, pairs ...string) []string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.NewReplacer(pairs...).Replace(args[i])
	}
	return args
}

// The nodes of the compose file form a cluster.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	for _, n := range composed(t, "../deploy/docker-compose.yml", "n1", "n2", "n3") {
		n.has(t, "voters", "3")
	}
}

// The nodes of the compose file with groups form a cluster, and each zone gets a replica of every group.
func TestComposeFileOfGroups(t *testing.T) {
	t.Parallel()
	nodes := composed(t, "../deploy/docker-compose-groups.yml", "n1", "n2", "n3", "n4", "n5", "n6")
	zones, want := map[string]string{}, map[string]string{"n1": "a", "n2": "b", "n3": "c", "n4": "a", "n5": "b", "n6": "c"}
	eventually(t, "all nodes have told their zones", func() bool {
		for _, n := range nodes[0].tableOf("RAFT", "NODES") {
			zones[n["id"]] = n["zone"]
		}
		return maps.Equal(zones, want)
	})
	eventually(t, "each group has replicas in three zones", func() bool {
		all := nodes[0].tableOf("RAFT", "GROUPS")
		for _, g := range all {
			in := map[string]bool{}
			for _, id := range strings.Fields(strings.Trim(g["replicas"], "[]")) {
				in[zones[id]] = true
			}
			if len(in) != 3 {
				return !long() // until then it takes a minute
			}
		}
		return len(all) == 16
	})
}

// composed starts the nodes of a compose file, with the addresses of this machine for those of the containers.
func composed(t *testing.T, path string, names ...string) (nodes []*raftNode) {
	t.Helper()
	file := readYAML[composeFile](t, path)[0]
	if len(file.Services) != len(names) || len(file.Volumes) != len(names) {
		t.Fatalf("%+v", file)
	}
	certs := t.TempDir()
	nodeCerts(t, certs, names...)
	for name, want := range map[string]os.FileMode{"n1.crt": 0o644, "ca.crt": 0o644, "n1.key": 0o600, "ca.key": 0o600} {
		info, err := os.Stat(filepath.Join(certs, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; the image's user reads certificates", name, info.Mode(), err)
		}
	}
	places := []string{"/certs", certs}
	for _, n := range names {
		places = append(places, n+":7380", "127.0.0.1:"+freePort(t), n+":6379", "127.0.0.1:"+freePort(t))
	}
	for i, n := range names {
		s := file.Services[n]
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			mounted := strings.HasPrefix(to, "/certs/") && slices.Contains(on(s.Command), strings.TrimSuffix(to, ":ro"))
			if v != n+":/data" && (!mounted || !strings.HasPrefix(from, "./certs/")) {
				t.Errorf("%s mounts %s", n, v)
			}
		}
		if !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/limitdb", "ping", "--ready"}) {
			t.Errorf("%s: %v: a restart by turns waits for a node that is ready", n, s.Healthcheck)
		}
		if s.Hostname != n || s.Environment["LIMITDB_REQUIREPASS"] == "" {
			t.Errorf("%s: %+v", n, s)
		}
		_, port, _ := strings.Cut(places[5+4*i], ":")
		node := &raftNode{id: n, password: clusterPassword, args: slices.Concat(on(s.Command, places...), []string{"--requirepass", clusterPassword, "--port", port}, timeouts(patience))}
		addr := places[5+4*i]
		o := options{bin: plainBinary(t), noPort: true, ready: func(*proc) bool { return answers(addr) }}
		if node.proc = launch(t, o, t.TempDir(), node.args); node.proc == nil {
			t.Fatal("a port is taken")
		}
		t.Cleanup(node.end)
		node.Addr = addr
		nodes = append(nodes, node)
	}
	return nodes
}

// The objects for Kubernetes have the checksum of the chart that they are made from.
func TestKubernetesFileIsOfTheChart(t *testing.T) {
	sum := sha256.New()
	err := filepath.WalkDir("../deploy/chart", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() == fs.ModeSymlink { // a link to the alerts, which are not in these objects
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", d.Name(), len(text), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"limitdb.yaml", "limitdb-groups.yaml"} {
		text, err := os.ReadFile("../deploy/kubernetes/" + name)
		if want := fmt.Sprintf("\n# Chart: %x\n", sum.Sum(nil)[:8]); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("deploy/chart has changed since %s (%v): go test -C deploy/charttest -run Plain -update", name, err)
		}
	}
}

// Everything that the objects for Kubernetes name exists, and the command lines of all pods are valid.
func TestKubernetesFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file         string
		pods, groups int
	}{{"limitdb.yaml", 3, 1}, {"limitdb-groups.yaml", 6, 16}} {
		t.Run(c.file, func(t *testing.T) { objectsAreWhole(t, "../deploy/kubernetes/"+c.file, c.pods, c.groups) })
	}
}

func objectsAreWhole(t *testing.T, file string, pods, groups int) {
	all := map[string]object{}
	for _, o := range readYAML[object](t, file) {
		all[o.Kind+" "+o.Metadata.Name] = o
	}
	set := all["StatefulSet limitdb"]
	pod := set.Spec.Template
	nodes := all["Service "+set.Spec.ServiceName]
	if nodes.Spec.ClusterIP != "None" || !nodes.Spec.Publish || all["Service limitdb"].Kind == "" || all["PodDisruptionBudget limitdb"].Kind == "" {
		t.Errorf("%+v", all)
	}
	for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance"} {
		if nodes.Spec.Selector[label] != pod.Metadata.Labels[label] || pod.Metadata.Labels[label] == "" {
			t.Errorf("the service selects %v of %v", nodes.Spec.Selector, pod.Metadata.Labels)
		}
	}
	// A pod without a majority is not ready, so pods that wait for one another would wait for ever.
	if set.Spec.Policy != "Parallel" {
		t.Errorf("pods are started %s", set.Spec.Policy)
	}
	work := t.TempDir()
	certs, password := filepath.Join(work, "certs"), filepath.Join(work, "password")
	var names []string
	for i := range set.Spec.Replicas {
		names = append(names, "limitdb-"+string(rune('0'+i)))
	}
	if len(names) != pods {
		t.Errorf("the pods are %v", names)
	}
	nodeCerts(t, certs, names...)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(password, "password"), "secret\n")
	places := []string{"/certs", certs, "/password/", password + "/", "/etc/limitdb", filepath.Join(work, "etc")}
	for name, text := range all["ConfigMap limitdb"].Data {
		write(filepath.Join(work, "etc", name), on([]string{text}, places...)[0])
	}
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	for i, name := range names {
		args := on(pod.Spec.Containers[0].Args, append([]string{"$(POD_NAME)", name}, places...)...)
		r, s := config.New()
		if err := r.Load(config.Sources{Args: args}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.RaftID.Get() != name || s.RaftAddr.Get() != name+"."+set.Spec.ServiceName+":7380" || s.RaftBootstrap.Get() != (i == 0) ||
			i == 0 && int(s.RaftGroups.Get()) != groups ||
			s.RaftJoin.Get() != set.Spec.ServiceName+":6379" || s.RequirePass.Get() != "secret" {
			t.Errorf("%s: %v", name, args)
		}
		if got := run(t, "", plainBinary(t), append(args, "--check-config")...); got.Code != 0 {
			t.Errorf("%s: %s", name, got.Stderr)
		}
	}
	if path := pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Path; path != "/readyz" {
		t.Errorf("readiness is %s", path)
	}
}
