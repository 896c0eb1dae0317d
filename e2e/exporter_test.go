package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// get fetches a page, or returns "" if there is none (yet).
func get(url string) string {
	client := &http.Client{Timeout: deadline}
	defer client.CloseIdleConnections()
	r, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return ""
	}
	return string(b)
}

// TestRedisExporter has Prometheus' redis_exporter scrape a server with some activity, and expects no
// complaint in its log. It enables all options except -check-keys, which supports only the sizes of Redis'
// own types.
func TestRedisExporter(t *testing.T) {
	t.Parallel()
	exporter := need(t, "prometheus-redis-exporter")
	p := start(t, "--requirepass", password, "--slowlog-log-slower-than", "0")
	c := dial(t, p.Addr)
	c.do("AUTH", password)
	for range 100 {
		c.do("CL.THROTTLE", "user123", "15", "30", "60")
	}
	c.do("CL.THROTTLE", "user123")

	listen := "127.0.0.1:" + freePort(t)
	log := follow(t, exporter, "-redis.addr", "redis://"+p.Addr, "-redis.password", password,
		"-web.listen-address", listen, "-debug", "-include-system-metrics", "-export-client-list", "-ping-on-connect",
		"-redis-only-metrics", "-count-keys", "user*")
	var page string
	eventually(t, "redis_exporter answers", func() bool {
		page = get("http://" + listen + "/metrics")
		return page != ""
	})
	page = get("http://" + listen + "/metrics") // the second scrape sees the first
	for _, want := range []string{
		`redis_up 1`,
		`redis_exporter_last_scrape_error{err=""} 0`,
		`redis_connected_clients [1-9]\d*`,
		`redis_commands_total{cmd="cl\.throttle"} 10[01]`,
		`redis_commands_duration_seconds_total{cmd="cl\.throttle"} .*`,
		`redis_commands_processed_total [1-9]\d*`,
		`redis_connections_received_total [1-9]\d*`,
		`redis_db_keys{db="db0"} 1`,
		`redis_keys_count{db="db0",key="user\*"} 1`,
		`redis_config_maxclients 10000`,
		`redis_instance_info{.*redis_version="7\.4\.0".*role="master".*} 1`,
		`redis_memory_used_bytes [1-9].*`,
		`redis_cpu_user_seconds_total .*`,
		`redis_process_id \d+`,
		`redis_slowlog_length [1-9]\d*`,
		`redis_uptime_in_seconds \d+`,
		`redis_start_time_seconds [1-9].*`,
		`redis_total_system_memory_bytes [1-9].*`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(page) {
			t.Errorf("redis_exporter shows no %s", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	for line := range strings.Lines(log.String()) {
		if regexp.MustCompile(`(?i)level=(warn|error|fatal|panic)|panic:|\berr(or)?: `).MatchString(line) {
			t.Errorf("redis_exporter complains: %s", line)
		}
	}
	if !strings.Contains(log.String(), "level=debug") {
		t.Errorf("redis_exporter logs nothing:\n%s", log.String())
	}
}
