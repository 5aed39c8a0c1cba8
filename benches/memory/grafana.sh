#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does each query of packaging/grafana-memory.json yield data in a real Prometheus?
#
#   benches/memory/grafana.sh [--server NAME] [--port N] [--json FILE]
#
# A sandbox NAME (postgresql@15) is read by `wringer memory account -o openmetrics` once a second for 40 s. Python serves the file, a Prometheus of its own
# (data in a folder that goes, on 127.0.0.1:N, 19190) scrapes it, and each query of the dashboard is asked as Grafana would. As root, a minute. Needs jq, python3 and
# prometheus (Debian's package is enough; it need not be installed as a service). Exit code 1: a query has no data.
set -euo pipefail
# shellcheck source=benches/memory/common.sh
. "$(dirname "$0")/common.sh"
server=postgresql@15 port=19190 json=$target/bench-memory-grafana.json
take_flags "server port json" "$@"
for program in jq python3 prometheus; do need_program "$program"; done
need_wringer
own_home_and_children
mkdir "$home/www"
deployed "$server"
read_once() {
    "$wringer" --quiet memory account --sandbox bench -o openmetrics >"$home/www/new" 2>"$home/said" || { cat "$home/said" >&2; exit 4; }
    mv "$home/www/new" "$home/www/metrics"
}
read_once
# as OpenMetrics, whose content type Python does not know of a file
python3 - "$home/www" $((port + 1)) >"$home/served" 2>&1 <<'PYTHON' &
import functools, http.server, sys
class Files(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "application/openmetrics-text; version=1.0.0; charset=utf-8"
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), functools.partial(Files, directory=sys.argv[1])).serve_forever()
PYTHON
held+=($!)
cat >"$home/prometheus.yml" <<YAML
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs: [{ job_name: wringer, static_configs: [{ targets: ["127.0.0.1:$((port + 1))"] }] }]
YAML
prometheus --config.file="$home/prometheus.yml" --storage.tsdb.path="$home/prometheus" --web.listen-address="127.0.0.1:$port" >"$home/log" 2>&1 &
held+=($!)
for _ in $(seq 40); do
    read_once
    sleep 1
done
python3 - "$here/packaging/grafana-memory.json" "http://127.0.0.1:$port" "$json" <<'PYTHON'
import json, sys, time, urllib.parse, urllib.request
dashboard, base, to = json.load(open(sys.argv[1])), *sys.argv[2:]
def ask(path, **what):
    return json.load(urllib.request.urlopen(f"{base}/api/v1/{path}?{urllib.parse.urlencode(what)}", timeout=20))["data"]
target = ask("targets")["activeTargets"][0]
if target["health"] != "up":
    sys.exit(f"Prometheus cannot read the metrics: {target['lastError']}")
rows, failed = [], 0
instances = ask("series", **{"match[]": "wringer_memory_total_bytes"})
print(f"{len(instances):>4} series  label_values(wringer_memory_total_bytes, instance)")
now = time.time()
for panel in dashboard["panels"]:
    for one in panel.get("targets", []):
        query = one["expr"].replace("$instance", ".*").replace("$server", ".*")
        found = ask("query_range", query=query, start=now - 30, end=now, step=5)["result"]
        points = [float(value) for series in found for _, value in series["values"]]
        good = [value for value in points if value == value and abs(value) != float("inf")]
        rows.append({"panel": panel["title"], "query": one["expr"], "series": len(found), "points": len(good)})
        failed += not good
        print(f"{len(found):>4} series, {len(good):>4} points  {'' if good else 'NO DATA  '}{panel['title']}: {one['expr']}")
json.dump({"schema": 1, "rows": rows}, open(to, "w"), indent=1)
sys.exit(1 if failed or not instances else 0)
PYTHON
echo "the same as JSON: $json" >&2
