package envoy

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// pageCheck reads parts of Envoy's configuration with its own messages.
type pageCheck struct {
	t     *testing.T
	found map[string]int
}

// as reads a value as a message.
func (c *pageCheck) as(name string, v any, m proto.Message) {
	c.t.Helper()
	c.found[name]++
	b, err := json.Marshal(v)
	if err == nil {
		err = protojson.Unmarshal(b, m)
	}
	if err != nil {
		c.t.Errorf("%s: %v in %s", name, err, b)
	}
}

// look finds the parts that have a message, wherever they are in a value.
func (c *pageCheck) look(v any) {
	c.t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			c.look(e)
		}
	case map[string]any:
		if v["load_assignment"] != nil {
			c.as("cluster", v, new(cluster.Cluster))
			return
		}
		if v["@type"] != nil {
			c.as("any", v, new(anypb.Any))
			return
		}
		if list, ok := v["rate_limits"].([]any); ok {
			for _, e := range list {
				c.as("rate_limit", e, new(route.RateLimit))
			}
		}
		for _, e := range v {
			c.look(e)
		}
	}
}

// TestPage checks that the configurations of Envoy on the page are YAML, and that their parts have no field that Envoy does not know.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	c := pageCheck{t, map[string]int{}}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		var v any
		if err := yaml.Unmarshal(block[1], &v); err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
		c.look(v)
	}
	if c.found["cluster"] != 1 || c.found["any"] != 2 || c.found["rate_limit"] != 4 {
		t.Errorf("found %v", c.found)
	}
}
