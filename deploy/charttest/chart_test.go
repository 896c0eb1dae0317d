// Package chart tests deploy/chart: Helm's own checks, and what it makes of many values. It is a module of its own, because Helm and the types of
// Kubernetes are large: scripts/test -long runs it.
package chart

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

const dir = "../chart"

// version is the oldest that the chart is for.
var version = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}

var update = flag.Bool("update", false, "write the files in deploy/kubernetes")

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the text of each template, in the order of their names, without the notes.
func render(c *chart.Chart, release string, values map[string]any) ([]string, error) {
	return renderBy(c, release, values, engine.Engine{Strict: true}.Render)
}

// renderOver is render for an upgrade, where the StatefulSet has so many pods now.
func renderOver(c *chart.Chart, release string, values map[string]any, name string, pods int) ([]string, error) {
	return renderBy(c, release, values, func(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
		return engine.RenderWithClientProvider(c, values, running{name, pods})
	})
}

// running is a Kubernetes cluster that has one StatefulSet.
type running struct {
	name string
	pods int
}

func (r running) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion != "apps/v1" || kind != "StatefulSet" {
		return nil, false, fmt.Errorf("looked up: %s %s", apiVersion, kind)
	}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": r.name, "namespace": "default"}, "spec": map[string]any{"replicas": int64(r.pods)},
	}}
	sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	return fake.NewSimpleDynamicClient(runtime.NewScheme(), set).Resource(sets), true, nil
}

func renderBy(c *chart.Chart, release string, values map[string]any, by func(*chart.Chart, chartutil.Values) (map[string]string, error)) ([]string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = version
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true, Revision: 1}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := by(c, all)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" && filepath.Ext(name) == ".yaml" {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// objects are what a chart makes, by kind and name.
type objects struct {
	t    *testing.T
	all  map[string]any
	pods *apps.StatefulSet
	conf *core.ConfigMap
}

// decode reads each document into the type of its kind, and accepts no field that the type lacks.
func decode(t *testing.T, texts []string) *objects {
	t.Helper()
	o := &objects{t: t, all: map[string]any{}}
	for _, doc := range strings.Split(strings.Join(texts, "\n---\n"), "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		var v any
		switch head.APIVersion + " " + head.Kind {
		case "v1 ConfigMap":
			o.conf = &core.ConfigMap{}
			v = o.conf
		case "v1 Service":
			v = &core.Service{}
		case "apps/v1 StatefulSet":
			o.pods = &apps.StatefulSet{}
			v = o.pods
		case "batch/v1 Job":
			v = &batch.Job{}
		case "policy/v1 PodDisruptionBudget":
			v = &policy.PodDisruptionBudget{}
		case "networking.k8s.io/v1 NetworkPolicy":
			v = &networking.NetworkPolicy{}
		case "cert-manager.io/v1 Issuer":
			v = &certmanager.Issuer{}
		case "cert-manager.io/v1 Certificate":
			v = &certmanager.Certificate{}
		case "monitoring.coreos.com/v1 ServiceMonitor":
			v = &monitoring.ServiceMonitor{}
		case "monitoring.coreos.com/v1 PrometheusRule":
			v = &monitoring.PrometheusRule{}
		default:
			t.Fatalf("an object of kind %s %s", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), v); err != nil {
			t.Errorf("%s %s: %v\n%s", head.Kind, head.Metadata.Name, err, doc)
		}
		name := head.Kind + " " + head.Metadata.Name
		if o.all[name] != nil {
			t.Errorf("two objects are called %s", name)
		}
		o.all[name] = v
	}
	if o.pods == nil || o.conf == nil {
		t.Fatal("no StatefulSet or no ConfigMap")
	}
	return o
}

func (o *objects) has(kind, name string) bool { return o.all[kind+" "+name] != nil }

// check follows every name in an object to what it means. given are the Secrets that somebody else makes.
func (o *objects) check(given []string) {
	t := o.t
	t.Helper()
	made := slices.Clone(given)
	for _, v := range o.all {
		if c, ok := v.(*certmanager.Certificate); ok {
			made = append(made, c.Spec.SecretName)
			if !o.has(c.Spec.IssuerRef.Kind, c.Spec.IssuerRef.Name) {
				t.Errorf("%s: no issuer %s", c.Name, c.Spec.IssuerRef.Name)
			}
		}
	}
	secret := func(of, name string) {
		if !slices.Contains(made, name) {
			t.Errorf("%s: no Secret is called %q", of, name)
		}
	}
	pod := o.pods.Spec.Template
	within := func(of string, selector map[string]string) {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", of)
		}
		for k, v := range selector {
			if pod.Labels[k] != v {
				t.Errorf("%s selects %s=%s, the pods have %s", of, k, v, pod.Labels[k])
			}
		}
	}
	container := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	volumes := map[string]bool{"data": true}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		switch {
		case v.ConfigMap != nil:
			if !o.has("ConfigMap", v.ConfigMap.Name) {
				t.Errorf("no ConfigMap is called %s", v.ConfigMap.Name)
			}
		case v.Secret != nil:
			secret("volume "+v.Name, v.Secret.SecretName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				secret("volume "+v.Name, s.Secret.Name)
			}
		default:
			t.Errorf("volume %s: %+v", v.Name, v)
		}
	}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume is called %s", m.Name)
		}
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes that nobody mounts: %v", volumes)
	}
	within("the StatefulSet", o.pods.Spec.Selector.MatchLabels)
	if s, ok := o.all["Service "+o.pods.Spec.ServiceName].(*core.Service); !ok || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("the service of the pods: %+v", s)
	}
	for name, v := range o.all {
		switch v := v.(type) {
		case *core.Service:
			within(name, v.Spec.Selector)
			for _, p := range v.Spec.Ports {
				if ports[p.Name] != p.Port {
					t.Errorf("%s: port %s is %d, the container's %d", name, p.Name, p.Port, ports[p.Name])
				}
			}
		case *batch.Job:
			o.checkJob(name, v, secret)
		case *policy.PodDisruptionBudget:
			within(name, v.Spec.Selector.MatchLabels)
		case *networking.NetworkPolicy:
			within(name, v.Spec.PodSelector.MatchLabels)
			open := map[string]bool{}
			for _, in := range v.Spec.Ingress {
				if len(in.From) == 0 {
					t.Errorf("%s: everybody may reach %v", name, in.Ports)
				}
				for _, p := range in.Ports {
					open[p.Port.StrVal] = true
				}
			}
			if !slices.Equal(slices.Sorted(maps.Keys(open)), slices.Sorted(maps.Keys(ports))) {
				t.Errorf("%s has the ports %v, the container %v", name, open, ports)
			}
		case *monitoring.PrometheusRule:
			if len(v.Spec.Groups) == 0 || len(v.Spec.Groups[0].Rules) == 0 {
				t.Errorf("%s has no alerts", name)
			}
		case *monitoring.ServiceMonitor:
			if s := o.all["Service "+o.pods.Spec.ServiceName].(*core.Service); !contains(s.Labels, v.Spec.Selector.MatchLabels) {
				t.Errorf("%s does not select %v", name, s.Labels)
			}
			for _, e := range v.Spec.Endpoints {
				if ports[e.Port] == 0 {
					t.Errorf("%s: no port is called %s", name, e.Port)
				}
				if a := e.Authorization; a != nil {
					secret(name, a.Credentials.Name)
				}
			}
		}
	}
}

// checkJob checks a job of a release with fewer nodes.
func (o *objects) checkJob(name string, job *batch.Job, secret func(of, name string)) {
	t, pods := o.t, o.pods.Spec.Template
	t.Helper()
	if !strings.Contains(job.Annotations["helm.sh/hook"], "-rollback") {
		t.Errorf("%s is no hook: %v", name, job.Annotations)
	}
	spec := job.Spec.Template
	if contains(spec.Labels, o.pods.Spec.Selector.MatchLabels) {
		t.Errorf("the StatefulSet takes the pods of %s for its own", name)
	}
	if at := o.all["NetworkPolicy "+o.pods.Name]; at != nil {
		open := false
		for _, in := range at.(*networking.NetworkPolicy).Spec.Ingress {
			for _, from := range in.From {
				s, err := meta.LabelSelectorAsSelector(from.PodSelector)
				open = open || from.NamespaceSelector == nil && err == nil && s.Matches(labels.Set(spec.Labels)) && in.Ports[0].Port.StrVal == "resp"
			}
		}
		if !open {
			t.Errorf("the NetworkPolicy keeps %s out", name)
		}
	}
	c := spec.Spec.Containers[0]
	if c.Image != pods.Spec.Containers[0].Image || *job.Spec.BackoffLimit != 0 || spec.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("%s: %+v", name, job.Spec)
	}
	secret(name, spec.Spec.Volumes[0].Secret.SecretName)
	if s, ok := o.all["Service "+o.pods.Name].(*core.Service); !ok || !slices.Contains(c.Args, fmt.Sprint(s.Name, ":", s.Spec.Ports[0].Port)) {
		t.Errorf("%s asks at %v", name, c.Args)
	}
}

// An upgrade with fewer nodes drains those that go, and removes them afterwards. Another upgrade does neither. Helm cannot look when it only shows
// what it would do, or installs; what it has installed then is right for a rollback.
func TestScaleDown(t *testing.T) {
	c := load(t)
	for _, v := range []struct {
		now, nodes, groups int
		when               string
	}{
		{6, 4, 16, "pre-upgrade,pre-rollback"},
		{5, 3, 1, "pre-upgrade,pre-rollback"},
		{4, 4, 16, "pre-rollback"},
		{4, 6, 16, "pre-rollback"},
		{1, 3, 1, "pre-rollback"},
		{0, 3, 1, "pre-rollback"},
		{1, 1, 1, ""},
		{0, 1, 1, ""},
	} {
		texts, err := renderOver(c, "edge", map[string]any{"nodes": v.nodes, "groups": v.groups, "drainTimeout": 600}, "edge-limitdb", v.now)
		if err != nil {
			t.Fatal(err)
		}
		o := decode(t, texts)
		o.check([]string{"limitdb-password", "limitdb-nodes"})
		for do, when := range map[string]string{"drain": v.when, "remove": strings.ReplaceAll(v.when, "pre-", "post-")} {
			job, ok := o.all["Job edge-limitdb-"+do].(*batch.Job)
			if !ok {
				if when != "" {
					t.Errorf("%+v: no job to %s", v, do)
				}
				continue
			}
			args := fmt.Sprintf("cluster %s edge-limitdb-%d --and-above --timeout 600s -a edge-limitdb:6379 --requirepass-file /password/password", do, v.nodes)
			if got := strings.Join(job.Spec.Template.Spec.Containers[0].Args, " "); got != args || job.Annotations["helm.sh/hook"] != when || *job.Spec.ActiveDeadlineSeconds <= 600 {
				t.Errorf("%+v: %s at %v", v, got, job.Annotations)
			}
		}
	}
	if texts, err := render(c, "limitdb", nil); err != nil || strings.Contains(strings.Join(texts, ""), "-upgrade") {
		t.Errorf("what is installed runs something at an upgrade: %v", err)
	}
	if _, err := renderOver(c, "limitdb", map[string]any{"nodes": 1}, "limitdb", 3); err == nil || !strings.Contains(err.Error(), "limitdb export") {
		t.Errorf("from three nodes to one: %v", err)
	}
}

func contains(all, some map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}

// TestLint runs helm lint.
func TestLint(t *testing.T) {
	for _, values := range []map[string]any{nil, {"nodes": 1}, {"certificates": map[string]any{"certManager": true}, "serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true}}} {
		for _, m := range lint.AllWithKubeVersion(dir, values, "default", &version).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%v: %v", values, m)
			}
		}
	}
}

// TestValues renders the chart with all combinations of some values. All objects are right, and the server accepts every configuration.
func TestValues(t *testing.T) {
	server := filepath.Join(t.TempDir(), "limitdb")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", server, "./cmd/limitdb").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	places := certificates(t)
	c, checked, combinations := load(t), map[string]bool{}, 0
	choices := []struct {
		key    string
		values []any
	}{
		{"nodes", []any{1, 3, 5}},
		{"certificates", []any{nil, map[string]any{"certManager": true}}},
		{"httpPassword", []any{nil, map[string]any{"secret": "given-http"}}},
		{"tls", []any{nil, map[string]any{"secret": "given-tls"}}},
		{"serviceMonitor", []any{nil, map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}}},
		{"prometheusRule", []any{nil, map[string]any{"enabled": true}}},
		{"networkPolicy", []any{nil, map[string]any{"enabled": false}, map[string]any{"clients": []any{map[string]any{"namespaceSelector": map[string]any{}}}}}},
		{"antiAffinity", []any{nil, "required", "none"}},
		{"config", []any{nil, "maxclients 500\nhttp-decisions yes\n"}},
		{"storage", []any{nil, map[string]any{"class": "fast"}}},
	}
	var try func(values map[string]any, at int)
	try = func(values map[string]any, at int) {
		if at < len(choices) {
			for _, v := range choices[at].values {
				with := maps.Clone(values)
				if v != nil {
					with[choices[at].key] = v
				}
				try(with, at+1)
			}
			return
		}
		combinations++
		release := []string{"limitdb", "edge"}[combinations%2]
		texts, err := render(c, release, values)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		o := decode(t, texts)
		given := []string{"limitdb-password", "given-http", "given-tls"}
		if values["certificates"] == nil {
			given = append(given, "limitdb-nodes")
		}
		o.check(given)
		if *o.pods.Spec.Replicas != int32(values["nodes"].(int)) {
			t.Errorf("%d pods, want %v", *o.pods.Spec.Replicas, values["nodes"])
		}
		for i := range *o.pods.Spec.Replicas {
			pod := fmt.Sprint(o.pods.Name, "-", i)
			if key := fmt.Sprint(o.conf.Data, pod); !checked[key] {
				checked[key] = true
				checkConfig(t, server, places, o, pod)
			}
		}
		if t.Failed() {
			t.Fatalf("with the values %v", values)
		}
	}
	try(map[string]any{}, 0)
	t.Logf("%d combinations, %d configurations", combinations, len(checked))
}

// With several groups, there may be any number of nodes, and the first pod begins the groups.
func TestGroups(t *testing.T) {
	server := filepath.Join(t.TempDir(), "limitdb")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", server, "./cmd/limitdb").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	places := certificates(t)
	texts, err := render(load(t), "limitdb", map[string]any{"nodes": 6, "groups": 16})
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, texts)
	o.check([]string{"limitdb-password", "limitdb-nodes"})
	for i := range 6 {
		pod := fmt.Sprint("limitdb-", i)
		if got := strings.Contains(o.conf.Data[pod+".conf"], "raft-groups 16\n"); got != (i == 0) {
			t.Errorf("%s: %s", pod, o.conf.Data[pod+".conf"])
		}
		checkConfig(t, server, places, o, pod)
	}
}

// certificates makes what the pods mount, and returns the paths in the pod and here.
func certificates(t *testing.T) []string {
	t.Helper()
	work := t.TempDir()
	names := []string{"tls"}
	for i := range 6 {
		names = append(names, fmt.Sprint("limitdb-", i), fmt.Sprint("edge-limitdb-", i))
	}
	certs := filepath.Join(work, "certs")
	if out, err := exec.Command("../node-certs", append([]string{certs}, names...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	password := filepath.Join(work, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"/certs/", certs + "/", "/tls/", certs + "/", "/http-password/password", password, "/password/password", password}
}

// checkConfig has the server check the command line and the file of a pod.
func checkConfig(t *testing.T, server string, places []string, o *objects, pod string) {
	t.Helper()
	dir := t.TempDir()
	here := strings.NewReplacer(append([]string{"/etc/limitdb/", dir + "/", "$(POD_NAME)", pod}, places...)...)
	for name, text := range o.conf.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(here.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--check-config"}
	for _, a := range o.pods.Spec.Template.Spec.Containers[0].Args {
		args = append(args, here.Replace(a))
	}
	cmd := exec.Command(server, args...)
	cmd.Env = append(os.Environ(), "LIMITDB_BIND=*", "LIMITDB_DIR="+dir) // as in the image
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s\n%v", pod, err, out, o.conf.Data)
	}
}

// TestBadValues gives values that the chart refuses.
func TestBadValues(t *testing.T) {
	c := load(t)
	for _, bad := range []map[string]any{
		{"nodes": 2},
		{"nodes": "3"},
		{"nodes": 6},
		{"nodes": 33, "groups": 16},
		{"nodes": 1, "groups": 16},
		{"nodes": 6, "groups": 3},
		{"replicas": 3},
		{"antiAffinity": "soft"},
		{"certificates": map[string]any{"duration": "90d"}},
		{"password": map[string]any{"secret": ""}},
		{"tls": map[string]any{"port": 443}},
	} {
		if _, err := render(c, "limitdb", bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// plain are the files with what the chart makes of some values, for those who do not use Helm.
func plain() []plainFile {
	return []plainFile{
		{"limitdb.yaml", "Three nodes with one state: what the chart in deploy/chart makes of its values", "0 1 2", nil, ""},
		{
			"limitdb-groups.yaml", "Six nodes with 16 groups of keys: what the chart in deploy/chart makes of nodes=6,groups=16", "0 1 2 3 4 5",
			map[string]any{"nodes": 6, "groups": 16},
			"# Before you lower replicas, drain the pods that will go: limitdb cluster drain limitdb-5 (docs/groups.md). Afterwards, limitdb cluster remove limitdb-5.\n",
		},
	}
}

type plainFile struct {
	name, what, pods string
	values           map[string]any
	more             string // a line of the head
}

func (f plainFile) path() string { return "../kubernetes/" + f.name }

func (f plainFile) head() string {
	var names []string
	for pod := range strings.FieldsSeq(f.pods) {
		names = append(names, "limitdb-"+pod)
	}
	return fmt.Sprintf(`# %s, for those who do not use Helm.
#
#     deploy/node-certs certs %s
#     kubectl create secret generic limitdb-nodes --from-file=certs/ca.crt \
#       $(for i in %s; do echo --from-file=certs/limitdb-$i.crt --from-file=certs/limitdb-$i.key; done)
#     kubectl create secret generic limitdb-password --from-literal=password=secret
#     kubectl apply -f deploy/kubernetes/%s
#
# Clients use limitdb:6379; any pod serves them. Do not edit this file: go test -C deploy/charttest -run Plain -update writes it.
%s`, f.what, strings.Join(names, " "), f.pods, f.name, f.more)
}

// madeFrom returns the line with the checksum of the chart, by which a test of the main module sees that the chart has changed.
func madeFrom(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
	return fmt.Sprintf("# Chart: %x\n", sum.Sum(nil)[:8])
}

// The objects for those who do not use Helm are what the chart makes of some values.
func TestPlainObjects(t *testing.T) {
	c := load(t)
	for _, f := range plain() {
		texts, err := render(c, "limitdb", f.values)
		if err != nil {
			t.Fatal(err)
		}
		texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(text, "helm.sh/hook:") })
		want := []byte(strings.ReplaceAll(f.head()+madeFrom(t)+strings.Join(texts, "\n---\n")+"\n", "managed-by: Helm", "managed-by: kubectl"))
		if *update {
			if err := os.WriteFile(f.path(), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(f.path()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the chart makes (%v): go test -C deploy/charttest -run Plain -update", f.path(), err)
		}
	}
}
