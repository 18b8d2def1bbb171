"""Reads a table with PyIceberg and answers questions about it, as JSON. Usage: read.py CATALOG TABLE [KEY=VALUE…]"""

import json
import sys
from collections import Counter, defaultdict

from pyiceberg.catalog.rest import RestCatalog

catalog = RestCatalog("tests", uri=sys.argv[1], **dict(p.split("=", 1) for p in sys.argv[3:]))
table = catalog.load_table(sys.argv[2])
rows = table.scan().to_arrow().to_pylist()
ids = Counter((r["unmapped"]["proxy"], r["unmapped"]["epoch"], r["metadata"]["sequence"]) for r in rows)
hosts, received, denied = Counter(), defaultdict(int), Counter()
for r in rows:
    hosts[r["unmapped"]["host"]] += 1
    received[r["unmapped"]["host"]] += r["traffic"]["bytes_out"]
    if r["disposition_id"] == 2:
        denied[r["unmapped"]["namespace"]] += 1
day = table.scan(row_filter="day = '2027-01-19' and time_dt >= '2027-01-19T06:00:00+00:00' and region = 'eu'")
print(json.dumps({
    "count": len(rows), "distinct": len(ids),
    "hosts": sorted([h, n, received[h]] for h, n in hosts.items()),
    "denied": sorted(denied.items()),
    "first": min((r["time_dt"] for r in rows)).isoformat() if rows else "",
    "actions": sorted(r["api"]["operation"] for r in rows if r.get("api")),
    "of_day": day.to_arrow().num_rows,
    "files_of_day": len(list(day.plan_files())),
    "files": sorted(f.file.file_path for f in table.scan().plan_files()),
    "snapshots": [table.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in table.snapshots()],
}))
